// SPDX-License-Identifier: Apache-2.0
#include "block/blocking.h"

#include "block/block_testing.h"

namespace larder::block {
namespace {

// Whose operations never end by themselves, and come to rest only when asked a third time.
class HangingQueue final : public BlockQueue {
 public:
  HangingQueue()
      : BlockQueue(
            std::make_shared<DeviceBooks>(Geometry{.blocks = 16, .transfer_max = 65536},
                                          Identity{"script", "script", "script"}, HealthLimits{}),
            4) {}

  unsigned asked = 0;  // to come to rest
  BlockOp taken;

  void start() override {}
  void wake() noexcept override {}
  bool quiesce(env::Nanos) override { return ++asked >= 3; }

 protected:
  Result<void> take(const BlockOp& op) override {
    taken = op;
    return {};
  }
  std::size_t collect(std::span<BlockDone> into) override {
    if (asked < 3 || given_) return 0;
    given_ = true;
    into[0] = {taken.tag, Code::kCancelled, 0, taken.kind, taken.offset, 0, 0};
    return 1;
  }
  std::size_t collect_by(std::span<BlockDone> into, env::Nanos) override { return collect(into); }

 private:
  bool given_ = false;
};

TEST(BlockingCalls, ATimeOutIsToldOnlyWhenTheMemoryIsFree) {
  HangingQueue queue;
  AlignedBuffer in = buffer_of(4096);
  BlockingOptions late;
  late.deadline = env::monotonic_now();
  late.purpose = {Intent::kForegroundPrefixFetch, TrafficClass::kHigh};
  late.trace_id = 77;
  EXPECT_EQ(code_of(read_all(queue, 0, in.span(), late)), Code::kDeadlineExceeded);
  EXPECT_EQ(queue.asked, 3U);
  EXPECT_EQ(queue.in_flight(), 0U);
  EXPECT_EQ(queue.taken.trace_id, 77U);
  EXPECT_EQ(queue.taken.purpose.intent, Intent::kForegroundPrefixFetch);
}

}  // namespace
}  // namespace larder::block
