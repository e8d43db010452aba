// SPDX-License-Identifier: Apache-2.0
// Power lost at every change of a random load: each sector then holds what was durable, or one of
// the later writes to it, whole.
//
// A failure names its seed. To run that one alone:
//   LARDER_SEED=SEED block_test --gtest_filter='PowerCut.*'
#include <deque>
#include <set>

#include "block/block_testing.h"
#include "block/fault_device.h"
#include "env/test_seeds.h"

namespace larder::block {
namespace {

constexpr std::uint64_t kBlocks = 32;
constexpr std::uint32_t kBlock = 4096;
constexpr std::uint32_t kSector = 512;
constexpr std::uint64_t kPerBlock = kBlock / kSector;

constexpr OpKind kZeroing[] = {OpKind::kDiscard, OpKind::kWriteZeroes};

// What a sector holds after write number `version`; of 0, which is also either of these, zeros.
void stamp(std::byte* sector, std::uint64_t index, std::uint64_t version) {
  for (std::uint64_t i = 0; i < kSector / 8; ++i) {
    const std::uint64_t word = version == 0 ? 0 : version << 32U | index << 8U | i;
    std::memcpy(sector + i * 8, &word, 8);
  }
}

struct Outcome {
  bool operator==(const Outcome&) const = default;
  std::vector<std::uint64_t> versions;  // by sector, after the cut
  std::uint64_t changes = 0;
};

// A load that depends on the seed alone, on a device whose power goes at change `cut_at`.
class Load {
 public:
  Load(std::uint64_t seed, std::uint64_t cut_at, FaultOptions options = {})
      : random_(seed), allowed_(kBlocks * kPerBlock, {0}), ended_(allowed_.size(), 0) {
    inner_ = take_value(MemoryDevice::create({.bytes = kBlocks * kBlock}));
    options.seed = seed * 1000 + cut_at;
    options.late = 0.3;
    options.reorder = 0.3;
    options.cut_at = cut_at;
    device_ = take_value(FaultDevice::create(inner_, options));
    queue_ = queue_of(*device_, 4);
  }

  Outcome run() {
    for (int i = 0; i < 120 && begin(); ++i) {
      if (random_() % 3 == 0) settle(1);
    }
    while (queue_->in_flight() > 0) settle(1);
    Outcome outcome;
    outcome.changes = device_->counts().changes;
    EXPECT_TRUE(device_->cut_power());
    look(outcome);
    return outcome;
  }
  // Sectors that hold what they must not.
  const std::set<std::size_t>& wrong() const { return wrong_; }
  bool torn() const { return torn_; }  // one write is there in part
  bool old() const { return old_; }    // a sector holds neither its oldest nor its newest

 private:
  struct Job {
    OpKind kind = OpKind::kWrite;
    std::uint64_t first = 0;  // sectors
    std::uint64_t count = 0;
    std::uint64_t version = 0;
    bool runs = false;
    std::vector<std::size_t> floors;  // of a flush: what had ended when it was submitted
    AlignedBuffer memory;
    Piece piece;
  };

  // False: the device has failed.
  bool begin() {
    Job job;
    const std::uint64_t what = random_() % 10;
    job.kind = OpKind::kWrite;
    if (what < 4) job.kind = what < 2 ? OpKind::kFlush : kZeroing[what - 2];
    const std::uint64_t block = random_() % kBlocks;
    job.first = block * kPerBlock;
    job.count = (1 + random_() % std::min<std::uint64_t>(kBlocks - block, 4)) * kPerBlock;
    if (job.kind == OpKind::kFlush) {
      job.first = job.count = 0;
      job.floors = ended_;
    }
    if (queue_->in_flight() == queue_->depth() || meets(job)) return true;
    job.version = job.kind == OpKind::kWrite ? jobs_.size() + 1 : 0;
    jobs_.push_back(std::move(job));
    return submit(jobs_.back());
  }
  bool meets(const Job& job) const {
    return std::any_of(jobs_.begin(), jobs_.end(), [&](const Job& other) {
      return other.runs && job.first < other.first + other.count &&
             other.first < job.first + job.count;
    });
  }
  bool submit(Job& job) {
    BlockOp op;
    op.kind = job.kind;
    op.offset = job.first * kSector;
    op.tag = jobs_.size() - 1;
    const bool zeroes = job.kind == OpKind::kDiscard || job.kind == OpKind::kWriteZeroes;
    if (zeroes) op.range_bytes = job.count * kSector;
    if (job.kind == OpKind::kWrite) {
      job.memory = buffer_of(job.count * kSector);
      for (std::uint64_t i = 0; i < job.count; ++i) {
        stamp(job.memory.data() + i * kSector, job.first + i, job.version);
      }
      job.piece = {job.memory.data(), job.memory.size()};
      op.pieces = {&job.piece, 1};
    }
    job.runs = queue_->submit(op).has_value();
    if (!job.runs) return false;
    for (std::uint64_t i = 0; i < job.count; ++i) allowed_[job.first + i].push_back(job.version);
    return true;
  }

