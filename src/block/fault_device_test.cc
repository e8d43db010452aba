// SPDX-License-Identifier: Apache-2.0
// Each fault alone. Without faults it is in tests/conformance/block_device_suite.h; loss of power
// under a random load is in power_cut_test.cc.
#include "block/fault_device.h"

#include <bit>
#include <string>

#include "block/block_testing.h"

namespace larder::block {
namespace {

constexpr std::uint64_t kBytes = 256U << 10U;
constexpr std::uint32_t kBlock = 4096;

class FaultDeviceTest : public testing::Test {
 protected:
  void make(const FaultOptions& options) {
    queue_.reset();
    device_ = take_value(FaultDevice::create(inner_, options));
    queue_ = queue_of(*device_);
  }
  // Blocks from `block` on.
  Code write(std::uint64_t block, std::size_t count, int value) {
    AlignedBuffer out = buffer_of(count * kBlock, static_cast<std::byte>(value));
    return code_of(write_all(*queue_, block * kBlock, out.span()));
  }
  bool below_is(std::uint64_t block, std::size_t count, int value) {
    AlignedBuffer in = contents(*inner_, block * kBlock, count * kBlock);
    return all_are(in.span(), static_cast<std::byte>(value));
  }
  bool reads(std::uint64_t block, std::size_t count, int value) {
    AlignedBuffer in = buffer_of(count * kBlock, std::byte{0xEE});
    EXPECT_TRUE(read_all(*queue_, block * kBlock, in.span()));
    return all_are(in.span(), static_cast<std::byte>(value));
  }
  std::size_t bits_wrong(std::uint64_t block, std::size_t count, int value) {
    AlignedBuffer in = buffer_of(count * kBlock);
    EXPECT_TRUE(read_all(*queue_, block * kBlock, in.span()));
    std::size_t wrong = 0;
    for (const std::byte byte : in.span()) {
      wrong += static_cast<std::size_t>(
          std::popcount(static_cast<unsigned>(byte ^ static_cast<std::byte>(value))));
    }
    return wrong;
  }

