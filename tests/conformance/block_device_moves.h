// SPDX-License-Identifier: Apache-2.0
// What block devices keep, and where.
#pragma once

#include "block_device_stage.h"

namespace larder::block {

TEST_P(BlockDeviceConformance, GeometryMakesSense) {
  const Geometry& geometry = device().geometry();
  EXPECT_TRUE(check(geometry));
  EXPECT_GE(geometry.transfer_max, 64U * block_);
  EXPECT_GT(geometry.optimal_bytes, 0U);
  EXPECT_FALSE(device().identity().kind.empty());
  EXPECT_FALSE(device().identity().name.empty());
  EXPECT_FALSE(device().identity().id.empty());
  EXPECT_EQ(device().health().state, HealthState::kHealthy);
}

TEST_P(BlockDeviceConformance, WhatIsScatteredIsGathered) {
  AlignedBuffer out = random_blocks(8);
  const auto queue = queue_of(device());
  // In another order than it lies in memory.
  const Piece from[] = {Piece::from(out.span().subspan(4 * block_, 3 * block_)),
                        Piece::from(out.span().subspan(0, block_)),
                        Piece::from(out.span().subspan(2 * block_, 2 * block_))};
  ASSERT_TRUE(queue->submit(BlockOp::write(5 * block_, from, 9)));
  const auto written = wait_for(*queue, 1);
  ASSERT_EQ(written.size(), 1U);
  EXPECT_TRUE(written[0].ok()) << describe(device().identity(), written[0]).to_string();
  EXPECT_EQ(written[0].bytes, 6 * block_);
  EXPECT_TRUE(holds(5 * block_, out.span().subspan(4 * block_, 3 * block_)));
  EXPECT_TRUE(holds(8 * block_, out.span().subspan(0, block_)));
  EXPECT_TRUE(holds(9 * block_, out.span().subspan(2 * block_, 2 * block_)));

  AlignedBuffer in = buffer_of(8 * block_, std::byte{0xEE});
  const Piece into[] = {{in.data() + 6 * block_, 2 * block_}, {in.data(), 4 * block_}};
  ASSERT_TRUE(queue->submit(BlockOp::read(5 * block_, into)));
  ASSERT_TRUE(wait_for(*queue, 1).at(0).ok());
  EXPECT_EQ(std::memcmp(in.data() + 6 * block_, out.data() + 4 * block_, 2 * block_), 0);
  EXPECT_EQ(std::memcmp(in.data(), out.data() + 6 * block_, block_), 0);
  EXPECT_EQ(std::memcmp(in.data() + block_, out.data(), block_), 0);
  EXPECT_TRUE(all_are(in.span().subspan(4 * block_, 2 * block_), std::byte{0xEE}));
}

TEST_P(BlockDeviceConformance, QueuesSeeEachOther) {
  const auto one = queue_of(device());
  const auto other = queue_of(device());
  AlignedBuffer in = buffer_of(block_);
  for (int i = 0; i < 20; ++i) {
    AlignedBuffer out = random_blocks(1);
    ASSERT_TRUE(write_all(i % 2 == 0 ? *one : *other, 3 * block_, out.span()));
    ASSERT_TRUE(read_all(i % 2 == 0 ? *other : *one, 3 * block_, in.span()));
    ASSERT_EQ(std::memcmp(in.data(), out.data(), block_), 0) << i;
  }
}

TEST_P(BlockDeviceConformance, DiscardedBlocksAreEmptyAndUsable) {
  const Geometry& geometry = device().geometry();
  const auto queue = queue_of(device());
  AlignedBuffer out = random_blocks(8);
  ASSERT_TRUE(write_all(*queue, 0, out.span()));
  if (geometry.discard_bytes == 0) {
    EXPECT_EQ(code_of(discard(*queue, 0, block_)), Code::kUnsupported);
    return;
  }
  ASSERT_TRUE(discard(*queue, 2 * block_, 3 * block_));
  EXPECT_TRUE(holds(0, out.span().first(2 * block_)));
  EXPECT_TRUE(holds(5 * block_, out.span().subspan(5 * block_)));
  AlignedBuffer gone = contents(device(), 2 * block_, 3 * block_);
  const bool kept = std::memcmp(gone.data(), out.data() + 2 * block_, 3 * block_) == 0;
  EXPECT_TRUE(all_are(gone.span(), std::byte{0}) || (kept && !geometry.discard_zeroes));
  ASSERT_TRUE(write_all(*queue, 3 * block_, out.span().first(block_)));
  EXPECT_TRUE(holds(3 * block_, out.span().first(block_)));
  EXPECT_EQ(code_of(discard(*queue, geometry.bytes(), block_)), Code::kInvalidArgument);
  EXPECT_EQ(device().geometry().bytes(), geometry.bytes());
}

TEST_P(BlockDeviceConformance, ZeroesAreWrittenWithoutMemory) {
  const Geometry& geometry = device().geometry();
  const auto queue = queue_of(device());
  if (geometry.zeroes_max == 0) {
    EXPECT_EQ(refused(*queue, BlockOp::write_zeroes(0, block_)), Code::kUnsupported);
    EXPECT_EQ(code_of(write_zeroes(*queue, 0, block_)), Code::kUnsupported);
    return;
  }
  AlignedBuffer out = random_blocks(kStageBlocks);
  ASSERT_TRUE(write_all(*queue, 0, out.span()));
  ASSERT_TRUE(queue->submit(BlockOp::write_zeroes(2 * block_, 3 * block_, 9)));
  const auto ended = wait_for(*queue, 1);
  ASSERT_EQ(ended.size(), 1U);
  if (GetParam().refuses_zeroes) {
    EXPECT_EQ(ended[0].code, Code::kUnsupported);
    EXPECT_EQ(device().health().state, HealthState::kHealthy);
    EXPECT_TRUE(holds(0, out.span()));
    return;
  }
  EXPECT_TRUE(ended[0].ok()) << describe(device().identity(), ended[0]).to_string();
  EXPECT_EQ(ended[0].kind, OpKind::kWriteZeroes);
  EXPECT_EQ(ended[0].bytes, 3 * block_);
  EXPECT_TRUE(holds(0, out.span().first(2 * block_)));
  EXPECT_TRUE(all_are(contents(device(), 2 * block_, 3 * block_).span(), std::byte{0}));
  EXPECT_TRUE(holds(5 * block_, out.span().subspan(5 * block_)));
  ASSERT_TRUE(write_all(*queue, 3 * block_, out.span().first(block_)));
  EXPECT_TRUE(holds(3 * block_, out.span().first(block_)));
  ASSERT_TRUE(write_zeroes(*queue, 0, kStageBlocks * block_));
  EXPECT_TRUE(all_are(contents(device(), 0, kStageBlocks * block_).span(), std::byte{0}));
  EXPECT_EQ(device().stats().kinds[4].bytes, (3 + kStageBlocks) * block_);
  EXPECT_EQ(device().geometry().bytes(), geometry.bytes());
}

TEST_P(BlockDeviceConformance, KnownBuffersWorkLikeOthers) {
  const auto before = queue_of(device());
  AlignedBuffer buffer = buffer_of(64 * block_);
  device().add_buffer(buffer.span());
  const auto after = queue_of(device());
  fill_random(buffer.span(), random_);
  ASSERT_TRUE(write_all(*before, 0, buffer.span()));
  EXPECT_TRUE(holds(0, buffer.span()));
  AlignedBuffer copy = buffer_of(64 * block_);
  std::memcpy(copy.data(), buffer.data(), buffer.size());
  std::fill(buffer.span().begin(), buffer.span().end(), std::byte{1});
  ASSERT_TRUE(read_all(*after, 0, buffer.span()));
  EXPECT_EQ(std::memcmp(copy.data(), buffer.data(), buffer.size()), 0);
  device().remove_buffer(buffer.span());
  ASSERT_TRUE(read_all(*before, 0, buffer.span()));
}

TEST_P(BlockDeviceConformance, CountsWhatWasDoneAndForWhom) {
  const auto queue = queue_of(device());
  AlignedBuffer out = random_blocks(4);
  BlockingOptions high;
  high.purpose = {Intent::kForegroundPrefixFetch, TrafficClass::kHigh};
  ASSERT_TRUE(write_all(*queue, 0, out.span()));
  ASSERT_TRUE(read_all(*queue, 0, out.span().first(block_), high));
  ASSERT_TRUE(flush(*queue));
  const BlockStats stats = device().stats();
  EXPECT_EQ(stats.kinds[1].bytes, 4 * block_);
  EXPECT_EQ(stats.kinds[0].bytes, block_);
  EXPECT_EQ(stats.kinds[2].ops, 1U);
  EXPECT_EQ(stats.high_bytes, block_);
  EXPECT_EQ(stats.low_bytes, 4 * block_);
}

TEST_P(BlockDeviceConformance, WhatWasFlushedIsThereWhenItIsOpenedAgain) {
  AlignedBuffer out = random_blocks(8);
  const std::string id = device().identity().id;
  const std::uint64_t blocks = device().geometry().blocks;
  {
    const auto queue = queue_of(device());
    ASSERT_TRUE(write_all(*queue, 7 * block_, out.span()));
    if (device().geometry().zeroes_max > 0 && !GetParam().refuses_zeroes) {
      ASSERT_TRUE(write_zeroes(*queue, 9 * block_, 2 * block_));
      std::memset(out.data() + 2 * block_, 0, 2 * block_);
    }
    ASSERT_TRUE(flush(*queue));
  }
  if (!stage_->reopen()) GTEST_SKIP() << "nothing of it survives";
  EXPECT_TRUE(holds(7 * block_, out.span()));
  EXPECT_EQ(device().identity().id, id);
  EXPECT_EQ(device().geometry().blocks, blocks);
}

}  // namespace larder::block
