// SPDX-License-Identifier: Apache-2.0
// A `larder target` whose namespace is a sparse file in a file system that is smaller: a real one,
// of a few MiB, that is mounted for the target's process alone.
#include <iostream>

#include "block/block_testing.h"
#include "nvmf/host/device.h"
#include "nvmf/target/target_testing_queue.h"
#include "target_process.h"

namespace larder::integration {
namespace {

using block::AlignedBuffer;
using block::BlockDone;
using block::BlockOp;
using block::HealthState;
using block::Piece;
using nvmf::NvmeDevice;

constexpr std::string_view kNqn = "nqn.2026-11.io.larder:full";
constexpr std::size_t kMiB = 1U << 20U;
constexpr std::size_t kPiece = 256U << 10U;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

AlignedBuffer random_bytes(std::size_t bytes, std::uint64_t seed) {
  AlignedBuffer buffer = block::buffer_of(bytes);
  std::mt19937_64 random(seed);
  block::fill_random(buffer.span(), random);
  return buffer;
}

class NvmfFullDisk : public testing::Test {
 protected:
  void SetUp() override {
    const std::string trial = own_mounts() + " true' '" + dir_.path() + "' 2>/dev/null";
    if (std::system(trial.c_str()) != 0) {
      GTEST_SKIP() << "no mounts of one's own here (unshare -Urm): a full disk was NOT tried";
    }
  }
  void TearDown() override {
    if (HasFailure() && target_) std::cout << "target: " << target_->log() << "\n";
  }

  // A target on a file of `bytes` in a file system of `room`, of which `ballast` are taken.
  void serve(std::size_t bytes, std::size_t room, std::size_t ballast) {
    target_ = std::make_unique<TargetProcess>(
        std::vector<std::string>{"--file", dir_.file("ns"), "--nqn", std::string(kNqn)});
    target_->set_launcher("exec " + own_mounts(room) + " truncate -s " + std::to_string(bytes) +
                          " \"$0/ns\" && head -c " + std::to_string(ballast) +
                          " /dev/zero > \"$0/ballast\" && exec \"$@\"' '" + dir_.path() +
                          "' \"$@\"");
    ASSERT_TRUE(target_->start()) << target_->log();
  }
  // Where the target's process sees a file of its own file system.
  std::string inside(const std::string& name) const {
    return "/proc/" + std::to_string(target_->pid()) + "/root" + dir_.file(name);
  }
  void make_room() { ASSERT_EQ(::unlink(inside("ballast").c_str()), 0) << std::strerror(errno); }

  TargetProcess& target() { return *target_; }
  std::string url() const {
    return "nvme-tcp://127.0.0.1:" + std::to_string(target_->port()) + "/" + std::string(kNqn);
  }
  std::shared_ptr<NvmeDevice> attach() const {
    nvmf::NvmeDeviceOptions how;
    how.url = nvmf::parse_nvme_url(url()).value();
    how.host.nqn = "nqn.2026-11.io.larder:test-host";
    auto opened = NvmeDevice::open(how);
    EXPECT_TRUE(opened) << words(opened);
    return opened ? std::move(*opened) : nullptr;
  }

 private:
  // To be followed by shell commands and a single quote. $0 is the directory that is mounted over.
  static std::string own_mounts(std::size_t room = kMiB) {
    return "unshare -Urm sh -c 'mount -t tmpfs -o size=" + std::to_string(room) +
           " none \"$0\" && chmod 755 \"$0\" &&";
  }

