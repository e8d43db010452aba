// SPDX-License-Identifier: Apache-2.0
// Block devices against a model in memory.
#pragma once

#include "block_device_stage.h"
#include "env/test_seeds.h"

namespace larder::block {

// Random operations in flight at once that do not meet, against a model in memory.
class ModelTrial {
 public:
  ModelTrial(BlockDevice& device, bool zeroes, std::uint64_t seed)
      : device_(device), zeroes_(zeroes), block_(device.geometry().block_bytes), random_(seed) {
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
    if (job.kind == OpKind::kWriteZeroes && !zeroes_) return false;
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
    if (!moves && kept.kind != OpKind::kFlush) op.range_bytes = kept.count * block_;
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
    const bool zeroes = job.kind == OpKind::kDiscard || job.kind == OpKind::kWriteZeroes;
    if (zeroes) std::memset(at, 0, bytes);
  }

  BlockDevice& device_;
  const bool zeroes_;
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
    const bool zeroes = device().geometry().zeroes_max > 0 && !GetParam().refuses_zeroes;
    ModelTrial trial(device(), zeroes, seed);
    for (int i = 0; i < 40 && !HasFailure(); ++i) trial.batch();
    if (!HasFailure()) trial.check_all();
  }
}

}  // namespace larder::block
