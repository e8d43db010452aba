// SPDX-License-Identifier: Apache-2.0
// The parts of the engine and a real file worker over a backend that does everything wrong, as in
// fault_test.cc. The worker has its own thread: a seed fixes what goes wrong, not when.
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "env/temp_directory.h"
#include "env/test_seeds.h"
#include "fileio/fault_backend.h"
#include "fileio/file.h"
#include "fileio/pool_backend.h"
#include "transfer/file_worker.h"
#include "transfer/transfer_testing.h"

namespace larder::transfer {
namespace {

constexpr std::uint64_t kSeeds = 150;
constexpr std::uint64_t kFileBytes = 256U << 10U;
constexpr std::uint64_t kBlock = 4096;
constexpr int kRounds = 4;

// What FileTransport is, with a worker of the test's own.
class FaultyFiles final : public Transport {
 public:
  FaultyFiles(const fileio::FaultOptions& options, std::size_t depth, PieceSink& sink) {
    auto pool = fileio::PoolBackend::create({.depth = depth, .threads = 0});
    auto faulty = std::make_unique<fileio::FaultBackend>(std::move(*pool), options);
    worker_ = FileWorker::create(std::move(faulty), sink).value();
  }
  TransportType type() const noexcept override { return TransportType::kIoUring; }
  TransportAbilities abilities() const noexcept override {
    return {.moves = {Ability::kCpuToFile}, .alignment = 4096};
  }
  void submit(std::span<const Piece* const> pieces) override { worker_->add(pieces); }
  void cancel(PieceToken token) noexcept override { worker_->cancel(token); }
  bool drain(std::int64_t deadline) override { return worker_->drain(deadline); }

 private:
  std::unique_ptr<FileWorker> worker_;
};

struct Totals {
  std::uint64_t completed = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t lossy = 0;
};

class FileStorm {
 public:
  FileStorm(const std::string& path, std::uint64_t seed, Totals& totals)
      : random_(seed), totals_(totals), local_(kFileBytes), model_(kFileBytes) {
    fileio::FileOptions options{.read = true, .write = true, .create = true, .size = kFileBytes};
    options.direct = fileio::Direct::kNo;
    auto opened = fileio::File::open(path, options);
    EXPECT_TRUE(opened) << opened.error().to_string();
    auto file = std::make_shared<fileio::File>(std::move(*opened));
    fill_data(model_, seed);
    EXPECT_EQ(::pwrite(file->fd(), model_.data(), kFileBytes, 0), static_cast<ssize_t>(kFileBytes));
    rig_.add(std::make_unique<FaultyFiles>(draw(seed), 1 + random_() % 16, rig_.dispatcher));
    rig_.open("policy: [{segment_type: file, transports: [io_uring]}]");
    poison(local_);
    rig_.add_memory(local_);
    segment_ = rig_.add_file(file);
    file_ = std::move(file);
  }

  void run() {
    for (int i = 0; i < kRounds && !loses_ && !testing::Test::HasFailure(); ++i) round();
    if (loses_) lossy_round();
    rig_.dispatcher.cancel_all();
    // Ends what the backend has lost.
    EXPECT_TRUE(rig_.dispatcher.transport(TransportType::kIoUring)
                    ->drain(loses_ ? env::monotonic_now() : within(kSoon)));
    EXPECT_TRUE(rig_.dispatcher.drain(within(kSoon)));
    EXPECT_EQ(rig_.dispatcher.jobs(), 0U);
    EXPECT_EQ(rig_.dispatcher.quarantined_bytes(), 0U);
    EXPECT_EQ(rig_.batches.kept(), 0U);
    EXPECT_EQ(rig_.remove_memory(local_), Code::kOk);
    EXPECT_TRUE(is_poisoned(local_)) << "a late write";
    std::vector<std::byte> content(kFileBytes);
    EXPECT_EQ(::pread(file_->fd(), content.data(), kFileBytes, 0),
              static_cast<ssize_t>(kFileBytes));
    EXPECT_EQ(std::find(content.begin(), content.end(), kPoison), content.end())
        << "written from memory after it was given back";
  }

