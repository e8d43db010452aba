// SPDX-License-Identifier: Apache-2.0
// The engine as its users see it, from many threads, on real memory and real files.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "env/temp_directory.h"
#include "env/thread.h"
#include "larder/transfer.h"
#include "obs/metrics.h"
#include "transfer/transfer_testing.h"

namespace larder {
namespace {

using namespace std::chrono_literals;
using transfer::code_of;
using transfer::equal;
using transfer::fill_data;
using transfer::is_poisoned;
using transfer::poison;

constexpr std::uint64_t kBytes = 4U << 20U;  // of each thread
constexpr int kThreads = 4;
constexpr auto kLong = 30s;

class EngineConcurrent : public testing::Test {
 protected:
  void SetUp() override {
    TransferConfig config;
    config.transports = {"memcpy", "io_uring"};
    config.metrics = &registry_;
    config.copy_workers = 2;
    config.file_workers = 2;
    config.file_depth = 16;
    config.high_slice_bytes = 256U << 10U;
    config.low_slice_bytes = 64U << 10U;
    auto made = TransferEngine::create(std::move(config));
    ASSERT_TRUE(made) << made.error().to_string();
    engine_ = std::move(*made);
    const std::string path = dir_.file("blocks");
    std::ofstream(path).close();
    std::filesystem::resize_file(path, kBytes * kThreads);
    segment_ = engine_->open_segment("file://" + path).value();
  }

  struct Client {
    Client(EngineConcurrent& test, int number)
        : random(static_cast<std::uint64_t>(number) + 1),
          file_at(static_cast<std::uint64_t>(number) * kBytes),
          local(test.memory()),
          other(test.memory()) {}
    std::mt19937_64 random;
    std::uint64_t file_at;
    std::span<std::byte> local;
    std::span<std::byte> other;
  };
  std::span<std::byte> memory() {
    return {static_cast<std::byte*>(engine_->allocate_memory(kBytes).value()), kBytes};
  }
  TransferRequest copy(std::byte* local, std::byte* target, std::uint64_t bytes) {
    return transfer::request_of(Opcode::kRead, {local, bytes}, target);
  }
  void on_threads(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back([&body, i] { body(i); });
    for (std::thread& thread : threads) thread.join();
  }

  // Requests that do not meet, in the client's own memory; to or from its part of the file, or its
  // other memory.
  std::vector<TransferRequest> draw(Client& client, Opcode opcode, bool file) const {
    std::vector<TransferRequest> requests;
    std::uint64_t at = 0;
    while (requests.size() < 16) {
      const std::uint64_t most = client.random() % 4 == 0 ? 1U << 20U : 8192;
      const std::uint64_t bytes = 1 + client.random() % most;
      if (at + bytes > kBytes) break;
      TransferRequest request;
      request.opcode = opcode;
      request.local = client.local.data() + at;
      request.length = bytes;
      request.target = file ? segment_ : kLocalSegment;
      request.target_offset =
          file ? client.file_at + at : reinterpret_cast<std::uintptr_t>(client.other.data() + at);
      request.intent = static_cast<Intent>(client.random() % kIntentCount);
      requests.push_back(request);
      at += bytes;
    }
    return requests;
  }
  static void check(const TaskStatus& status) {
    const bool ended = status.outcome == Outcome::kCompleted || status.outcome == Outcome::kFailed;
    if (ended) {
      EXPECT_TRUE(status.quiescent);
    }
    EXPECT_NE(status.outcome, Outcome::kFailed) << status.message;
  }
  BatchStatus run(std::span<const TransferRequest> requests) {
    const BatchId batch = engine_->allocate_batch(requests.size()).value();
    EXPECT_TRUE(engine_->submit(batch, requests));
    for (std::uint32_t i = 0; i < requests.size(); ++i) check(engine_->poll(batch, i).value());
    const auto status = engine_->wait(batch, kLong);
    EXPECT_TRUE(status);
    EXPECT_TRUE(engine_->free_batch(batch));
    return status.value_or(BatchStatus{});
  }