  const Directory dir_;
  std::unique_ptr<TargetProcess> target_;
};

// Writes pieces from the front until one does not go; how many did.
std::size_t fill(block::BlockQueue& queue, ConstBytes piece, Result<void>& refusal) {
  const std::uint64_t pieces = queue.geometry().bytes() / piece.size();
  for (std::size_t i = 0; i < pieces; ++i) {
    refusal = block::write_all(queue, i * piece.size(), piece);
    if (!refusal) return i;
  }
  return pieces;
}

TEST_F(NvmfFullDisk, WritesAreRefusedUntilThereIsRoom) {
  serve(64 * kMiB, 8 * kMiB, 3 * kMiB);
  const auto device = attach();
  const auto queue = block::queue_of(*device);
  AlignedBuffer piece = random_bytes(kPiece, 1);
  Result<void> refusal;
  const std::size_t written = fill(*queue, piece.span(), refusal);
  EXPECT_GE(written, 4 * kMiB / kPiece);
  ASSERT_LE(written, 5 * kMiB / kPiece);
  EXPECT_EQ(code_of(refusal), Code::kExhausted);
  EXPECT_EQ(code_of(block::write_zeroes(*queue, 32 * kMiB, 8 * kMiB)), Code::kExhausted);
  EXPECT_TRUE(contains(words(refusal), kNqn)) << words(refusal);
  EXPECT_TRUE(contains(words(refusal), "No space left")) << words(refusal);
  // What is there can be read, and written again; what is not there is zeros.
  const auto holds = [&](std::size_t number, ConstBytes expected) {
    AlignedBuffer in = block::buffer_of(kPiece, std::byte{0xEE});
    const auto read = block::read_all(*queue, number * kPiece, in.span());
    EXPECT_TRUE(read) << words(read);
    return same(in.span(), expected);
  };
  for (std::size_t i = 0; i < written; ++i) EXPECT_TRUE(holds(i, piece.span())) << i;
  EXPECT_TRUE(holds(written + 1, block::buffer_of(kPiece).span()));
  AlignedBuffer other = random_bytes(kPiece, 2);
  EXPECT_TRUE(block::write_all(*queue, kPiece, other.span()));
  EXPECT_TRUE(block::flush(*queue));
  EXPECT_TRUE(holds(1, other.span()));
  EXPECT_EQ(device->health().state, HealthState::kHealthy) << device->health().reason;

  make_room();
  const auto again = block::write_all(*queue, written * kPiece, piece.span());
  EXPECT_TRUE(again) << words(again);
  EXPECT_TRUE(block::flush(*queue));
  EXPECT_TRUE(holds(written, piece.span()));
  EXPECT_EQ(device->health().state, HealthState::kHealthy);
  EXPECT_EQ(target().stop(), 0) << target().log();
}

TEST_F(NvmfFullDisk, WhatIsRefusedHoldsNothingBack) {
  serve(64 * kMiB, 4 * kMiB, 3 * kMiB);
  const auto device = attach();
  const auto queue = block::queue_of(*device);
  AlignedBuffer piece = random_bytes(kMiB, 3);
  Result<void> refusal;
  const std::size_t first = fill(*queue, piece.span(), refusal);  // that fails
  ASSERT_EQ(code_of(refusal), Code::kExhausted);
  const std::size_t descriptors = target().descriptors();
  const std::uint64_t memory = target().memory();
  // More in sum than the target has memory for data under way.
  const Piece whole = Piece::from(piece.span());
  for (int round = 0; round < 40; ++round) {
    for (std::uint64_t i = 0; i < 8; ++i) {
      ASSERT_TRUE(queue->submit(BlockOp::write((first + i) * kMiB, {&whole, 1}, i)));
    }
    std::vector<int> ends(8);
    for (const BlockDone& done : block::wait_for(*queue, 8)) {
      EXPECT_EQ(done.code, Code::kExhausted);
      ++ends.at(done.tag);
    }
    ASSERT_EQ(ends, std::vector<int>(8, 1));
  }
  EXPECT_EQ(target().descriptors(), descriptors);
  EXPECT_LT(target().memory(), memory + 64 * kMiB);
  EXPECT_EQ(device->health().state, HealthState::kHealthy);
  make_room();
  EXPECT_TRUE(block::write_all(*queue, first * kMiB, piece.span()));
}

// What other hosts see: the status that the specification has for it.
TEST_F(NvmfFullDisk, TheStatusIsCapacityExceeded) {
  serve(64 * kMiB, 4 * kMiB, 3 * kMiB);
  env::SocketAddress address;
  address.host = "127.0.0.1";
  address.port = target().port();
  nvmf::TestQueue admin(address);
  admin.negotiate({});
  const std::string nqn(kNqn);
  const nvmf::Answer made = admin.connect({}, 0, nvmf::kAnyController, nqn);
  ASSERT_TRUE(made.status.ok());
  ASSERT_TRUE(admin.set_configuration(nvmf::Cc::enabled()).status.ok());
  nvmf::TestQueue io(address);
  io.negotiate({});
  ASSERT_TRUE(io.connect({}, 1, static_cast<std::uint16_t>(made.value), nqn).status.ok());
  const nvmf::Bytes data = nvmf::pattern(kMiB, 4);
  nvmf::Status status;
  for (std::uint64_t i = 0; i < 4 && status.ok(); ++i) status = io.write(i * 256, data).status;
  EXPECT_EQ(status, nvmf::failed(nvmf::Sc::kCapacityExceeded)) << nvmf::to_string(status);
  EXPECT_TRUE(io.flush().status.ok());
}

// Values under names, as a client sees them.
class Values {
 public:
  explicit Values(const NodeProcess& node)
      : client_(node.connect(Path::kUnixSocket, std::chrono::seconds(2))) {}

