// SPDX-License-Identifier: Apache-2.0
// Our initiator against the Linux kernel's target: what it finds, and what it makes of a target
// that changes, stands still or goes.
#include "kernel_target.h"

#include "block/block_testing.h"
#include "nvmf/host/discover.h"

namespace larder::nvmf_guest {
namespace {

using block::AlignedBuffer;
using block::BlockQueue;
using block::HealthState;

constexpr std::string_view kUuid = "0f0e0d0c-1111-4222-8333-444455556666";
constexpr std::string_view kOtherUuid = "0f0e0d0c-1111-4222-8333-444455557777";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <class T>
std::string words(const Result<T>& result) {
  return result ? "ok" : result.error().to_string();
}

class KernelTargetTest : public GuestTest {
 protected:
  void SetUp() override {
    GuestTest::SetUp();
    if (IsSkipped() || HasFailure()) return;
    target_ = std::make_unique<KernelTarget>(guest());
    // A fresh disk, so that nothing of one test is in the next.
    disk_ = fmt::format("d{}", ++disks_);
    guest().must(fmt::format("null_disk {} 4 4096", disk_));
  }
  void TearDown() override {
    if (HasFailure() && SharedGuest::get() != nullptr) {
      std::cout << "guest: " << guest().run("dmesg | tail -10").text << "\n";
    }
    device_.reset();
    target_.reset();
    if (!disk_.empty() && SharedGuest::get() != nullptr) guest().run("no_null_disk " + disk_);
  }

  KernelTarget& target() { return *target_; }
  std::string path() const { return "/dev/" + disk_; }
  void attach(nvmf::NvmeDeviceOptions options) {
    auto opened = nvmf::NvmeDevice::open(options);
    ASSERT_TRUE(opened) << words(opened);
    device_ = std::move(*opened);
  }
  void attach() { attach(KernelTarget::options(target().url())); }
  void forget_device() { device_.reset(); }
  nvmf::NvmeDevice& device() { return *device_; }
  static AlignedBuffer random_bytes(std::size_t bytes) {
    AlignedBuffer buffer = block::buffer_of(bytes);
    std::mt19937_64 random(7);
    block::fill_random(buffer.span(), random);
    return buffer;
  }
  static Result<void> read_some(BlockQueue& queue) {
    AlignedBuffer in = block::buffer_of(4096);
    return block::read_all(queue, 0, in.span());
  }
  // The error of a device that cannot be opened.
  static Error refusal(const nvmf::NvmeDeviceOptions& options) {
    auto opened = nvmf::NvmeDevice::open(options);
    EXPECT_FALSE(opened);
    return opened ? Error(Code::kOk, "") : opened.error();
  }

