// SPDX-License-Identifier: Apache-2.0
// FileQueue over a backend that does everything wrong. Whatever happens below: every operation ends
// once, what is reported as done is right, and memory that was given back is never touched again.
//
// A failure names its seed; runs are the same every time. To run that one alone:
//   LARDER_SEED=SEED fileio_test --gtest_filter='*FileQueueFaults*'
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "env/test_seeds.h"
#include "fileio/fileio_testing.h"

namespace larder::fileio {
namespace {

constexpr std::uint64_t kFileBytes = 64U << 10U;
constexpr std::uint64_t kSeeds = 1200;
constexpr std::size_t kOps = 30;
constexpr int kStuckPolls = 300;  // more than any completion is held back

struct Job {
  bool write = false;
  bool ended = false;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  PagedBuffer buffer;
  std::byte* memory;
  Job(std::uint64_t length, std::size_t misalign)
      : bytes(length), buffer(length + misalign), memory(buffer.data() + misalign) {}
  std::span<std::byte> span() { return {memory, bytes}; }
};

struct Totals {
  FaultCounts faults;
  FileQueueStats stats;
  std::uint64_t ok = 0;
  std::uint64_t failed = 0;
  std::uint64_t deaths = 0;
};

class Storm {
 public:
  Storm(const std::string& path, std::uint64_t seed, Totals& totals)
      : random_(seed), totals_(totals), model_(kFileBytes), known_(kFileBytes, 1) {
    fill_random(model_, random_);
    // Every tenth seed on O_DIRECT, where it costs real I/O.
    FileOptions options = read_write(kFileBytes, random_() % 10 == 0 ? Direct::kAuto : Direct::kNo);
    if (random_() % 2 == 0) options.edge_writes = EdgeWrites::kRewrite;
    file_.emplace(open_file(path, options));
    EXPECT_EQ(::pwrite(file_->buffered_fd(), model_.data(), kFileBytes, 0),
              static_cast<ssize_t>(kFileBytes));
    auto faulty = std::make_unique<FaultBackend>(make_pool(1 + random_() % 16, 0), draw(seed));
    faults_ = faulty.get();
    queue_ = make_queue(std::move(faulty),
                        {.ops_max = 8, .piece_bytes = 64U << 10U, .bounces = 1 + random_() % 3});
  }

  void run() {
    int idle = 0;
    while (!testing::Test::HasFailure() && (jobs_.size() < kOps || running_ > 0)) {
      while (jobs_.size() < kOps && running_ < 8 && random_() % 3 != 0 && add()) {
      }
      if (random_() % 40 == 0 && !jobs_.empty()) queue_->cancel(random_() % jobs_.size());
      idle = take() > 0 ? 0 : idle + 1;
      if (!queue_->healthy()) break;
      // Then completions are lost: only a backend at rest gives the memory back.
      if (idle > kStuckPolls && running_ > 0) {
        ASSERT_TRUE(queue_->quiesce(within(kSoon)));
        while (take() > 0) {
        }
        ASSERT_EQ(running_, 0U);
        idle = 0;
      }
    }
    finish();
  }

 private:
  FaultOptions draw(std::uint64_t seed) {
    FaultOptions o;
    o.seed = seed;
    const double strength = 0.02 + 0.28 * static_cast<double>(random_() % 100) / 100;
    double* const all[] = {&o.partial,   &o.late_transfer, &o.late_completion, &o.reorder,
                           &o.duplicate, &o.foreign,       &o.eagain};
    for (double* one : all) *one = random_() % 2 == 0 ? strength : 0;
    if (random_() % 3 == 0) o.eio = strength / 4;
    if (random_() % 4 == 0) o.lost = strength / 8;
    if (random_() % 30 == 0) o.overlong = 0.05;
    if (random_() % 8 == 0) o.death_after = 1 + random_() % 60;
    o.partial_unit = std::max(file_->offset_alignment(), 512U);
    return o;
  }

  bool add() {
    const std::uint64_t bytes = 1 + random_() % (1ULL << (1 + random_() % 15));
    const std::uint64_t offset = random_() % kFileBytes;
    for (const auto& job : jobs_) {
      const bool apart = offset + bytes <= job->offset || job->offset + job->bytes <= offset;
      if (!job->ended && !apart) return true;
    }
    auto job = std::make_unique<Job>(bytes, random_() % 2 == 0 ? offset % 4096 : random_() % 4096);
    job->offset = offset;
    job->write = offset + bytes <= kFileBytes && random_() % 2 == 0;
    fill_random(job->span(), random_);
    const std::uint64_t tag = jobs_.size();
    const auto submitted =
        queue_->submit(job->write ? FileOp::write(*file_, offset, job->span(), tag)
                                  : FileOp::read(*file_, offset, job->span(), tag));
    if (!submitted) {
      EXPECT_EQ(submitted.error().code(), Code::kUnavailable);
      return false;
    }
    jobs_.push_back(std::move(job));
    ++running_;
    return true;
  }

  std::size_t take() {
    FileDone done[3];
    const std::size_t count = queue_->poll(done);
    for (std::size_t i = 0; i < count; ++i) end(done[i]);
    return count;
  }