  bool put(std::uint64_t i) {
    const auto put = client_->put(name(i), make_value(i, kBytes));
    // That it has no room for now is an answer, too.
    EXPECT_TRUE(put || code_of(put) == Code::kBackpressure) << i << ": " << words(put);
    return put.has_value();
  }
  // How many of the first `end` are there, each with its own bytes; the others are not found.
  std::uint64_t present(std::uint64_t end) {
    std::uint64_t count = 0;
    for (std::uint64_t i = 0; i < end; ++i) {
      const auto got = client_->get(name(i));
      EXPECT_TRUE(got || code_of(got) == Code::kNotFound) << i << ": " << words(got);
      if (!got) continue;
      EXPECT_TRUE(same(got->bytes(), make_value(i, kBytes))) << "wrong bytes under " << i;
      ++count;
    }
    return count;
  }

 private:
  static constexpr std::size_t kBytes = 300'000;
  static std::string name(std::uint64_t i) { return "v/" + std::to_string(i); }
  std::unique_ptr<Client> client_;
};

TEST_F(NvmfFullDisk, ANodeLivesOn) {
  serve(256 * kMiB, 32 * kMiB, 24 * kMiB);
  NodeProcess node("cold.disks: [\"" + url() + "\"]\n");
  ASSERT_TRUE(node.start()) << node.log();
  const auto of_disk = [&](const std::string& what) {
    return node.metric("larder_disk_" + what + "{disk=\"" + url() + "\"}");
  };
  std::uint64_t stored = 0;
  {
    Values values(node);
    constexpr std::uint64_t kMany = 80;  // three times what the disk takes, or DRAM
    // Full is no reason to wait for the disk: DRAM goes on alone, and drops what it must.
    for (; stored < kMany; ++stored) ASSERT_TRUE(values.put(stored)) << stored;
    EXPECT_TRUE(within(30 * env::kSecond, [&] { return of_disk("state") == 1; })) << node.log();
    const double written = of_disk("offloaded_total");
    EXPECT_GT(written, 10);
    EXPECT_GE(values.present(stored), static_cast<std::uint64_t>(written));

    make_room();
    EXPECT_TRUE(within(60 * env::kSecond, [&] { return of_disk("state") == 0; })) << node.log();
    for (; stored < kMany + 20; ++stored) ASSERT_TRUE(values.put(stored)) << stored;
    EXPECT_TRUE(
        within(60 * env::kSecond, [&] { return node.metric("larder_cold_owed_objects") == 0; }))
        << node.metric("larder_cold_owed_objects") << " owed";
    EXPECT_GE(of_disk("offloaded_total"), written + 10);
    EXPECT_EQ(of_disk("read_errors_total"), 0);
  }
  // What the disk says it has, it has: half-written records of the time without room are none.
  const double on_disk = of_disk("records");
  node.kill();
  ASSERT_TRUE(node.start()) << node.log();
  ASSERT_TRUE(within(
      30 * env::kSecond,
      [&] { return of_disk("records") == on_disk && node.metric("larder_cold_scanning") == 0; }))
      << of_disk("records") << " of " << on_disk;
  EXPECT_EQ(Values(node).present(stored), static_cast<std::uint64_t>(on_disk));
  EXPECT_EQ(of_disk("corrupt_total"), 0);
}

}  // namespace
}  // namespace larder::integration
