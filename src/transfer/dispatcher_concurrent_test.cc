// SPDX-License-Identifier: Apache-2.0
// The parts of the engine under many threads, over transports with faults that two further threads
// drive. The seed of a run is fixed; the order of threads is not.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <random>
#include <thread>

#include "env/thread.h"
#include "transfer/transfer_testing.h"

namespace larder::transfer {
namespace {

constexpr std::uint64_t kBytes = 64 << 10;  // of each client
constexpr int kClients = 4;

FaultTransportOptions faulty(TransportType type, std::uint64_t seed) {
  FaultTransportOptions options;
  options.type = type;
  options.seed = seed;
  options.at_once = 0.2;
  options.late = 0.4;
  options.stuck = 0.02;
  options.error = 0.05;
  options.partial = 0.05;
  options.too_late = 0.05;
  options.after_cancel = 0.5;
  options.ends_in_cancel = 0.3;
  options.completes_cancelled = 0.2;
  options.noisy = 0.3;
  options.duplicate = 0.1;
  options.stale = 0.1;
  options.foreign = 0.1;
  options.reorder = 0.3;
  options.codes = {Code::kUnavailable, Code::kExhausted, Code::kInternal, Code::kConflict};
  return options;
}

// Memory of one thread, and where it reads from and writes to.
struct Client {
  explicit Client(std::uint64_t number) : random(number), local(kBytes), from(kBytes), to(kBytes) {
    poison(local);
    fill_data(from, number);
  }
  std::mt19937_64 random;
  std::vector<std::byte> local;
  std::vector<std::byte> from;
  std::vector<std::byte> to;
  std::uint64_t completed = 0;
  std::uint64_t given_up = 0;

