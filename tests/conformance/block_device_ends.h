// SPDX-License-Identifier: Apache-2.0
// How operations of block devices end, and their queues.
#pragma once

#include "block_device_stage.h"

namespace larder::block {

TEST_P(BlockDeviceConformance, EachEndsOnceUnderItsOwnName) {
  const auto queue = queue_of(device(), 32);
  AlignedBuffer out = random_blocks(32);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < 32; ++i) pieces.push_back({out.data() + i * block_, block_});
  for (std::size_t i = 0; i < 31; ++i) {
    BlockOp op = BlockOp::write(i * block_, {&pieces[i], 1}, 100 + i);
    op.trace_id = 1000 + i;
    ASSERT_TRUE(queue->submit(op));
  }
  ASSERT_TRUE(queue->submit(BlockOp::flush(131)));
  queue->start();
  std::vector<int> times(32);
  for (const BlockDone& done : wait_for(*queue, 32)) {
    EXPECT_TRUE(done.ok());
    ASSERT_GE(done.tag, 100U);
    ASSERT_LT(done.tag, 132U);
    ++times[done.tag - 100];
    if (done.tag == 131) continue;
    EXPECT_EQ(done.kind, OpKind::kWrite);
    EXPECT_EQ(done.trace_id, done.tag + 900);
    EXPECT_EQ(done.offset, (done.tag - 100) * block_);
  }
  EXPECT_EQ(times, std::vector<int>(32, 1));
  BlockDone more;
  EXPECT_EQ(queue->wait({&more, 1}, kNoDeadline), 0U);  // nothing is in flight: it does not sleep
  EXPECT_TRUE(holds(0, out.span().first(31 * block_)));
}

TEST_P(BlockDeviceConformance, AQuietQueueHasEndedEverything) {
  const auto queue = queue_of(device(), 16);
  AlignedBuffer in = buffer_of(16 * block_);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < 16; ++i) pieces.push_back({in.data() + i * block_, block_});
  for (std::size_t i = 0; i < 16; ++i) {
    ASSERT_TRUE(queue->submit(BlockOp::read(i * block_, {&pieces[i], 1}, i)));
    if (i == 8) queue->start();
  }
  ASSERT_TRUE(queue->quiesce(within(kSoon)));
  std::fill(in.span().begin(), in.span().end(), std::byte{0x5A});
  std::vector<BlockDone> done(32);
  ASSERT_EQ(queue->poll(done), 16U);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_TRUE(done[i].ok() || done[i].code == Code::kCancelled);
  }
  EXPECT_EQ(queue->in_flight(), 0U);
  EXPECT_TRUE(all_are(in.span(), std::byte{0x5A}));
  EXPECT_TRUE(read_all(*queue, 0, in.span()));
  EXPECT_EQ(device().health().state, HealthState::kHealthy);
}

TEST_P(BlockDeviceConformance, AQueueMayEndInMidFlightAndOutliveItsDevice) {
  AlignedBuffer out = random_blocks(4);
  const Piece whole{out.data(), out.size()};
  {
    const auto queue = queue_of(device());
    ASSERT_TRUE(queue->submit(BlockOp::write(0, {&whole, 1})));
    queue->start();
  }
  const auto last = queue_of(device());
  stage_->device.reset();
  ASSERT_TRUE(write_all(*last, 0, out.span()));
  AlignedBuffer in = buffer_of(4 * block_);
  ASSERT_TRUE(read_all(*last, 0, in.span()));
  EXPECT_EQ(std::memcmp(in.data(), out.data(), out.size()), 0);
  EXPECT_TRUE(flush(*last));
}

}  // namespace larder::block
