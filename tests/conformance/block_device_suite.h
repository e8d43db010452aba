// SPDX-License-Identifier: Apache-2.0
// What every block device must do. A test binary includes this and instantiates
// BlockDeviceConformance with one DeviceUnderTest per implementation.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "block/block_testing.h"
#include "env/test_seeds.h"

namespace larder::block {

// A device of at least kStageBlocks blocks, and what it stands on.
class DeviceStage {
 public:
  virtual ~DeviceStage() = default;
  std::shared_ptr<BlockDevice> device;
  // Opens the medium again once `device` and its queues are gone. False: nothing of it survives.
  virtual bool reopen() { return false; }
};
inline constexpr std::uint64_t kStageBlocks = 256;

struct DeviceUnderTest {
  std::string name;                                     // letters and digits
  std::function<std::unique_ptr<DeviceStage>()> stage;  // nullptr: not on this host
};

inline void PrintTo(const DeviceUnderTest& device, std::ostream* out) {
  *out << device.name;
}

class BlockDeviceConformance : public testing::TestWithParam<DeviceUnderTest> {
 protected:
  void SetUp() override {
    stage_ = GetParam().stage();
    if (stage_ == nullptr) GTEST_SKIP() << "not on this host";
    ASSERT_NE(stage_->device, nullptr);
    block_ = device().geometry().block_bytes;
    ASSERT_GE(device().geometry().blocks, kStageBlocks);
  }
  BlockDevice& device() { return *stage_->device; }
  // In blocks.
  AlignedBuffer random_blocks(std::size_t count) {
    AlignedBuffer buffer = buffer_of(count * block_);
    fill_random(buffer.span(), random_);
    return buffer;
  }
  Code refused(BlockQueue& queue, const BlockOp& op) {
    const auto answer = queue.submit(op);
    if (!answer) {
      EXPECT_FALSE(answer.error().message().empty());
    }
    EXPECT_EQ(queue.in_flight(), 0U);
    return code_of(answer);
  }
  bool holds(std::uint64_t offset, std::span<const std::byte> expected) {
    AlignedBuffer got = contents(device(), offset, expected.size());
    return std::memcmp(got.data(), expected.data(), expected.size()) == 0;
  }

  std::unique_ptr<DeviceStage> stage_;
  std::uint32_t block_ = 0;
  std::mt19937_64 random_{7};
};

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
    ASSERT_TRUE(flush(*queue));
  }
  if (!stage_->reopen()) GTEST_SKIP() << "nothing of it survives";
  EXPECT_TRUE(holds(7 * block_, out.span()));
  EXPECT_EQ(device().identity().id, id);
  EXPECT_EQ(device().geometry().blocks, blocks);
}

// Random operations in flight at once that do not meet, against a model in memory.
class ModelTrial {
 public:
  ModelTrial(BlockDevice& device, std::uint64_t seed)
      : device_(device), block_(device.geometry().block_bytes), random_(seed) {
    for (int i = 0; i < 3; ++i) queues_.push_back(queue_of(device, 8));
    model_ = buffer_of(kStageBlocks * block_);
    AlignedBuffer now = contents(device, 0, model_.size());
    std::memcpy(model_.data(), now.data(), now.size());
  }

  void batch() {
    jobs_.clear();
    jobs_.reserve(8);
    std::vector<std::size_t> sent(queues_.size());
    for (int i = 0; i < 8; ++i) {
      const std::size_t number = random_() % queues_.size();
      if (add(*queues_[number])) ++sent[number];
    }
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      for (const BlockDone& done : wait_for(*queues_[i], sent[i])) verify(done);
    }
  }
  void check_all() {
    AlignedBuffer now = contents(device_, 0, model_.size());
    EXPECT_EQ(std::memcmp(now.data(), model_.data(), model_.size()), 0);
  }

 private:
  struct Job {
    OpKind kind = OpKind::kRead;
    std::uint64_t first = 0;  // blocks
    std::uint64_t count = 0;
    AlignedBuffer memory;
    std::vector<Piece> pieces;
  };

  bool add(BlockQueue& queue) {
    Job job;
    job.kind = static_cast<OpKind>(random_() % kOpKindCount);
    if (job.kind == OpKind::kDiscard && !device_.geometry().discard_zeroes) return false;
    if (job.kind != OpKind::kFlush) {
      job.first = random_() % kStageBlocks;
      job.count = 1 + random_() % std::min<std::uint64_t>(kStageBlocks - job.first, 20);
    }
    for (const Job& other : jobs_) {
      const bool apart =
          job.first >= other.first + other.count || other.first >= job.first + job.count;
      if (!apart) return false;
    }
    const bool moves = job.kind == OpKind::kRead || job.kind == OpKind::kWrite;
    if (moves) cut(job);
    jobs_.push_back(std::move(job));
    const Job& kept = jobs_.back();
    BlockOp op{kept.kind, kept.first * block_, kept.pieces, 0, jobs_.size() - 1, {}, 0};
    if (kept.kind == OpKind::kDiscard) op.discard_bytes = kept.count * block_;
    const auto taken = queue.submit(op);
    EXPECT_TRUE(taken) << taken.error().to_string();
    return taken.has_value();
  }
  void cut(Job& job) {
    job.memory = buffer_of(job.count * block_);
    fill_random(job.memory.span(), random_);
    for (std::uint64_t at = 0; at < job.count;) {
      const std::uint64_t part = 1 + random_() % (job.count - at);
      job.pieces.push_back({job.memory.data() + at * block_, part * block_});
      at += part;
    }
  }
  void verify(const BlockDone& done) {
    ASSERT_LT(done.tag, jobs_.size());
    ASSERT_TRUE(done.ok()) << describe(device_.identity(), done).to_string();
    Job& job = jobs_[done.tag];
    std::byte* at = model_.data() + job.first * block_;
    const std::size_t bytes = job.count * block_;
    if (job.kind == OpKind::kRead) {
      ASSERT_EQ(std::memcmp(at, job.memory.data(), bytes), 0);
    }
    if (job.kind == OpKind::kWrite) std::memcpy(at, job.memory.data(), bytes);
    if (job.kind == OpKind::kDiscard) std::memset(at, 0, bytes);
  }

  BlockDevice& device_;
  const std::uint32_t block_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<BlockQueue>> queues_;
  AlignedBuffer model_;
  std::vector<Job> jobs_;
};

TEST_P(BlockDeviceConformance, AgreesWithAModelInMemory) {
  const env::TestSeeds seeds = env::test_seeds(6);
  for (std::uint64_t seed = seeds.first; seed < seeds.end() && !HasFailure(); ++seed) {
    SCOPED_TRACE(env::seed_trace(seed, "block_conformance_test", "'*AgreesWithAModel*'"));
    ModelTrial trial(device(), seed);
    for (int i = 0; i < 40 && !HasFailure(); ++i) trial.batch();
    if (!HasFailure()) trial.check_all();
  }
}

}  // namespace larder::block