  std::shared_ptr<MemoryDevice> inner_ = take_value(MemoryDevice::create({.bytes = kBytes}));
  std::shared_ptr<FaultDevice> device_;
  std::unique_ptr<BlockQueue> queue_;
};

TEST_F(FaultDeviceTest, WithoutSpaceWritesAreExhaustedAndTheDeviceIsWell) {
  make({});
  EXPECT_EQ(write(1, 2, 7), Code::kOk);
  device_->set_full(true);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(write(3, 2, 8), Code::kExhausted);
  EXPECT_TRUE(flush(*queue_));
  EXPECT_TRUE(reads(1, 2, 7));
  EXPECT_EQ(device_->health().state, HealthState::kHealthy);
  device_->set_full(false);
  EXPECT_EQ(write(3, 2, 9), Code::kOk);
  EXPECT_TRUE(reads(3, 2, 9));
}

TEST_F(FaultDeviceTest, WritesStayAboveUntilTheyAreFlushed) {
  make({});
  EXPECT_TRUE(device_->geometry().volatile_cache);
  EXPECT_EQ(write(1, 2, 7), Code::kOk);
  EXPECT_TRUE(reads(1, 2, 7));
  EXPECT_TRUE(below_is(1, 2, 0));
  ASSERT_TRUE(flush(*queue_));
  EXPECT_TRUE(below_is(1, 2, 7));
  ASSERT_TRUE(discard(*queue_, kBlock, kBlock));
  EXPECT_TRUE(reads(1, 1, 0));
  EXPECT_TRUE(below_is(1, 1, 7));
  queue_.reset();
  device_.reset();  // a process that ends loses nothing
  EXPECT_TRUE(below_is(1, 1, 0));
  EXPECT_TRUE(below_is(2, 1, 7));
}

TEST_F(FaultDeviceTest, AFullCacheIsCarriedDown) {
  make({.cache_bytes_max = 2 * kBlock});
  write(0, 1, 1);
  write(1, 1, 2);
  EXPECT_TRUE(below_is(0, 2, 0));
  write(2, 1, 3);
  EXPECT_TRUE(below_is(0, 1, 1) && below_is(1, 1, 2) && below_is(2, 1, 3));
}

TEST_F(FaultDeviceTest, ACutLosesWhatWasNotFlushed) {
  make({});
  write(0, 4, 1);
  ASSERT_TRUE(flush(*queue_));
  write(0, 4, 2);
  ASSERT_TRUE(device_->cut_power(CutKind::kNothing));
  EXPECT_TRUE(below_is(0, 4, 1));
  EXPECT_EQ(write(0, 1, 3), Code::kUnavailable);
  EXPECT_EQ(code_of(device_->open_queue(1)), Code::kUnavailable);
  EXPECT_EQ(device_->health().state, HealthState::kFailed);
  make({});
  EXPECT_TRUE(reads(0, 4, 1));
  EXPECT_EQ(write(0, 4, 3), Code::kOk);
}

TEST_F(FaultDeviceTest, ACutMayKeepEverythingAlsoWhatIsInFlight) {
  make({});
  write(0, 1, 1);
  AlignedBuffer out = buffer_of(kBlock, std::byte{2});
  const Piece piece{out.data(), kBlock};
  ASSERT_TRUE(queue_->submit(BlockOp::write(kBlock, {&piece, 1})));
  ASSERT_TRUE(queue_->submit(BlockOp::discard(0, kBlock)));
  ASSERT_TRUE(device_->cut_power(CutKind::kEverything));
  for (const BlockDone& done : wait_for(*queue_, 2)) EXPECT_EQ(done.code, Code::kUnavailable);
  EXPECT_TRUE(below_is(0, 1, 0));
  EXPECT_TRUE(below_is(1, 1, 2));
}

TEST_F(FaultDeviceTest, ThePowerGoesAtTheChangeThatWasAskedFor) {
  for (std::uint64_t at = 1; at <= 4; ++at) {
    make({.cut_at = at, .cut_kind = CutKind::kNothing});
    std::uint64_t good = 0;
    good += write(0, 1, 1) == Code::kOk ? 1 : 0;
    EXPECT_TRUE(good == 0 || reads(0, 1, 1));  // does not count
    if (good == 1) good += flush(*queue_) ? 1 : 0;
    if (good == 2) good += discard(*queue_, 0, kBlock) ? 1 : 0;
    if (good == 3) good += write(0, 1, 2) == Code::kOk ? 1 : 0;
    EXPECT_EQ(good, at - 1);
    EXPECT_TRUE(below_is(0, 1, at > 2 ? 1 : 0));
    ASSERT_TRUE(discard(*queue_of(*inner_), 0, kBlock));
  }
}

TEST_F(FaultDeviceTest, ErrorsAreToldAsErrors) {
  make({.read_error = 1, .discard_error = 1});
  AlignedBuffer in = buffer_of(kBlock);
  const auto got = read_all(*queue_, 0, in.span());
  EXPECT_EQ(code_of(got), Code::kUnavailable);
  EXPECT_NE(got.error().message().find("Input/output error"), std::string::npos)
      << got.error().message();
  EXPECT_EQ(write(0, 1, 7), Code::kOk);
  EXPECT_EQ(code_of(discard(*queue_, 0, kBlock)), Code::kUnavailable);
  ASSERT_TRUE(flush(*queue_));
  EXPECT_TRUE(below_is(0, 1, 7));
  EXPECT_EQ(device_->counts().errors, 2U);
  EXPECT_EQ(device_->health().errors, 2U);
}

TEST_F(FaultDeviceTest, AFailedWriteIsTornAtAnySector) {
  std::vector<bool> seen(17);
  for (std::uint64_t seed = 1; seed < 200; ++seed) {
    make({.seed = seed, .write_error = 1});
    EXPECT_EQ(write(0, 2, 7), Code::kUnavailable);
    AlignedBuffer in = buffer_of(2 * kBlock);
    ASSERT_TRUE(read_all(*queue_, 0, in.span()));
    std::size_t sectors = 0;
    while (sectors < 16 && all_are(in.span().subspan(sectors * 512, 512), std::byte{7})) ++sectors;
    EXPECT_TRUE(all_are(in.span().subspan(sectors * 512), std::byte{0}));
    seen[sectors] = true;
    queue_.reset();
    device_.reset();
    ASSERT_TRUE(discard(*queue_of(*inner_), 0, kBytes));
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 17);
}

TEST_F(FaultDeviceTest, AFailedFlushFailsTheDeviceAndKeepsAPart) {
  bool lost = false;
  bool kept = false;
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    make({.seed = seed, .flush_error = 1});
    write(0, 8, 7);
    EXPECT_EQ(code_of(flush(*queue_)), Code::kUnavailable);
    EXPECT_EQ(device_->health().state, HealthState::kFailed);
    EXPECT_EQ(code_of(flush(*queue_)), Code::kUnavailable);
    queue_.reset();
    device_.reset();
    lost |= !below_is(0, 8, 7);
    kept |= !below_is(0, 8, 0);
    ASSERT_TRUE(discard(*queue_of(*inner_), 0, kBytes));
  }
  EXPECT_TRUE(lost && kept);
}

TEST_F(FaultDeviceTest, LateOperationsEndAfterMorePollsInAnotherOrder) {
  make({.seed = 5, .late = 0.7, .reorder = 0.5});
  AlignedBuffer in = buffer_of(16 * kBlock);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < 16; ++i) pieces.push_back({in.data() + i * kBlock, kBlock});
  for (std::size_t i = 0; i < 16; ++i) {
    ASSERT_TRUE(queue_->submit(BlockOp::read(i * kBlock, {&pieces[i], 1}, i)));
  }
  std::vector<BlockDone> done(16);
  EXPECT_LT(queue_->poll(done), 16U);
  const std::size_t left = queue_->in_flight();
  const auto rest = wait_for(*queue_, left);
  const auto sorted = [](const BlockDone& a, const BlockDone& b) { return a.tag < b.tag; };
  EXPECT_FALSE(std::is_sorted(rest.begin(), rest.end(), sorted));
  EXPECT_GT(device_->counts().late, 0U);
  EXPECT_GT(device_->counts().reordered, 0U);
}