  void end(const FileDone& done) {
    ASSERT_LT(done.tag, jobs_.size());
    Job& job = *jobs_[done.tag];
    ASSERT_FALSE(job.ended) << "ended twice";
    job.ended = true;
    --running_;
    done.ok() ? check_ok(job) : check_failed(job, done);
    // It is the caller's again. What writes to it now is caught at the end.
    std::fill(job.span().begin(), job.span().end(), kPoison);
  }

  void check_ok(Job& job) {
    ++totals_.ok;
    ASSERT_LE(job.offset + job.bytes, kFileBytes) << "read what is not there";
    for (std::uint64_t i = 0; i < job.bytes; ++i) {
      const std::uint64_t at = job.offset + i;
      if (job.write) {
        model_[at] = job.memory[i];
        known_[at] = 1;
      } else if (known_[at] != 0 && model_[at] != job.memory[i]) {
        FAIL() << "wrong byte at " << at;
      }
    }
  }

  void check_failed(const Job& job, const FileDone& done) {
    ++totals_.failed;
    const std::string text = describe(done).to_string();
    // What this backend and cancel() do; anything else would be a mistake of the queue's.
    ASSERT_TRUE(done.code == Code::kUnavailable || done.code == Code::kBackpressure ||
                done.code == Code::kCancelled || done.code == Code::kConflict)
        << text;
    if (done.code == Code::kConflict) {
      ASSERT_GT(job.offset + job.bytes, kFileBytes) << text;
      ASSERT_EQ(done.position, kFileBytes);
    }
    // Any part of a failed write may have happened.
    for (std::uint64_t i = 0; job.write && i < job.bytes; ++i) known_[job.offset + i] = 0;
  }

  void finish() {
    totals_.deaths += queue_->healthy() ? 0 : 1;
    ASSERT_TRUE(queue_->quiesce(within(kSoon)));
    while (take() > 0) {
    }
    const FaultCounts& c = faults_->counts();
    totals_.faults.partial += c.partial;
    totals_.faults.late += c.late;
    totals_.faults.lost += c.lost;
    totals_.faults.eio += c.eio;
    totals_.faults.eagain += c.eagain;
    totals_.faults.duplicate += c.duplicate;
    totals_.faults.foreign += c.foreign;
    totals_.stats.stray_completions += queue_->stats().stray_completions;
    totals_.stats.edge_waits += queue_->stats().edge_waits;
    EXPECT_EQ(queue_->stats().ops_in_flight, 0U);
    EXPECT_EQ(queue_->stats().pieces_in_flight, 0U);
    queue_.reset();
    for (const auto& job : jobs_) {
      ASSERT_TRUE(job->ended) << "never ended";
      const auto poisoned = std::count(job->span().begin(), job->span().end(), kPoison);
      ASSERT_EQ(static_cast<std::uint64_t>(poisoned), job->bytes) << "touched after its end";
    }
    check_file();
  }

  void check_file() {
    EXPECT_EQ(file_->size().value_or(0), kFileBytes);
    std::vector<std::byte> content(kFileBytes);
    ASSERT_EQ(::pread(file_->buffered_fd(), content.data(), kFileBytes, 0),
              static_cast<ssize_t>(kFileBytes));
    for (std::uint64_t i = 0; i < kFileBytes; ++i) {
      if (content[i] != kPoison && (known_[i] == 0 || content[i] == model_[i])) continue;
      FAIL() << "byte " << i
             << (content[i] == kPoison ? " is of memory after its end" : " is wrong");
    }
  }

  std::mt19937_64 random_;
  Totals& totals_;
  std::vector<std::byte> model_;
  std::vector<std::uint8_t> known_;  // 0: a failed write may have been there
  std::optional<File> file_;
  FaultBackend* faults_ = nullptr;
  std::unique_ptr<FileQueue> queue_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::size_t running_ = 0;
};

TEST(FileQueueFaults, NeverHarmMemoryOrLie) {
  auto directory = make_directory();
  const env::TestSeeds seeds = env::test_seeds(kSeeds);
  Totals totals;
  for (std::uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    SCOPED_TRACE(env::seed_trace(seed, "fileio_test", "'*FileQueueFaults*'"));
    Storm storm(directory.file("file"), seed, totals);
    storm.run();
    if (testing::Test::HasFailure()) return;
  }
  if (seeds.alone || seeds.count < kSeeds) return;
  // The test is only worth something if all of it happened.
  EXPECT_GT(totals.ok, 10000U);
  EXPECT_GT(totals.failed, 1000U);
  EXPECT_GT(totals.deaths, 50U);
  EXPECT_GT(totals.faults.partial, 1000U);
  EXPECT_GT(totals.faults.late, 1000U);
  EXPECT_GT(totals.faults.lost, 100U);
  EXPECT_GT(totals.faults.duplicate, 1000U);
  EXPECT_GT(totals.faults.foreign, 1000U);
  EXPECT_GT(totals.stats.stray_completions, 2000U);
}

}  // namespace
}  // namespace larder::fileio