 private:
  double some(double most) { return random_() % 2 == 0 ? most : 0; }
  fileio::FaultOptions draw(std::uint64_t seed) {
    fileio::FaultOptions options;
    options.seed = seed;
    options.partial = some(0.3);
    options.eio = some(0.1);
    options.eagain = some(0.2);
    options.late_transfer = some(0.4);
    options.late_completion = some(0.4);
    options.duplicate = some(0.3);
    options.foreign = some(0.2);
    options.reorder = some(0.5);
    options.overlong = some(0.05);
    if (random_() % 5 == 0) options.death_after = 1 + random_() % 60;
    loses_ = random_() % 6 == 0;
    if (loses_) options.lost = 0.3;
    return options;
  }
  std::vector<TransferRequest> requests() {
    std::vector<TransferRequest> list;
    const bool reads = random_() % 2 == 0;
    std::uint64_t at = 0;
    while (at < kFileBytes && list.size() < 12) {
      const std::uint64_t most = random_() % 4 == 0 ? 60000 : 3 * kBlock;
      std::uint64_t bytes = 1 + random_() % most;
      if (random_() % 2 == 0) bytes = (bytes + kBlock - 1) / kBlock * kBlock;
      bytes = std::min(kFileBytes - at, bytes);
      const auto memory = std::span(local_).subspan(at, bytes);
      if (!reads) fill_data(memory, random_());
      list.push_back(request_of(reads ? Opcode::kRead : Opcode::kWrite, memory, segment_, at));
      at += bytes;
      if (random_() % 3 == 0) at += random_() % kBlock;
    }
    return list;
  }
  void round() {
    const BatchId id = rig_.batches.allocate(16).value();
    BatchRef batch = rig_.batches.find(id);
    const auto list = requests();
    const auto results = rig_.submit(batch, list);
    ASSERT_TRUE(results);
    for (const SubmitResult& result : *results) {
      if (result.code == Code::kOk && random_() % 6 == 0) rig_.cancel(batch->task(result.task));
    }
    const bool early = random_() % 3 == 0;
    if (early) {
      EXPECT_TRUE(rig_.batches.free(id));
    }
    ASSERT_TRUE(batch->wait_idle(within(kSoon)));
    for (std::size_t i = 0; i < list.size(); ++i) {
      if ((*results)[i].code == Code::kOk) end(list[i], batch->task((*results)[i].task).status());
      poison({static_cast<std::byte*>(list[i].local), list[i].length});
    }
    if (!early) {
      EXPECT_TRUE(rig_.batches.free(id));
    }
    rig_.breakers.forget(segment_);
  }
  // A batch with an operation that never reports does not become idle before the shutdown.
  void lossy_round() {
    const BatchId id = rig_.batches.allocate(16).value();
    BatchRef batch = rig_.batches.find(id);
    const auto list = requests();
    ASSERT_TRUE(rig_.submit(batch, list));
    ++totals_.lossy;
    rig_.dispatcher.cancel_all();
    EXPECT_TRUE(rig_.dispatcher.transport(TransportType::kIoUring)->drain(env::monotonic_now()));
    ASSERT_TRUE(batch->wait_idle(within(kSoon)));
    for (const TransferRequest& request : list) {
      poison({static_cast<std::byte*>(request.local), request.length});
    }
    EXPECT_TRUE(rig_.batches.free(id));
  }
  void end(const TransferRequest& request, const TaskStatus& status) {
    EXPECT_TRUE(status.quiescent);
    EXPECT_NE(status.outcome, Outcome::kPending);
    const std::span<std::byte> local(static_cast<std::byte*>(request.local), request.length);
    const auto known = std::span(model_).subspan(request.target_offset, request.length);
    if (status.outcome == Outcome::kCompleted) {
      ++totals_.completed;
      std::vector<std::byte> there(request.length);
      EXPECT_EQ(::pread(file_->fd(), there.data(), there.size(),
                        static_cast<off_t>(request.target_offset)),
                static_cast<ssize_t>(there.size()));
      EXPECT_TRUE(equal(local, there)) << "completed, but the bytes are wrong";
      if (!wrote_) {
        EXPECT_TRUE(request.opcode == Opcode::kWrite || equal(local, known));
      }
    }
    if (status.outcome == Outcome::kFailed) ++totals_.failed;
    if (status.outcome == Outcome::kCancelled) ++totals_.cancelled;
    wrote_ |= request.opcode == Opcode::kWrite;
  }

  std::mt19937_64 random_;
  Totals& totals_;
  std::vector<std::byte> local_;
  std::vector<std::byte> model_;
  std::shared_ptr<fileio::File> file_;
  Rig rig_;
  SegmentId segment_;
  bool wrote_ = false;
  bool loses_ = false;
};

TEST(FileFaults, NeverHarmMemoryOrLie) {
  const auto directory = env::TempDirectory::create("larder-transfer").value();
  const env::TestSeeds seeds = env::test_seeds(kSeeds);
  Totals totals;
  for (std::uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    SCOPED_TRACE(env::seed_trace(seed, "transfer_concurrent_test", "'FileFaults.*'"));
    FileStorm storm(directory.file("file"), seed, totals);
    storm.run();
    if (testing::Test::HasFailure()) return;
  }
  if (seeds.alone || seeds.count < kSeeds) return;
  EXPECT_GT(totals.completed, 1000U);
  EXPECT_GT(totals.failed, 100U);
  EXPECT_GT(totals.cancelled, 50U);
  EXPECT_GT(totals.lossy, 5U);
}

}  // namespace
}  // namespace larder::transfer