 private:
  std::unique_ptr<KernelTarget> target_;
  std::string disk_;
  std::shared_ptr<nvmf::NvmeDevice> device_;
  inline static int disks_ = 0;
};

TEST_F(KernelTargetTest, IsDiscoveredAndIdentified) {
  target().add_namespace(1, path(), kUuid);
  const auto found = nvmf::discover({.url = target().url()});
  ASSERT_TRUE(found) << words(found);
  EXPECT_TRUE(
      std::ranges::any_of(*found, [this](const auto& one) { return one.nqn == target().nqn(); }));
  const auto known = nvmf::identify({.url = target().url()});
  ASSERT_TRUE(known) << words(known);
  EXPECT_TRUE(contains(known->controller.limits.model, "Linux"));
  EXPECT_EQ(known->controller.limits.in_capsule_max, 16384U);
  ASSERT_EQ(known->namespaces.size(), 1U);
  EXPECT_EQ(known->namespaces[0].nsid, 1U);
  attach();
  EXPECT_EQ(device().geometry().block_bytes, 4096U);
  EXPECT_EQ(device().geometry().bytes(), 4U << 20U);
  EXPECT_TRUE(device().geometry().volatile_cache);
  EXPECT_TRUE(contains(device().identity().id, kUuid)) << device().identity().id;
}

TEST_F(KernelTargetTest, WhatIsWrittenIsWhatTheKernelHas) {
  target().add_namespace(1, path());
  attach();
  const auto queue = block::queue_of(device());
  // Small ones travel with the command, large ones are asked for; over 1 MiB in several commands.
  const std::size_t sizes[] = {4096, 8192, 16384, 20480, 262144, 3U << 20U};
  for (const std::size_t bytes : sizes) {
    AlignedBuffer out = random_bytes(bytes);
    ASSERT_TRUE(block::write_all(*queue, 0, out.span()));
    ASSERT_TRUE(block::flush(*queue));
    AlignedBuffer in = block::buffer_of(bytes);
    ASSERT_TRUE(block::read_all(*queue, 0, in.span()));
    EXPECT_EQ(std::memcmp(in.data(), out.data(), bytes), 0) << bytes;
  }
  // And without us in between.
  AlignedBuffer text = block::buffer_of(4096, std::byte{'L'});
  ASSERT_TRUE(block::write_all(*queue, 40960, text.span()));
  EXPECT_EQ(guest().must(fmt::format("dd if={} bs=4k skip=10 count=1 2>/dev/null | tr -d L | wc -c",
                                     path())),
            "0\n");
}

TEST_F(KernelTargetTest, RefusesWhatIsNotThere) {
  target().add_namespace(1, path());
  auto wrong = KernelTarget::options(target().url());
  wrong.url.nqn = "nqn.2026-11.io.larder:nobody";
  const Error nobody = refusal(wrong);
  EXPECT_TRUE(contains(nobody.message(), "nobody")) << nobody.to_string();
  const Error nsid = refusal(KernelTarget::options(target().url("", 7)));
  EXPECT_EQ(nsid.code(), Code::kNotFound) << nsid.to_string();
  guest().must(
      fmt::format("echo 0 >$CONFIG/nvmet/subsystems/{}/attr_allow_any_host", target().nqn()));
  const Error stranger = refusal(KernelTarget::options(target().url()));
  EXPECT_TRUE(contains(stranger.message(), "host")) << stranger.to_string();
}

// The next operation finds the way back, and what it needs.
TEST_F(KernelTargetTest, ConnectionsThatEndAreMadeAnew) {
  target().add_namespace(1, path(), kUuid);
  attach();
  const auto queue = block::queue_of(device());
  AlignedBuffer out = random_bytes(65536);
  ASSERT_TRUE(block::write_all(*queue, 0, out.span()));
  ASSERT_TRUE(block::flush(*queue));
  for (int i = 0; i < 3; ++i) {
    guest().must(fmt::format("unlink_all {0} && link 1 {0}", target().nqn()));
    AlignedBuffer in = block::buffer_of(65536);
    const auto read = block::read_all(*queue, 0, in.span());
    ASSERT_TRUE(read) << words(read);
    EXPECT_EQ(std::memcmp(in.data(), out.data(), in.size()), 0);
  }
  EXPECT_TRUE(block::flush(*queue));  // nothing was written since the last one
  EXPECT_EQ(device().health().state, HealthState::kHealthy);
}

TEST_F(KernelTargetTest, AFlushAfterALostConnectionDoesNotLie) {
  target().add_namespace(1, path(), kUuid);
  attach();
  const auto queue = block::queue_of(device());
  ASSERT_TRUE(block::write_all(*queue, 0, random_bytes(4096).span()));
  guest().must(fmt::format("unlink_all {0} && link 1 {0}", target().nqn()));
  // The target may have been another process's or host's: what it had not flushed may be gone.
  const auto flushed = block::flush(*queue);
  EXPECT_FALSE(flushed);
  EXPECT_EQ(device().health().state, HealthState::kFailed);
  EXPECT_FALSE(read_some(*queue));
}

TEST_F(KernelTargetTest, ANamespaceThatIsGoneIsNamed) {
  target().add_namespace(1, path(), kUuid);
  attach();
  const auto queue = block::queue_of(device());
  ASSERT_TRUE(read_some(*queue));
  target().remove_namespace(1);
  const auto read = read_some(*queue);
  ASSERT_FALSE(read);
  EXPECT_TRUE(contains(read.error().message(), target().nqn())) << words(read);
}

TEST_F(KernelTargetTest, AnotherNamespaceInItsPlaceIsNotTouched) {
  target().add_namespace(1, path(), kUuid);
  attach();
  const auto queue = block::queue_of(device());
  ASSERT_TRUE(read_some(*queue));
  // While it is not connected, or it would see that there is none in between.
  guest().must("unlink_all " + target().nqn());
  target().remove_namespace(1);
  guest().must(fmt::format("dd if=/dev/zero of={} bs=4k count=1 conv=notrunc 2>/dev/null", path()));
  target().add_namespace(1, path(), kOtherUuid);
  guest().must("link 1 " + target().nqn());
  EXPECT_FALSE(read_some(*queue));
  EXPECT_EQ(device().health().state, HealthState::kFailed);
  EXPECT_FALSE(block::write_all(*queue, 0, random_bytes(4096).span()));
  const std::string reason = device().health().reason;
  EXPECT_TRUE(contains(reason, kOtherUuid) && contains(reason, kUuid)) << reason;
  EXPECT_EQ(
      guest().must(fmt::format("dd if={} bs=4k count=1 2>/dev/null | tr -d '\\0' | wc -c", path())),
      "0\n");
}

TEST_F(KernelTargetTest, OneThatGrewIsStillTheSameAndOneThatShrankIsNot) {
  guest().must("truncate -s 4M /tmp/resized");
  target().add_namespace(1, "/tmp/resized", kUuid);
  attach();
  const auto queue = block::queue_of(device());
  ASSERT_TRUE(read_some(*queue));
  guest().must(
      fmt::format("truncate -s 8M /tmp/resized; echo 1 >{}/revalidate_size", target().ns(1)));
  ASSERT_TRUE(read_some(*queue));
  EXPECT_EQ(device().geometry().bytes(), 4U << 20U);
  guest().must(
      fmt::format("truncate -s 2M /tmp/resized; echo 1 >{}/revalidate_size", target().ns(1)));
  guest().must(fmt::format("unlink_all {0} && link 1 {0}", target().nqn()));
  const auto read = read_some(*queue);
  EXPECT_FALSE(read);
  EXPECT_EQ(device().health().state, HealthState::kFailed);
  EXPECT_FALSE(device().health().reason.empty());
  guest().must("rm /tmp/resized");
}

// SIGSTOP: no RST, no FIN, nothing comes any more.
TEST_F(KernelTargetTest, AStandstillEndsInADeadlineAndLeavesTheMemoryAlone) {
  target().add_namespace(1, path(), kUuid);
  auto options = KernelTarget::options(target().url());
  options.io_timeout = env::kSecond;
  options.connect_timeout = 2 * env::kSecond;
  options.reattach_timeout = 2 * env::kSecond;
  attach(options);
  const auto queue = block::queue_of(device());
  ASSERT_TRUE(read_some(*queue));
  guest().freeze();
  AlignedBuffer in = block::buffer_of(65536, std::byte{0xEE});
  const env::Nanos begin = env::monotonic_now();
  const auto read = block::read_all(*queue, 0, in.span());
  const env::Nanos took = env::monotonic_now() - begin;
  EXPECT_FALSE(read);
  EXPECT_LT(took, 30 * env::kSecond);
  EXPECT_TRUE(contains(words(read), target().nqn())) << words(read);
  std::fill(in.span().begin(), in.span().end(), std::byte{0x5A});
  guest().thaw();
  guest().must("true");
  EXPECT_TRUE(block::all_are(in.span(), std::byte{0x5A}));
  // And there it is again.
  const auto again = read_some(*queue);
  EXPECT_TRUE(again) << words(again);
  EXPECT_EQ(device().health().state, HealthState::kDegraded);
}

TEST_F(KernelTargetTest, AShortStandstillIsWaitedFor) {
  target().add_namespace(1, path());
  attach();
  const auto queue = block::queue_of(device());
  AlignedBuffer in = block::buffer_of(4096);
  const block::Piece whole{in.data(), in.size()};
  ASSERT_TRUE(read_some(*queue));
  guest().freeze();
  ASSERT_TRUE(queue->submit(block::BlockOp::read(0, {&whole, 1})));
  queue->start();
  block::BlockDone done;
  EXPECT_EQ(queue->wait({&done, 1}, env::monotonic_now() + 300 * env::kMilli), 0U);
  guest().thaw();
  ASSERT_EQ(queue->wait({&done, 1}, env::monotonic_now() + 60 * env::kSecond), 1U);
  EXPECT_TRUE(done.ok());
}

TEST_F(KernelTargetTest, AKilledTargetIsAnErrorThatSaysSo) {
  target().add_namespace(1, path());
  auto options = KernelTarget::options(target().url());
  options.reattach_timeout = env::kSecond;
  attach(options);
  const auto queue = block::queue_of(device());
  ASSERT_TRUE(read_some(*queue));
  guest().kill();
  const auto read = read_some(*queue);
  EXPECT_FALSE(read);
  EXPECT_TRUE(contains(words(read), target().nqn())) << words(read);
  forget_device();
  SharedGuest::give_up();
}

}  // namespace
}  // namespace larder::nvmf_guest