  std::uint64_t below(std::uint64_t bound) { return random() % bound; }
};

class DispatcherConcurrent : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < kClients; ++i) clients_.emplace_back(static_cast<std::uint64_t>(i) + 1);
    rig_.add(faulty(TransportType::kTcp, 1));
    rig_.add(faulty(TransportType::kGds, 2));
    rig_.add(faulty(TransportType::kNds, 3));
    rig_.open();
    for (Client& client : clients_) {
      rig_.add_memory(client.local);
      rig_.add_memory(client.from);
      rig_.add_memory(client.to);
    }
    for (int i = 0; i < 2; ++i) pumps_.emplace_back([this] { pump(); });
  }
  void TearDown() override { stop_pumps(); }

  void pump() {
    while (!stop_.load()) {
      if (rig_.step() == 0) static_cast<void>(env::yield_core());
    }
  }
  void stop_pumps() {
    stop_ = true;
    for (std::thread& pump : pumps_) pump.join();
    pumps_.clear();
  }

  // Neighbours, large ones, deadlines of next to nothing: all in the first `bytes` of the memory.
  static std::vector<TransferRequest> draw(Client& client, Opcode opcode) {
    std::vector<TransferRequest> requests;
    std::uint64_t at = 0;
    while (at < kBytes && requests.size() < 12) {
      const std::uint64_t left = kBytes - at;
      const std::uint64_t most = client.below(4) == 0 ? 30000 : 2000;
      const std::uint64_t bytes = std::min(left, 1 + client.below(most));
      const auto local = std::span(client.local).subspan(at, bytes);
      auto& other = opcode == Opcode::kRead ? client.from : client.to;
      if (opcode == Opcode::kWrite) fill_data(local, at);
      requests.push_back(request_of(opcode, local, other.data() + at));
      if (client.below(10) == 0) {
        requests.back().deadline = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(
            env::monotonic_now() + static_cast<env::Nanos>(client.below(2'000'000)) + 500'000));
      }
      at += bytes + (client.below(2) == 0 ? client.below(500) : 0);
    }
    return requests;
  }
  // What a poll may say, whenever it comes.
  static void check(const TaskStatus& status) {
    const bool ended = status.outcome == Outcome::kCompleted || status.outcome == Outcome::kFailed;
    if (ended) {
      EXPECT_TRUE(status.quiescent) << outcome_name(status.outcome);
    }
    const bool well = status.outcome == Outcome::kPending || status.outcome == Outcome::kCompleted;
    EXPECT_EQ(well, status.code == Code::kOk);
  }
  // The memory of the request is the client's again.
  void end(Client& client, const TransferRequest& request, const TaskStatus& status) {
    check(status);
    EXPECT_TRUE(status.quiescent);
    const std::span<std::byte> local(static_cast<std::byte*>(request.local), request.length);
    const std::span<std::byte> other(reinterpret_cast<std::byte*>(request.target_offset),
                                     request.length);
    if (status.outcome == Outcome::kCompleted) {
      EXPECT_TRUE(equal(local, other));
      ++client.completed;
    } else {
      ++client.given_up;
    }
    poison(local);
  }
  // Waits, gives up what is stuck, and looks at what became of it.
  void finish(Client& client, const BatchRef& batch, std::span<const TransferRequest> requests,
              std::span<const SubmitResult> results) {
    const bool hurry = client.below(4) == 0;
    const env::Nanos patience = hurry ? 0 : 20 * env::kMilli;
    if (!batch->wait_idle(within(patience))) {
      for (const SubmitResult& result : results) {
        if (result.code == Code::kOk) rig_.cancel(batch->task(result.task));
      }
    }
    EXPECT_TRUE(batch->wait_idle(within(kSoon)));
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (results[i].code != Code::kOk) {
        EXPECT_TRUE(results[i].code == Code::kUnavailable ||
                    results[i].code == Code::kDeadlineExceeded)
            << results[i].message;
        poison({static_cast<std::byte*>(requests[i].local), requests[i].length});
        continue;
      }
      end(client, requests[i], batch->task(results[i].task).status());
    }
  }
  void run_client(Client& client, int rounds) {
    for (int round = 0; round < rounds && !HasFailure(); ++round) {
      EXPECT_TRUE(is_poisoned(client.local)) << "a late write";
      if (round % 5 == 0) rig_.breakers.forget(kLocalSegment);
      const BatchId id = rig_.batches.allocate(16).value();
      BatchRef batch = rig_.batches.find(id);
      const Opcode opcode = client.below(2) == 0 ? Opcode::kRead : Opcode::kWrite;
      const auto requests = draw(client, opcode);
      const auto results = rig_.submit(batch, requests);
      ASSERT_TRUE(results);
      const bool freed_early = client.below(4) == 0;
      if (freed_early) {
        EXPECT_TRUE(rig_.batches.free(id));
        EXPECT_FALSE(rig_.batches.find(id));
      }
      finish(client, batch, requests, *results);
      if (!freed_early) {
        EXPECT_TRUE(rig_.batches.free(id));
      }
    }
  }
  void nothing_is_left() {
    rig_.dispatcher.cancel_all();
    EXPECT_TRUE(rig_.dispatcher.drain(within(kSoon)));
    stop_pumps();
    for (FaultTransport* const fault : rig_.faults) EXPECT_TRUE(fault->held().empty());
    EXPECT_EQ(rig_.dispatcher.jobs(), 0U);
    EXPECT_EQ(rig_.dispatcher.quarantined_bytes(), 0U);
    EXPECT_EQ(rig_.batches.live(), 0U);
    EXPECT_EQ(rig_.batches.kept(), 0U);
    for (Client& client : clients_) {
      EXPECT_EQ(rig_.remove_memory(client.local), Code::kOk);
      EXPECT_EQ(rig_.remove_memory(client.from), Code::kOk);
      EXPECT_EQ(rig_.remove_memory(client.to), Code::kOk);
      EXPECT_GT(client.completed, 0U);
    }
    std::uint64_t strays = 0;
    for (FaultTransport* const fault : rig_.faults) strays += fault->counts().strays;
    EXPECT_EQ(rig_.dispatcher.stray_ends(), strays);
  }

  std::deque<Client> clients_;
  Rig rig_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> pumps_;
};

TEST_F(DispatcherConcurrent, ClientsWithBatchesOfTheirOwn) {
  std::vector<std::thread> threads;
  for (Client& client : clients_) {
    threads.emplace_back([&] { run_client(client, 40); });
  }
  for (std::thread& thread : threads) thread.join();
  nothing_is_left();
}

