// SPDX-License-Identifier: Apache-2.0
// FileQueue on real files against a model in memory: random offsets, lengths, alignments and sizes.
//
// A failure names its seed. To run that one alone:
//   LARDER_SEED=SEED fileio_test --gtest_filter='*FileQueueProperty*'
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "env/test_seeds.h"
#include "fileio/fileio_testing.h"

namespace larder::fileio {
namespace {

constexpr std::size_t kGuard = 64;  // bytes around every buffer that nobody may touch

struct Mode {
  const char* name;
  Direct direct;
  EdgeWrites edges;
  bool uring;
};

struct Range {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool meets(const Range& other) const {
    return offset < other.offset + other.bytes && other.offset < offset + bytes;
  }
};

// One operation with its memory between guards.
struct Job {
  bool write = false;
  Range range;
  PagedBuffer buffer;
  std::byte* memory;
  Job(bool is_write, Range where, std::size_t misalign)
      : write(is_write),
        range(where),
        buffer(where.bytes + 2 * kGuard + 4096 + misalign),
        memory(buffer.data() + 4096 + misalign) {
    std::fill(buffer.span().begin(), buffer.span().end(), kPoison);
  }
  bool guards_hold() {
    const auto whole = buffer.span();
    const auto begin = static_cast<std::size_t>(memory - buffer.data());
    const auto intact = [](std::byte b) { return b == kPoison; };
    return std::all_of(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(begin), intact) &&
           std::all_of(whole.begin() + static_cast<std::ptrdiff_t>(begin + range.bytes),
                       whole.end(), intact);
  }
};

class Trial {
 public:
  Trial(const std::string& path, const Mode& mode, std::uint64_t seed)
      : random_(seed), model_(random_() % 3 == 0 ? 0 : random_() % 300000) {
    fill_random(model_, random_);
    FileOptions options = read_write(0, Direct::kNo);
    const File plain = open_file(path, options);
    EXPECT_EQ(::pwrite(plain.fd(), model_.data(), model_.size(), 0),
              static_cast<ssize_t>(model_.size()));
    options = read_write(model_.size(), mode.direct);
    options.edge_writes = mode.edges;
    file_.emplace(open_file(path, options));
    const std::size_t depth = 1 + random_() % 12;
    auto backend = mode.uring ? make_uring(depth) : make_pool(depth, 0);
    if (backend == nullptr) backend = make_pool(depth, 0);
    queue_ = make_queue(std::move(backend), {.ops_max = 16, .piece_bytes = 64U << 10U});
  }

  // Operations that run at the same time and do not meet. Reads stay within what is there before,
  // but for a batch of reads alone.
  void batch() {
    const bool reads_alone = random_() % 4 == 0;
    const std::size_t wanted = 1 + random_() % 8;
    for (std::size_t i = 0; i < wanted; ++i) add(reads_alone);
    std::vector<FileDone> done(4);
    std::size_t ended = 0;
    while (ended < jobs_.size()) {
      const std::size_t count = queue_->wait(done, within(kSoon));
      ASSERT_GT(count, 0U);
      ended += count;
      for (std::size_t i = 0; i < count; ++i) check(done[i]);
    }
    for (Job& job : jobs_) EXPECT_TRUE(job.guards_hold()) << job.range.offset;
    const auto size = file_->size();
    ASSERT_EQ(size.value_or(~0ULL), model_.size());
    jobs_.clear();
  }