TEST_F(FaultDeviceTest, NothingEndsWhileItStalls) {
  make({});
  AlignedBuffer out = buffer_of(kBlock, std::byte{7});
  const Piece piece{out.data(), kBlock};
  device_->stall();
  ASSERT_TRUE(queue_->submit(BlockOp::write(0, {&piece, 1})));
  BlockDone done;
  EXPECT_EQ(queue_->poll({&done, 1}), 0U);
  EXPECT_EQ(queue_->wait({&done, 1}, env::monotonic_now()), 0U);
  queue_->wake();
  EXPECT_EQ(queue_->wait({&done, 1}, kNoDeadline), 0U);
  EXPECT_FALSE(queue_->quiesce(env::monotonic_now()));
  EXPECT_EQ(queue_->in_flight(), 1U);
  device_->resume();
  EXPECT_TRUE(queue_->quiesce(env::monotonic_now()));
  EXPECT_EQ(queue_->poll({&done, 1}), 1U);
  EXPECT_TRUE(done.ok());
  EXPECT_TRUE(reads(0, 1, 7));
}

TEST_F(FaultDeviceTest, SomeDisksLie) {
  make({.lost_write = 1});
  EXPECT_EQ(write(0, 1, 7), Code::kOk);
  EXPECT_TRUE(reads(0, 1, 0));
  EXPECT_EQ(device_->counts().lost, 1U);
  make({.lying_flush = 1});
  write(0, 1, 7);
  EXPECT_TRUE(flush(*queue_));
  EXPECT_EQ(device_->counts().lies, 1U);
  ASSERT_TRUE(device_->cut_power(CutKind::kNothing));
  EXPECT_TRUE(below_is(0, 1, 0));
}

TEST_F(FaultDeviceTest, BitsRot) {
  make({.rot = 1});
  write(0, 2, 7);
  EXPECT_EQ(bits_wrong(0, 2, 7), 1U);
  ASSERT_TRUE(flush(*queue_));
  EXPECT_EQ(bits_wrong(0, 2, 7), 1U);
  make({.misread = 1});
  EXPECT_EQ(bits_wrong(4, 2, 0), 1U);
  make({});
  EXPECT_EQ(bits_wrong(4, 2, 0), 0U);
  write(4, 1, 9);
  ASSERT_TRUE(device_->flip_bit(4 * kBlock + 100, 3));
  EXPECT_EQ(bits_wrong(4, 1, 9), 1U);
  EXPECT_EQ(code_of(device_->flip_bit(kBytes, 0)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(device_->flip_bit(0, 8)), Code::kInvalidArgument);
}

TEST_F(FaultDeviceTest, BadPlacesStayBad) {
  make({});
  device_->set_bad(2 * kBlock + 512, 512);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(write(2, 1, 7), Code::kUnavailable);
    EXPECT_EQ(write(1, 4, 7), Code::kUnavailable);
    EXPECT_EQ(write(3, 1, 7), Code::kOk);
    EXPECT_EQ(write(1, 1, 7), Code::kOk);
  }
  AlignedBuffer in = buffer_of(kBlock);
  EXPECT_EQ(code_of(read_all(*queue_, 2 * kBlock, in.span())), Code::kUnavailable);
  EXPECT_TRUE(flush(*queue_));
}

TEST_F(FaultDeviceTest, NeedsADevice) {
  EXPECT_EQ(code_of(FaultDevice::create(nullptr, {})), Code::kInvalidArgument);
}

}  // namespace
}  // namespace larder::block