// Several submit into one batch, others poll it and cancel in it.
TEST_F(DispatcherConcurrent, ABatchThatIsShared) {
  for (int round = 0; round < 8 && !HasFailure(); ++round) {
    rig_.breakers.forget(kLocalSegment);
    const BatchId id = rig_.batches.allocate(256).value();
    std::atomic<bool> over{false};
    // The callback may come after whoever waited was told, and after the free.
    const auto calls = std::make_shared<std::atomic<int>>(0);
    BatchRef batch = rig_.batches.find(id);
    batch->subscribe([calls, id](BatchId which) {
      EXPECT_EQ(which, id);
      ++*calls;
    });
    std::thread watcher([&] {
      std::mt19937_64 random(static_cast<std::uint64_t>(round));
      while (!over.load()) {
        const std::uint32_t tasks = batch->tasks();
        for (std::uint32_t i = 0; i < tasks; ++i) check(batch->task(i).status());
        if (tasks > 0 && random() % 4 == 0) {
          Task& task = batch->task(static_cast<std::uint32_t>(random() % tasks));
          if (rig_.cancel(task) == Code::kOk) {
            EXPECT_EQ(task.outcome(), Outcome::kCancelled);
          }
        }
        static_cast<void>(env::yield_core());
      }
    });
    std::vector<std::vector<TransferRequest>> requests(kClients);
    std::vector<std::vector<SubmitResult>> results(kClients);
    std::vector<std::thread> threads;
    for (int i = 0; i < kClients; ++i) {
      const auto at = static_cast<std::size_t>(i);
      threads.emplace_back([&, at] {
        requests[at] = draw(clients_[at], Opcode::kRead);
        results[at] = rig_.submit(batch, requests[at]).value();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < kClients; ++i) {
      finish(clients_[i], batch, requests[i], results[i]);
    }
    over = true;
    watcher.join();
    const env::Nanos end = within(kSoon);
    while (calls->load() == 0 && env::monotonic_now() < end) static_cast<void>(env::yield_core());
    EXPECT_GE(calls->load(), 1);
    EXPECT_TRUE(rig_.batches.free(id));
  }
  nothing_is_left();
}

// A range is unregistered as soon as that is allowed: nothing may touch it any more.
TEST_F(DispatcherConcurrent, UnregisteringRacesWithTransfers) {
  std::vector<std::thread> threads;
  for (Client& client : clients_) {
    threads.emplace_back([&] {
      for (int round = 0; round < 25 && !HasFailure(); ++round) {
        const BatchId id = rig_.batches.allocate(16).value();
        const auto requests = draw(client, Opcode::kRead);
        ASSERT_TRUE(rig_.submit(rig_.batches.find(id), requests));
        // Not looked at any more: cancelled, freed, forgotten.
        const BatchRef freed = rig_.batches.free(id).value();
        for (std::uint32_t i = 0; i < freed->tasks(); ++i) rig_.cancel(freed->task(i));
        const env::Nanos end = within(kSoon);
        Code code = Code::kConflict;
        while (code == Code::kConflict && env::monotonic_now() < end) {
          code = rig_.remove_memory(client.local);
          static_cast<void>(env::yield_core());
        }
        EXPECT_EQ(code, Code::kOk);
        poison(client.local);
        static_cast<void>(env::yield_core());
        EXPECT_TRUE(is_poisoned(client.local)) << "a late write";
        rig_.add_memory(client.local);
        ++client.completed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  nothing_is_left();
}

// The engine goes down under load.
TEST_F(DispatcherConcurrent, DrainEndsEverything) {
  std::vector<BatchRef> batches;
  for (Client& client : clients_) {
    const BatchId id = rig_.batches.allocate(16).value();
    batches.push_back(rig_.batches.find(id));
    ASSERT_TRUE(rig_.submit(batches.back(), draw(client, Opcode::kRead)));
    ++client.completed;
  }
  rig_.dispatcher.cancel_all();
  EXPECT_TRUE(rig_.dispatcher.drain(within(kSoon)));
  for (BatchRef& batch : batches) {
    EXPECT_TRUE(batch->idle());
    for (std::uint32_t i = 0; i < batch->tasks(); ++i) {
      check(batch->task(i).status());
      EXPECT_TRUE(batch->task(i).quiescent());
      EXPECT_NE(batch->task(i).outcome(), Outcome::kPending);
    }
    EXPECT_TRUE(rig_.batches.free(batch->id()));
    batch.reset();
  }
  nothing_is_left();
}

}  // namespace
}  // namespace larder::transfer