  void settle(std::size_t most) {
    std::vector<BlockDone> done(most);
    const std::size_t count = queue_->wait(done, within(kSoon));
    for (std::size_t i = 0; i < count; ++i) {
      Job& job = jobs_[done[i].tag];
      job.runs = false;
      if (!done[i].ok()) continue;
      for (std::uint64_t s = 0; s < job.count; ++s) ++ended_[job.first + s];
      if (job.kind == OpKind::kFlush) make_durable(job.floors);
    }
  }
  void make_durable(const std::vector<std::size_t>& floors) {
    for (std::size_t i = 0; i < floors.size(); ++i) {
      durable_[i] = std::max(durable_[i], floors[i]);
    }
  }

  void look(Outcome& outcome) {
    AlignedBuffer now = contents(*inner_, 0, kBlocks * kBlock);
    std::set<std::uint64_t> there;
    for (std::size_t i = 0; i < allowed_.size(); ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, now.data() + i * kSector, 8);
      const std::uint64_t version = word >> 32U;
      outcome.versions.push_back(version);
      std::byte expected[kSector];
      stamp(expected, i, version);
      const auto& all = allowed_[i];
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(durable_[i]);
      const bool whole = std::memcmp(expected, now.data() + i * kSector, kSector) == 0;
      if (!whole || std::find(from, all.end(), version) == all.end()) wrong_.insert(i);
      old_ |= version != *from && version != all.back();
    }
    find_torn(outcome);
  }
  // Of the write that was last everywhere in its range, a part is there and a part is not.
  void find_torn(const Outcome& outcome) {
    for (const Job& job : jobs_) {
      if (job.kind != OpKind::kWrite || job.count == 0) continue;
      std::uint64_t have = 0;
      bool last = true;
      for (std::uint64_t i = 0; i < job.count; ++i) {
        last &= allowed_[job.first + i].back() == job.version;
        have += outcome.versions[job.first + i] == job.version ? 1 : 0;
      }
      torn_ |= last && have > 0 && have < job.count;
    }
  }

  std::mt19937_64 random_;
  std::shared_ptr<MemoryDevice> inner_;
  std::shared_ptr<FaultDevice> device_;
  std::deque<Job> jobs_;  // which do not move: operations point into them
  std::vector<std::vector<std::uint64_t>> allowed_;  // by sector: all versions, oldest first
  std::vector<std::size_t> ended_;  // by sector: how many of them, after the first, have ended
  std::vector<std::size_t> durable_ = ended_;
  std::set<std::size_t> wrong_;
  bool torn_ = false;
  bool old_ = false;
  std::unique_ptr<BlockQueue> queue_;  // ends before the memory of jobs
};

TEST(PowerCut, LeavesOfEachSectorWhatWasDurableOrALaterWrite) {
  const env::TestSeeds seeds = env::test_seeds(15);
  std::size_t torn = 0;
  std::size_t old = 0;
  std::size_t cuts = 0;
  for (std::uint64_t seed = seeds.first; seed < seeds.end() && !testing::Test::HasFailure();
       ++seed) {
    SCOPED_TRACE(env::seed_trace(seed, "block_test", "'PowerCut.*'"));
    const std::uint64_t changes = Load(seed, 0).run().changes;
    ASSERT_GT(changes, 5U);
    for (std::uint64_t at = 1; at <= changes; ++at) {
      SCOPED_TRACE("cut at change " + std::to_string(at));
      Load load(seed, at);
      load.run();
      EXPECT_EQ(load.wrong(), std::set<std::size_t>());
      torn += load.torn() ? 1 : 0;
      old += load.old() ? 1 : 0;
      ++cuts;
    }
  }
  // Such states have to come up, or nothing that stands on them is tested.
  EXPECT_TRUE(seeds.alone || torn > cuts / 20) << torn << " of " << cuts;
  EXPECT_TRUE(seeds.alone || old > cuts / 50) << old << " of " << cuts;
  RecordProperty("cuts", std::to_string(cuts));
}

// That a device which breaks its word is caught, or the test above means nothing.
TEST(PowerCut, FindsOutALiar) {
  FaultOptions flushes_nothing;
  flushes_nothing.lying_flush = 0.5;
  FaultOptions loses_writes;
  loses_writes.lost_write = 0.1;
  FaultOptions rots;
  rots.rot = 0.1;
  for (const FaultOptions& options : {flushes_nothing, loses_writes, rots}) {
    std::size_t caught = 0;
    for (std::uint64_t seed = 1; seed < 25; ++seed) {
      Load load(seed, 0, options);
      load.run();
      caught += load.wrong().empty() ? 0 : 1;
    }
    EXPECT_GT(caught, 3U);
  }
}

TEST(PowerCut, ASeedIsOneOutcome) {
  std::set<std::vector<std::uint64_t>> different;
  for (std::uint64_t at = 5; at < 25; ++at) {
    const Outcome one = Load(7, at).run();
    EXPECT_EQ(Load(7, at).run(), one) << at;
    different.insert(one.versions);
  }
  EXPECT_GT(different.size(), 10U);
}

}  // namespace
}  // namespace larder::block
