// SPDX-License-Identifier: Apache-2.0
// Our initiator, in this process, and a `larder target` process that is stopped, killed, and
// started again with the same and with other namespaces.
#include <sys/resource.h>

#include <iostream>

#include "block/block_testing.h"
#include "nvmf/host/device.h"
#include "target_process.h"

namespace larder::integration {
namespace {

using block::AlignedBuffer;
using block::BlockDone;
using block::BlockOp;
using block::BlockQueue;
using block::HealthState;
using block::Piece;
using nvmf::NvmeDevice;
using nvmf::NvmeDeviceOptions;

constexpr std::string_view kNqn = "nqn.2026-11.io.larder:faults";
constexpr std::size_t kBlock = 4096;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

AlignedBuffer random_blocks(std::size_t count, std::uint64_t seed) {
  AlignedBuffer buffer = block::buffer_of(count * kBlock);
  std::mt19937_64 random(seed);
  block::fill_random(buffer.span(), random);
  return buffer;
}

class NvmfFaults : public testing::Test {
 protected:
  void TearDown() override {
    if (HasFailure() && target_) std::cout << "target: " << target_->log() << "\n";
  }

  TargetProcess& serve(std::vector<std::string> what) {
    target_ = std::make_unique<TargetProcess>(with_nqn(std::move(what)));
    EXPECT_TRUE(target_->start()) << target_->log();
    return *target_;
  }
  static std::vector<std::string> with_nqn(std::vector<std::string> what) {
    what.insert(what.end(), {"--nqn", std::string(kNqn)});
    return what;
  }
  TargetProcess& target() { return *target_; }
  // "--file" of a file of this test's, which stays.
  std::vector<std::string> file(const std::string& name, const std::string& size = "16MiB") {
    return {"--file", dir_.file(name) + ":" + size};
  }
  const Directory& dir() const { return dir_; }

  NvmeDeviceOptions options() const {
    NvmeDeviceOptions how;
    how.url = nvmf::parse_nvme_url("nvme-tcp://127.0.0.1:" + std::to_string(target_->port()) + "/" +
                                   std::string(kNqn))
                  .value();
    how.host.nqn = "nqn.2026-11.io.larder:test-host";
    return how;
  }
  std::shared_ptr<NvmeDevice> attach(const NvmeDeviceOptions& how) {
    auto opened = NvmeDevice::open(how);
    EXPECT_TRUE(opened) << words(opened);
    return opened ? std::move(*opened) : nullptr;
  }
  std::shared_ptr<NvmeDevice> attach() { return attach(options()); }
  static Result<void> read_some(BlockQueue& queue) {
    AlignedBuffer in = block::buffer_of(kBlock);
    return block::read_all(queue, 0, in.span());
  }
  static bool holds(BlockQueue& queue, std::uint64_t offset, ConstBytes expected) {
    AlignedBuffer in = block::buffer_of(expected.size());
    const auto read = block::read_all(queue, offset, in.span());
    EXPECT_TRUE(read) << words(read);
    return read && same(in.span(), expected);
  }

