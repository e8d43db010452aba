// SPDX-License-Identifier: Apache-2.0
// A file worker over a backend that reports nothing.
#include "transfer/file_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <semaphore>

#include "env/temp_directory.h"
#include "fileio/file.h"
#include "transfer/segment.h"
#include "transfer/transfer_testing.h"

namespace larder::transfer {
namespace {

constexpr std::uint64_t kBytes = 64U << 10U;

class SilentBackend final : public fileio::IoBackend {
 public:
  std::counting_semaphore<> taken{0};  // one for each operation
  std::atomic<bool> restless{false};   // quiesce() says false
  std::atomic<int> woken{0};
  std::counting_semaphore<> waiting{0};  // one for each wait()

  std::string_view name() const noexcept override { return "silent"; }
  std::size_t depth() const noexcept override { return 4; }
  std::size_t in_flight() const noexcept override { return in_flight_; }
  Result<std::size_t> submit(std::span<const fileio::IoOp> ops) override {
    const std::size_t count = std::min(ops.size(), depth() - in_flight_);
    in_flight_ += count;
    taken.release(static_cast<std::ptrdiff_t>(count));
    return count;
  }
  Result<void> start() override { return {}; }
  Result<std::size_t> poll(std::span<fileio::IoDone>) override { return 0U; }
  Result<std::size_t> wait(std::span<fileio::IoDone>, env::Nanos) override {
    waiting.release();
    wakes_.acquire();
    return 0U;
  }
  void wake() noexcept override {
    ++woken;
    wakes_.release();
  }
  bool quiesce(env::Nanos) noexcept override { return !restless; }
  bool add_buffer(std::span<std::byte>) noexcept override { return false; }
  void remove_buffer(std::span<std::byte>) noexcept override {}

 private:
  std::counting_semaphore<> wakes_{0};
  std::size_t in_flight_ = 0;
};

class CodeSink final : public PieceSink {
 public:
  void piece_done(PieceToken, const Error* error) noexcept override {
    const std::lock_guard lock(mutex_);
    codes_.push_back(error != nullptr ? error->code() : Code::kOk);
  }
  std::vector<Code> codes() const {
    const std::lock_guard lock(mutex_);
    return codes_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Code> codes_;
};

class FileWorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    fileio::FileOptions options{.read = true, .write = true, .create = true, .size = kBytes};
    options.direct = fileio::Direct::kNo;
    auto opened = fileio::File::open(directory_.file("file"), options);
    ASSERT_TRUE(opened) << opened.error().to_string();
    segment_.file = std::make_shared<fileio::File>(std::move(*opened));
    auto backend = std::make_unique<SilentBackend>();
    backend_ = backend.get();
    worker_ = FileWorker::create(std::move(backend), sink_).value();
  }
  const Piece* add(std::uint32_t number) {
    pieces_.push_back(std::make_unique<Piece>(
        piece_of(Opcode::kRead, std::span(memory_).first(4096), segment_, 0, {number, 1})));
    const Piece* const piece = pieces_.back().get();
    worker_->add(std::span(&piece, 1));
    return piece;
  }

  env::TempDirectory directory_ = env::TempDirectory::create("larder-transfer").value();
  std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes);
  Segment segment_;
  std::vector<std::unique_ptr<Piece>> pieces_;
  CodeSink sink_;
  SilentBackend* backend_ = nullptr;
  std::unique_ptr<FileWorker> worker_;
};

TEST_F(FileWorkerTest, WhatIsNeverReportedEndsOnceTheBackendIsAtRest) {
  for (std::uint32_t i = 0; i < 6; ++i) add(i);
  for (int i = 0; i < 4; ++i) backend_->taken.acquire();  // its depth; two wait
  EXPECT_TRUE(sink_.codes().empty());
  EXPECT_TRUE(worker_->drain(env::monotonic_now()));
  const std::vector<Code> codes = sink_.codes();
  ASSERT_EQ(codes.size(), 6U);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), Code::kUnavailable), 4);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), Code::kCancelled), 2);
  worker_.reset();
  EXPECT_EQ(sink_.codes().size(), 6U);
}

TEST_F(FileWorkerTest, NewPiecesWakeItOnlyWhereItCanTakeThem) {
  add(0);
  backend_->waiting.acquire();
  // It sleeps in its queue, which takes twice the backend's depth.
  for (std::uint32_t i = 1; i < 8; ++i) {
    add(i);
    backend_->waiting.acquire();
  }
  EXPECT_EQ(backend_->woken, 7);
  for (std::uint32_t i = 8; i < 20; ++i) add(i);
  EXPECT_EQ(backend_->woken, 7);
  EXPECT_TRUE(worker_->drain(env::monotonic_now()));
  EXPECT_EQ(backend_->woken, 8);
  EXPECT_EQ(sink_.codes().size(), 20U);
  // Idle it does not sleep there.
  add(20);
  backend_->waiting.acquire();
  EXPECT_EQ(backend_->woken, 8);
}

TEST_F(FileWorkerTest, ItsDestructorDoesNotWaitForWhatIsNeverReported) {
  add(0);
  backend_->taken.acquire();
  worker_.reset();
  EXPECT_EQ(sink_.codes(), std::vector<Code>{Code::kUnavailable});
}

TEST_F(FileWorkerTest, WhatMayStillRunDoesNotEnd) {
  const std::unique_ptr<SilentBackend> left_over(backend_);  // the queue leaves it to itself
  backend_->restless = true;
  add(0);
  backend_->taken.acquire();
  EXPECT_FALSE(worker_->drain(env::monotonic_now()));
  worker_.reset();
  EXPECT_TRUE(sink_.codes().empty());
}

}  // namespace
}  // namespace larder::transfer