  // Read by other means.
  void check_file() {
    std::vector<std::byte> content(model_.size());
    const env::Fd fd(::open(file_->path().c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::pread(fd.get(), content.data(), content.size(), 0),
              static_cast<ssize_t>(content.size()));
    ASSERT_TRUE(content == model_);
    EXPECT_EQ(queue_->stats().stray_completions, 0U);
    EXPECT_EQ(queue_->stats().ops_in_flight, 0U);
  }

  std::uint64_t ops() const { return queue_->stats().ops; }
  std::uint64_t bounced() const { return queue_->stats().bytes_bounced; }
  bool direct() const { return file_->direct(); }

 private:
  static constexpr std::uint64_t kReach = 400000;

  Range draw() {
    constexpr std::uint64_t kUnits[] = {1, 1, 512, 4096};
    const std::uint64_t unit = kUnits[random_() % 4];
    Range range;
    range.offset = random_() % kReach / unit * unit;
    range.bytes = 1 + random_() % (1ULL << (1 + random_() % 18));
    if (unit > 1) range.bytes = (range.bytes + unit - 1) / unit * unit;
    return range;
  }

  void add(bool reads_alone) {
    const Range range = draw();
    const bool write = !reads_alone && random_() % 2 == 0;
    const bool inside = range.offset + range.bytes <= model_.size();
    if (!write && !reads_alone && !inside) return;
    for (const Job& job : jobs_) {
      if (job.range.meets(range)) return;
    }
    // In memory: as in the file, a whole block, or anyhow.
    const std::size_t misaligns[] = {range.offset % 4096, 0, random_() % 4096};
    Job& job = jobs_.emplace_back(write, range, misaligns[random_() % 3]);
    const std::span<std::byte> memory(job.memory, range.bytes);
    if (write) fill_random(memory, random_);
    const FileOp op = write ? FileOp::write(*file_, range.offset, memory, jobs_.size() - 1)
                            : FileOp::read(*file_, range.offset, memory, jobs_.size() - 1);
    ASSERT_TRUE(queue_->submit(op));
    if (write) expected_size_ = std::max(expected_size_, range.offset + range.bytes);
    if (random_() % 3 == 0) queue_->start();
  }

  void check(const FileDone& done) {
    ASSERT_LT(done.tag, jobs_.size());
    Job& job = jobs_[done.tag];
    const Range& range = job.range;
    const std::uint64_t end = range.offset + range.bytes;
    if (!job.write && end > model_.size()) {
      ASSERT_EQ(done.code, Code::kConflict) << describe(done).to_string();
      ASSERT_EQ(done.position, model_.size());
      return;
    }
    ASSERT_TRUE(done.ok()) << describe(done).to_string() << " " << range.offset << "+"
                           << range.bytes;
    ASSERT_EQ(done.bytes, range.bytes);
    if (job.write) {
      if (model_.size() < end) model_.resize(end);
      std::memcpy(model_.data() + range.offset, job.memory, range.bytes);
    } else {
      ASSERT_EQ(std::memcmp(model_.data() + range.offset, job.memory, range.bytes), 0)
          << range.offset << "+" << range.bytes;
    }
  }

  std::mt19937_64 random_;
  std::vector<std::byte> model_;
  std::uint64_t expected_size_ = 0;
  std::optional<File> file_;
  std::unique_ptr<FileQueue> queue_;
  std::vector<Job> jobs_;
};

constexpr Mode kModes[] = {
    {"direct over io_uring", Direct::kAuto, EdgeWrites::kAuto, true},
    {"direct over the pool", Direct::kAuto, EdgeWrites::kAuto, false},
    {"direct, edges rewritten", Direct::kAuto, EdgeWrites::kRewrite, true},
    {"through the page cache", Direct::kNo, EdgeWrites::kAuto, true},
};

TEST(FileQueueProperty, AgreesWithAModelInMemory) {
  auto directory = make_directory();
  const env::TestSeeds usual = env::test_seeds(40);
  std::random_device device;
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = usual.first; seed < usual.end(); ++seed) seeds.push_back(seed);
  for (int i = 0; i < 4 && !usual.alone; ++i) seeds.push_back(1000 + device() % 90000);
  std::uint64_t ops = 0;
  std::uint64_t bounced = 0;
  for (const std::uint64_t seed : seeds) {
    const Mode& mode = kModes[seed % std::size(kModes)];
    SCOPED_TRACE(mode.name);
    SCOPED_TRACE(env::seed_trace(seed, "fileio_test", "'*FileQueueProperty*'"));
    Trial trial(directory.file("file"), mode, seed);
    for (int i = 0; i < 25 && !testing::Test::HasFailure(); ++i) trial.batch();
    if (!testing::Test::HasFailure()) trial.check_file();
    if (testing::Test::HasFailure()) return;
    ops += trial.ops();
    bounced += trial.bounced();
  }
  EXPECT_TRUE(seeds.size() < 40 || ops > 3000);
  RecordProperty("ops", std::to_string(ops));
  RecordProperty("bounced", std::to_string(bounced));
}

}  // namespace
}  // namespace larder::fileio