 private:
  const Directory dir_;
  std::unique_ptr<TargetProcess> target_;
};

TEST_F(NvmfFaults, AStandstillEndsInADeadlineAndThenItWorksAgain) {
  serve({"--ram", "16MiB"});
  NvmeDeviceOptions how = options();
  how.io_timeout = 500 * env::kMilli;
  how.connect_timeout = 500 * env::kMilli;
  how.reattach_timeout = env::kSecond;
  const auto device = attach(how);
  const auto queue = block::queue_of(*device);
  ASSERT_TRUE(read_some(*queue));
  target().freeze();
  AlignedBuffer in = block::buffer_of(64 * kBlock, std::byte{0xEE});
  const auto read = block::read_all(*queue, 0, in.span());
  ASSERT_FALSE(read);
  EXPECT_TRUE(contains(words(read), kNqn)) << words(read);
  std::fill(in.span().begin(), in.span().end(), std::byte{0x5A});
  target().thaw();
  const auto again = read_some(*queue);
  EXPECT_TRUE(again) << words(again);
  EXPECT_TRUE(block::all_are(in.span(), std::byte{0x5A}));
  EXPECT_NE(device->health().state, HealthState::kFailed);
}

TEST_F(NvmfFaults, AShortStandstillIsWaitedFor) {
  serve({"--ram", "16MiB"});
  const auto device = attach();
  const auto queue = block::queue_of(*device);
  ASSERT_TRUE(read_some(*queue));
  target().freeze();
  AlignedBuffer in = block::buffer_of(kBlock);
  const Piece whole{in.data(), in.size()};
  ASSERT_TRUE(queue->submit(BlockOp::read(0, {&whole, 1})));
  queue->start();
  BlockDone done;
  EXPECT_EQ(queue->wait({&done, 1}, env::monotonic_now() + 100 * env::kMilli), 0U);
  target().thaw();
  ASSERT_EQ(queue->wait({&done, 1}, env::monotonic_now() + 30 * env::kSecond), 1U);
  EXPECT_TRUE(done.ok());
  EXPECT_EQ(device->health().state, HealthState::kHealthy);
}

TEST_F(NvmfFaults, WhatWasInFlightWhenItWasKilledEndsOnce) {
  serve({"--ram", "64MiB"});
  NvmeDeviceOptions how = options();
  how.reattach_timeout = 500 * env::kMilli;
  const auto device = attach(how);
  const auto queue = block::queue_of(*device, 32);
  AlignedBuffer memory = block::buffer_of(32 * 64 * kBlock);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < 32; ++i) {
    pieces.push_back({memory.data() + i * 64 * kBlock, 64 * kBlock});
  }
  target().freeze();  // so that none can end before
  for (std::size_t i = 0; i < 32; ++i) {
    const std::span<const Piece> piece(&pieces[i], 1);
    const std::uint64_t offset = i * 64 * kBlock;
    ASSERT_TRUE(queue->submit(i % 2 == 0 ? BlockOp::read(offset, piece, i)
                                         : BlockOp::write(offset, piece, i)));
  }
  queue->start();
  target().kill();
  std::vector<int> ends(32);
  for (const BlockDone& done : block::wait_for(*queue, 32)) {
    EXPECT_FALSE(done.ok());
    ++ends.at(done.tag);
  }
  EXPECT_EQ(ends, std::vector<int>(32, 1));
  EXPECT_EQ(queue->in_flight(), 0U);
  EXPECT_FALSE(read_some(*queue));
}

TEST_F(NvmfFaults, StartedAgainWithTheSameFileItGoesOn) {
  serve(file("same"));
  const auto device = attach();
  const auto queue = block::queue_of(*device);
  AlignedBuffer out = random_blocks(64, 1);
  ASSERT_TRUE(block::write_all(*queue, 8 * kBlock, out.span()));
  ASSERT_TRUE(block::flush(*queue));
  for (int i = 0; i < 3; ++i) {
    target().kill();
    ASSERT_TRUE(target().start()) << target().log();
    EXPECT_TRUE(holds(*queue, 8 * kBlock, out.span()));
    EXPECT_TRUE(block::flush(*queue));  // all was flushed before
  }
  // In good order, too.
  EXPECT_EQ(target().stop(), 0);
  ASSERT_TRUE(target().start()) << target().log();
  EXPECT_TRUE(holds(*queue, 8 * kBlock, out.span()));
  EXPECT_EQ(device->health().state, HealthState::kHealthy);
}

TEST_F(NvmfFaults, WhatWasNotFlushedBeforeTheKillIsNotCalledDurable) {
  serve(file("unflushed"));
  const auto device = attach();
  const auto queue = block::queue_of(*device);
  ASSERT_TRUE(block::write_all(*queue, 0, random_blocks(4, 2).span()));
  target().kill();
  ASSERT_TRUE(target().start()) << target().log();
  const auto flushed = block::flush(*queue);
  ASSERT_FALSE(flushed);
  EXPECT_TRUE(contains(words(flushed), kNqn)) << words(flushed);
  EXPECT_EQ(device->health().state, HealthState::kFailed);
  EXPECT_FALSE(read_some(*queue));
  // Opened anew it is a device like any other.
  const auto anew = attach();
  const auto other = block::queue_of(*anew);
  EXPECT_TRUE(read_some(*other));
  EXPECT_TRUE(block::flush(*other));
}

TEST_F(NvmfFaults, AnotherFileUnderTheSameNameIsNotTouched) {
  serve(file("first"));
  const auto device = attach();
  const auto queue = block::queue_of(*device);
  ASSERT_TRUE(block::write_all(*queue, 0, random_blocks(4, 3).span()));
  ASSERT_TRUE(block::flush(*queue));
  target().kill();
  target().set_arguments(with_nqn(file("second")));
  ASSERT_TRUE(target().start()) << target().log();
  const auto written = block::write_all(*queue, 0, random_blocks(4, 4).span());
  ASSERT_FALSE(written);
  EXPECT_EQ(device->health().state, HealthState::kFailed);
  EXPECT_TRUE(contains(device->health().reason, device->identity().id)) << device->health().reason;
  EXPECT_FALSE(read_some(*queue));
  EXPECT_EQ(target().stop(), 0);
  const std::string second = dir().read("second");
  ASSERT_GE(second.size(), 4 * kBlock);
  EXPECT_TRUE(block::all_are(std::as_bytes(std::span(second)), std::byte{0}));
}

TEST_F(NvmfFaults, MemoryIsAnotherMediumAfterARestart) {
  serve({"--ram", "16MiB"});
  const auto device = attach();
  const auto queue = block::queue_of(*device);
  ASSERT_TRUE(block::write_all(*queue, 0, random_blocks(4, 5).span()));
  target().kill();
  ASSERT_TRUE(target().start()) << target().log();
  const auto read = read_some(*queue);
  ASSERT_FALSE(read);  // zeros would be wrong bytes
  EXPECT_EQ(device->health().state, HealthState::kFailed);
  EXPECT_FALSE(device->health().reason.empty());
}

TEST_F(NvmfFaults, AFileThatShrankIsNotTheSame) {
  serve(file("size"));
  const auto device = attach();
  const auto queue = block::queue_of(*device);
  ASSERT_TRUE(read_some(*queue));
  target().kill();
  ASSERT_EQ(::truncate(dir().file("size").c_str(), 8 << 20), 0);
  target().set_arguments(with_nqn(file("size", "8MiB")));
  ASSERT_TRUE(target().start()) << target().log();
  const auto read = read_some(*queue);
  ASSERT_FALSE(read);
  EXPECT_EQ(device->health().state, HealthState::kFailed);
  EXPECT_TRUE(contains(words(read), kNqn)) << words(read);
}

TEST_F(NvmfFaults, AFileThatGrewIsServedSoAndHostsAreTold) {
  serve(file("grows"));
  const auto device = attach();
  const auto queue = block::queue_of(*device);
  AlignedBuffer out = random_blocks(4, 6);
  ASSERT_TRUE(block::write_all(*queue, 0, out.span()));
  ASSERT_EQ(::truncate(dir().file("grows").c_str(), 24 << 20), 0);
  target().signal(SIGHUP);
  EXPECT_TRUE(within(30 * env::kSecond, [&] { return device->nvme_stats().events > 0; }))
      << target().log();
  EXPECT_TRUE(contains(target().log(), "has grown from 16777216 bytes to 25165824"))
      << target().log();
  // Whoever has it goes on with what he knows; whoever comes sees all.
  EXPECT_TRUE(holds(*queue, 0, out.span()));
  EXPECT_TRUE(block::flush(*queue));
  EXPECT_EQ(device->health().state, HealthState::kHealthy);
  EXPECT_EQ(device->geometry().bytes(), 16U << 20U);
  const auto anew = attach();
  ASSERT_EQ(anew->geometry().bytes(), 24U << 20U);
  EXPECT_EQ(anew->identity().id, device->identity().id);
  const auto other = block::queue_of(*anew);
  EXPECT_TRUE(block::write_all(*other, 20U << 20U, out.span()));
  EXPECT_TRUE(block::flush(*other));
  EXPECT_TRUE(holds(*other, 0, out.span()));
  target().signal(SIGHUP);  // nothing is new
  target().signal(SIGHUP);
  EXPECT_TRUE(holds(*other, 20U << 20U, out.span()));
  EXPECT_EQ(target().stop(), 0);
}

TEST_F(NvmfFaults, AFileThatShrinksWhileItIsServedKeepsItsSizeAndSaysErrors) {
  serve(file("shrinks"));
  NvmeDeviceOptions how = options();
  how.health.fail_after = 1000;
  const auto device = attach(how);
  const auto queue = block::queue_of(*device);
  AlignedBuffer out = random_blocks(4, 7);
  ASSERT_TRUE(block::write_all(*queue, 0, out.span()));
  ASSERT_TRUE(block::write_all(*queue, 12U << 20U, out.span()));
  ASSERT_EQ(::truncate(dir().file("shrinks").c_str(), 8 << 20), 0);
  target().signal(SIGHUP);
  EXPECT_TRUE(within(30 * env::kSecond, [&] { return contains(target().log(), "has shrunk"); }))
      << target().log();
  AlignedBuffer in = block::buffer_of(out.size());
  const auto read = block::read_all(*queue, 12U << 20U, in.span());
  EXPECT_FALSE(read) << "zeros, or others' bytes, would be wrong";
  EXPECT_TRUE(holds(*queue, 0, out.span()));
  EXPECT_EQ(attach()->geometry().bytes(), 16U << 20U);
  EXPECT_EQ(device->nvme_stats().events, 0U);
  EXPECT_EQ(target().stop(), 0);
}

TEST_F(NvmfFaults, AThousandConnectionsAreServedAndForgotten) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);  // the target's, too
  if (limit.rlim_cur < 2048) GTEST_SKIP() << "only " << limit.rlim_cur << " descriptors allowed";
  serve({"--ram", "16MiB"});
  const auto device = attach();
  const auto queue = block::queue_of(*device);
  ASSERT_TRUE(read_some(*queue));
  const std::size_t before = target().descriptors();
  const std::uint64_t memory_before = target().memory();
  {
    std::vector<env::Fd> crowd;
    const auto address =
        env::SocketAddress::parse("127.0.0.1:" + std::to_string(target().port())).value();
    while (crowd.size() < 1000) {
      auto fd = env::connect_to(address, env::monotonic_now() + 30 * env::kSecond);
      ASSERT_TRUE(fd) << words(fd) << " after " << crowd.size();
      crowd.push_back(std::move(*fd));
    }
    std::array<std::byte, 128> request{};
    request[2] = request[4] = std::byte{128};  // ICReq: HLEN, PLEN
    for (const env::Fd& fd : crowd) {
      ASSERT_TRUE(env::send_all(fd.get(), request, env::monotonic_now() + 30 * env::kSecond));
    }
    for (const env::Fd& fd : crowd) {
      std::array<std::byte, 128> response{};
      ASSERT_TRUE(env::receive_all(fd.get(), response, env::monotonic_now() + 30 * env::kSecond));
    }
    EXPECT_TRUE(read_some(*queue));
    EXPECT_GE(target().descriptors(), before + 1000);
    EXPECT_LT(target().memory(), memory_before + (256ULL << 20U));
  }
  EXPECT_TRUE(within(30 * env::kSecond, [&] { return target().descriptors() <= before; }));
  EXPECT_TRUE(read_some(*queue));
}

}  // namespace
}  // namespace larder::integration
