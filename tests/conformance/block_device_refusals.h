// SPDX-License-Identifier: Apache-2.0
// What block devices refuse before anything moves.
#pragma once

#include "block_device_stage.h"

namespace larder::block {

TEST_P(BlockDeviceConformance, RefusesWhatIsNotAlignedBeforeAnythingMoves) {
  const Geometry& geometry = device().geometry();
  const auto queue = queue_of(device());
  AlignedBuffer out = random_blocks(4);
  const std::uint64_t end = geometry.bytes();
  const Piece good{out.data(), block_};
  const Piece lists[][2] = {{good, {out.data() + block_, block_ / 2}},
                            {good, {out.data() + block_, 0}},
                            {good, {nullptr, block_}},
                            {good, {out.data() + block_ + geometry.memory_alignment / 2, block_}}};
  const auto before = contents(device(), 0, 4 * block_);
  for (const auto& list : lists) {
    if (list[1].data == list[0].data + block_ && list[1].bytes == block_) continue;
    EXPECT_EQ(refused(*queue, BlockOp::write(0, list)), Code::kInvalidArgument);
    EXPECT_EQ(refused(*queue, BlockOp::read(0, list)), Code::kInvalidArgument);
  }
  const std::uint64_t offsets[] = {1, block_ / 2, end, end + block_, ~0ULL, ~0ULL - block_ + 1};
  for (const std::uint64_t offset : offsets) {
    EXPECT_EQ(refused(*queue, BlockOp::write(offset, {&good, 1})), Code::kInvalidArgument);
    EXPECT_EQ(refused(*queue, BlockOp::read(offset, {&good, 1})), Code::kInvalidArgument);
  }
  const Piece two{out.data(), 2 * block_};
  EXPECT_EQ(refused(*queue, BlockOp::write(end - block_, {&two, 1})), Code::kInvalidArgument);
  EXPECT_TRUE(holds(0, const_cast<AlignedBuffer&>(before).span()));
}

TEST_P(BlockDeviceConformance, RefusesWhatMakesNoSense) {
  const auto queue = queue_of(device());
  AlignedBuffer out = random_blocks(1);
  const Piece good{out.data(), block_};
  BlockOp odd = BlockOp::write(0, {&good, 1});
  odd.kind = static_cast<OpKind>(77);
  EXPECT_EQ(refused(*queue, odd), Code::kInvalidArgument);
  EXPECT_EQ(refused(*queue, BlockOp::write(0, {})), Code::kInvalidArgument);
  const std::vector<Piece> many(kPiecesMax + 1, good);
  EXPECT_EQ(refused(*queue, BlockOp::write(0, many)), Code::kInvalidArgument);
  BlockOp flush_at = BlockOp::flush();
  flush_at.offset = block_;
  EXPECT_EQ(refused(*queue, flush_at), Code::kInvalidArgument);
  BlockOp flush_memory = BlockOp::flush();
  flush_memory.pieces = {&good, 1};
  EXPECT_EQ(refused(*queue, flush_memory), Code::kInvalidArgument);
  const Piece huge{out.data(), std::size_t{1} << 62U};  // never touched
  EXPECT_EQ(refused(*queue, BlockOp::read(0, {&huge, 1})), Code::kTooLarge);
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{block_} / 2, ~std::uint64_t{0}}) {
    const Code code = refused(*queue, BlockOp::discard(0, bytes));
    EXPECT_TRUE(code == Code::kInvalidArgument || code == Code::kUnsupported);
  }
}

TEST_P(BlockDeviceConformance, RefusesZeroesThatMakeNoSense) {
  const Geometry& geometry = device().geometry();
  if (geometry.zeroes_max == 0) GTEST_SKIP() << "it has none";
  EXPECT_GE(geometry.zeroes_max, block_);
  const auto queue = queue_of(device());
  AlignedBuffer out = random_blocks(4);
  ASSERT_TRUE(write_all(*queue, 0, out.span()));
  const std::uint64_t end = geometry.bytes();
  const std::pair<std::uint64_t, std::uint64_t> ranges[] = {{0, 0},
                                                            {0, block_ / 2},
                                                            {block_ / 2, block_},
                                                            {end, block_},
                                                            {end - block_, 2 * block_},
                                                            {~0ULL - block_ + 1, block_}};
  for (const auto& [offset, bytes] : ranges) {
    EXPECT_EQ(refused(*queue, BlockOp::write_zeroes(offset, bytes)), Code::kInvalidArgument);
    EXPECT_EQ(code_of(write_zeroes(*queue, offset, bytes)), Code::kInvalidArgument);
  }
  EXPECT_EQ(refused(*queue, BlockOp::write_zeroes(0, geometry.zeroes_max + block_)),
            Code::kTooLarge);
  const Piece good{out.data(), block_};
  BlockOp odd = BlockOp::write_zeroes(0, block_);
  odd.pieces = {&good, 1};
  EXPECT_EQ(refused(*queue, odd), Code::kInvalidArgument);
  odd = BlockOp::write(0, {&good, 1});
  odd.range_bytes = block_;
  EXPECT_EQ(refused(*queue, odd), Code::kInvalidArgument);
  EXPECT_TRUE(holds(0, out.span()));
}

TEST_P(BlockDeviceConformance, DepthIsABound) {
  EXPECT_EQ(code_of(device().open_queue(0)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(device().open_queue(kDepthMax + 1)), Code::kInvalidArgument);
  const auto queue = queue_of(device(), 3);
  AlignedBuffer in = buffer_of(4 * block_);
  Piece pieces[4];
  for (std::size_t i = 0; i < 4; ++i) pieces[i] = {in.data() + i * block_, block_};
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(queue->submit(BlockOp::read(0, {&pieces[i], 1})));
  EXPECT_EQ(code_of(queue->submit(BlockOp::read(0, {&pieces[3], 1}))), Code::kBackpressure);
  EXPECT_EQ(queue->in_flight(), 3U);
  ASSERT_EQ(wait_for(*queue, 3).size(), 3U);
  EXPECT_TRUE(queue->submit(BlockOp::read(0, {&pieces[3], 1})));
  ASSERT_EQ(wait_for(*queue, 1).size(), 1U);
}

}  // namespace larder::block