  env::TempDirectory dir_ = env::TempDirectory::create("larder-transfer").value();
  obs::Registry registry_;
  std::unique_ptr<TransferEngine> engine_;
  SegmentId segment_;
};

TEST_F(EngineConcurrent, WhatIsWrittenIsReadBack) {
  on_threads([&](int number) {
    Client client(*this, number);
    for (int round = 0; round < 6 && !HasFailure(); ++round) {
      const bool file = round % 2 == 0;
      fill_data(client.local, client.random());
      auto requests = draw(client, Opcode::kWrite, file);
      EXPECT_TRUE(run(requests).all_completed());
      const std::vector<std::byte> written(client.local.begin(), client.local.end());
      poison(client.local);
      for (TransferRequest& request : requests) request.opcode = Opcode::kRead;
      EXPECT_TRUE(run(requests).all_completed());
      for (const TransferRequest& request : requests) {
        const auto at = static_cast<std::uint64_t>(static_cast<std::byte*>(request.local) -
                                                   client.local.data());
        EXPECT_TRUE(equal(client.local.subspan(at, request.length),
                          std::span(written).subspan(at, request.length)));
      }
    }
  });
}

TEST_F(EngineConcurrent, CancelledAndFreedMemoryIsQuietWhenItCanBeTakenBack) {
  on_threads([&](int number) {
    Client client(*this, number);
    std::vector<std::byte> own(kBytes);
    client.local = own;
    for (int round = 0; round < 10 && !HasFailure(); ++round) {
      const MemoryRange range{own.data(), own.size()};
      ASSERT_TRUE(engine_->register_memory(std::span(&range, 1)));
      const BatchId batch = engine_->allocate_batch(16).value();
      const auto requests = draw(client, Opcode::kRead, round % 2 == 0);
      ASSERT_TRUE(engine_->submit(batch, requests));
      for (std::uint32_t i = 0; i < requests.size(); i += 2) {
        EXPECT_TRUE(engine_->cancel(batch, i));
        const TaskStatus status = engine_->poll(batch, i).value();
        EXPECT_NE(status.outcome, Outcome::kPending);
      }
      EXPECT_TRUE(engine_->free_batch(batch));
      EXPECT_EQ(code_of(engine_->poll(batch)), Code::kNotFound);
      void* const address = own.data();
      Code code = Code::kConflict;
      const env::Nanos end = transfer::within(transfer::kSoon);
      while (code == Code::kConflict && env::monotonic_now() < end) {
        code = code_of(engine_->unregister_memory(std::span(&address, 1)));
        static_cast<void>(env::yield_core());
      }
      EXPECT_EQ(code, Code::kOk);
      poison(own);
      static_cast<void>(env::yield_core());
      EXPECT_TRUE(is_poisoned(own)) << "a late write";
    }
  });
  EXPECT_EQ(engine_->quarantined_bytes(), 0U);
}

// All submit to, poll, wait for and cancel in one batch.
TEST_F(EngineConcurrent, ABatchThatAllShare) {
  for (int round = 0; round < 4 && !HasFailure(); ++round) {
    const BatchId batch = engine_->allocate_batch(kThreads * 16).value();
    // The callback may come after whoever waited was told, and after the free.
    const auto calls = std::make_shared<std::atomic<int>>(0);
    ASSERT_TRUE(engine_->subscribe(batch, [calls, batch](BatchId which) {
      EXPECT_EQ(which, batch);
      ++*calls;
    }));
    on_threads([&](int number) {
      Client client(*this, number);
      poison(client.other);
      const auto requests = draw(client, Opcode::kRead, number % 2 == 0);
      const auto results = engine_->submit(batch, requests).value();
      for (const SubmitResult& result : results) {
        ASSERT_EQ(result.code, Code::kOk) << result.message;
        check(engine_->poll(batch, result.task).value());
        if (client.random() % 8 == 0) {
          EXPECT_TRUE(engine_->cancel(batch, result.task));
        }
      }
      EXPECT_TRUE(engine_->wait(batch, kLong));
      for (std::size_t i = 0; i < results.size(); ++i) {
        const TaskStatus status = engine_->poll(batch, results[i].task).value();
        EXPECT_TRUE(status.quiescent);
        if (status.outcome == Outcome::kCompleted && requests[i].target == kLocalSegment) {
          EXPECT_TRUE(
              is_poisoned({static_cast<std::byte*>(requests[i].local), requests[i].length}));
        }
      }
      EXPECT_TRUE(engine_->free_memory(client.local.data()));
      EXPECT_TRUE(engine_->free_memory(client.other.data()));
    });
    const env::Nanos end = transfer::within(transfer::kSoon);
    while (calls->load() == 0 && env::monotonic_now() < end) static_cast<void>(env::yield_core());
    EXPECT_GE(calls->load(), 1);
    EXPECT_TRUE(engine_->poll(batch)->idle());
    EXPECT_TRUE(engine_->free_batch(batch));
  }
}

// Segments come and go while others use them.
TEST_F(EngineConcurrent, SegmentsCloseUnderTransfers) {
  on_threads([&](int number) {
    Client client(*this, number);
    for (int round = 0; round < 12 && !HasFailure(); ++round) {
      const SegmentId own = engine_->open_segment("file://" + dir_.file("blocks")).value();
      auto requests = draw(client, Opcode::kRead, true);
      for (TransferRequest& request : requests) request.target = own;
      const BatchId batch = engine_->allocate_batch(17).value();
      ASSERT_TRUE(engine_->submit(batch, requests));
      EXPECT_TRUE(engine_->close_segment(own));  // what is in flight goes on
      EXPECT_EQ(engine_->submit(batch, std::span(requests).first(1)).value()[0].code,
                Code::kNotFound);
      const auto status = engine_->wait(batch, kLong);
      ASSERT_TRUE(status);
      EXPECT_TRUE(status->all_completed());
      EXPECT_TRUE(engine_->free_batch(batch));
    }
  });
}

// The engine goes down with transfers in flight.
TEST_F(EngineConcurrent, ShutsDownUnderLoad) {
  std::vector<std::byte> local(kBytes);
  const MemoryRange range{local.data(), local.size()};
  ASSERT_TRUE(engine_->register_memory(std::span(&range, 1)));
  Client client(*this, 0);
  client.local = local;
  for (int i = 0; i < 3; ++i) {
    const BatchId batch = engine_->allocate_batch(16).value();
    ASSERT_TRUE(engine_->submit(batch, draw(client, Opcode::kWrite, true)));
  }
  engine_.reset();
  poison(local);
  EXPECT_TRUE(is_poisoned(local));
}

// Small copies are made by the submitting thread. Each has memory of its own here.
TEST_F(EngineConcurrent, WhatIsQuiescentCanBeUnregistered) {
  const auto from = memory();
  std::vector<std::byte> own(4096);
  const MemoryRange range{own.data(), own.size(), "*"};
  for (int round = 0; round < 200; ++round) {
    ASSERT_TRUE(engine_->register_memory({&range, 1}));
    const BatchId batch = engine_->allocate_batch(256).value();
    std::thread watcher([&] {
      const env::Nanos end = transfer::within(transfer::kSoon);
      while (env::monotonic_now() < end) {
        const auto first = engine_->poll(batch, 0);
        if (first && first->quiescent) break;
      }
      void* const address = own.data();
      EXPECT_TRUE(engine_->unregister_memory({&address, 1})) << round;
    });
    std::vector<TransferRequest> requests = {copy(own.data(), from.data(), own.size())};
    for (std::uint64_t i = 1; i < 256; ++i) {
      requests.push_back(copy(from.data() + i * 8192, from.data() + i * 8192 + 4096, 4096));
    }
    ASSERT_TRUE(engine_->submit(batch, requests));
    watcher.join();
    EXPECT_TRUE(engine_->free_batch(batch));
  }
}

// A callback is an ordinary caller: what it calls must not wait for what called it.
TEST_F(EngineConcurrent, ACallbackSubmitsAgainAndFreesItsBatch) {
  constexpr int kRounds = 50;
  for (const std::uint64_t bytes : {std::uint64_t{4096}, kBytes}) {  // at once, and by a job
    const auto from = memory();
    const auto to = memory();
    const BatchId batch = engine_->allocate_batch(kRounds + 1).value();
    std::atomic<int> rounds{0};
    std::atomic<bool> freed{false};
    const auto again = [&] {
      const TransferRequest request = copy(to.data(), from.data(), bytes);
      return engine_->submit(batch, {&request, 1});
    };
    ASSERT_TRUE(engine_->subscribe(batch, [&](BatchId which) {
      if (++rounds <= kRounds) {
        EXPECT_TRUE(again());
      } else {
        freed = engine_->free_batch(which).has_value();
      }
    }));
    ASSERT_TRUE(again());
    const env::Nanos end = transfer::within(transfer::kSoon);
    while (!freed && env::monotonic_now() < end) static_cast<void>(env::yield_core());
    EXPECT_TRUE(freed);
    EXPECT_EQ(rounds, kRounds + 1);
    EXPECT_EQ(code_of(engine_->poll(batch)), Code::kNotFound);
  }
}

}  // namespace
}  // namespace larder
