// SPDX-License-Identifier: Apache-2.0
// Batches that many threads use at once.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "env/thread.h"
#include "transfer/transfer_testing.h"

namespace larder::transfer {
namespace {

constexpr int kThreads = 4;

template <class Body>
void on_threads(int threads, const Body& body) {
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : running) thread.join();
}

TEST(BatchConcurrent, OneOutcomeWinsAndIsSeenWhole) {
  constexpr std::uint32_t kTasks = 2000;
  const auto tasks = std::make_unique<Task[]>(kTasks);
  std::atomic<std::uint32_t> wins{0};
  std::atomic<bool> over{false};
  std::thread poller([&] {
    std::vector<Outcome> seen(kTasks, Outcome::kPending);
    do {
      for (std::uint32_t i = 0; i < kTasks; ++i) {
        const TaskStatus status = tasks[i].status();
        if (seen[i] != Outcome::kPending) {
          EXPECT_EQ(status.outcome, seen[i]);
        }
        seen[i] = status.outcome;
        if (status.outcome == Outcome::kPending) continue;
        const bool failed = status.outcome != Outcome::kCompleted;
        EXPECT_EQ(status.code, failed ? Code::kUnavailable : Code::kOk);
        EXPECT_EQ(status.message, failed ? "reason" : "");
        if (status.outcome == Outcome::kFailed) {
          EXPECT_TRUE(status.quiescent);
        }
      }
    } while (!over.load());
  });
  on_threads(kThreads, [&](int thread) {
    const Error error(Code::kUnavailable, "reason");
    for (std::uint32_t i = 0; i < kTasks; ++i) {
      bool won = false;
      if (thread == 0) won = tasks[i].finish(Outcome::kFailed, &error);
      if (thread == 1) won = tasks[i].set_outcome(Outcome::kCompleted, nullptr);
      if (thread == 2)
        won = tasks[i].set_outcome(Outcome::kCancelled, std::make_unique<Error>(error));
      if (thread == 3)
        won = tasks[i].set_outcome(Outcome::kTimedOut, std::make_unique<Error>(error));
      wins += won ? 1 : 0;
    }
  });
  over = true;
  poller.join();
  EXPECT_EQ(wins.load(), kTasks);
}

TEST(BatchConcurrent, AnIdIsFreedOnceAndFoundByNobodyAfterwards) {
  BatchTable table(8);
  std::atomic<std::uint64_t> id{0};
  std::atomic<int> freed{0};
  std::atomic<int> made{0};
  on_threads(kThreads, [&](int thread) {
    std::mt19937_64 random(static_cast<std::uint64_t>(thread) + 1);
    for (int i = 0; i < 3000; ++i) {
      if (random() % 3 == 0) {
        if (const auto fresh = table.allocate(1 + random() % 20)) {
          ++made;
          const std::uint64_t old = id.exchange(fresh->value);
          if (old != 0 && table.free({old})) ++freed;
        }
        continue;
      }
      const BatchId wanted{id.load()};
      const BatchRef found = table.find(wanted);
      if (found) {
        EXPECT_EQ(found->id(), wanted);
        const BatchRef more = found.another();
        EXPECT_EQ(more->tasks(), 0U);
      }
      if (random() % 8 == 0 && table.free(wanted)) {
        ++freed;
        EXPECT_FALSE(table.find(wanted));
      }
      if (random() % 64 == 0) {
        EXPECT_LE(table.all().size(), 8U);
      }
    }
  });
  if (table.free({id.load()})) ++freed;
  EXPECT_EQ(freed.load(), made.load());
  EXPECT_EQ(table.live(), 0U);
  EXPECT_EQ(table.kept(), 0U);
}

// Whoever waits, in whatever way, is told; the callback as often as the batch became idle.
TEST(BatchConcurrent, EveryWaiterIsTold) {
  constexpr int kRounds = 400;
  BatchTable table(1);
  const BatchRef batch = table.find(table.allocate(8).value());
  std::atomic<int> calls{0};
  std::atomic<std::uint64_t> events{0};
  batch->subscribe([&](BatchId) { ++calls; });
  const int fd = batch->event_fd().value();
  std::atomic<int> round{0};
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over.load()) {
      pollfd entry{fd, POLLIN, 0};
      std::uint64_t count = 0;
      if (::poll(&entry, 1, 1) == 1 && ::read(fd, &count, sizeof(count)) == 8) events += count;
    }
  });
  std::vector<std::thread> waiters;
  std::atomic<int> waited{0};
  for (int i = 0; i < 2; ++i) {
    waiters.emplace_back([&] {
      for (int mine = 1; mine <= kRounds; ++mine) {
        while (round.load() < mine) static_cast<void>(env::yield_core());
        EXPECT_TRUE(batch->wait_idle(within(kSoon)));
        ++waited;
      }
    });
  }
  for (int i = 1; i <= kRounds; ++i) {
    batch->begin_work(2, 2);
    round.store(i);
    on_threads(2, [&](int) { batch->end_work(1, 1); });
    EXPECT_TRUE(batch->idle());
    EXPECT_EQ(calls.load(), i);
    while (waited.load() < 2 * i) static_cast<void>(env::yield_core());
  }
  for (std::thread& waiter : waiters) waiter.join();
  const env::Nanos end = within(kSoon);
  while (events.load() < kRounds && env::monotonic_now() < end) {
    static_cast<void>(env::yield_core());
  }
  over = true;
  reader.join();
  EXPECT_EQ(events.load(), static_cast<std::uint64_t>(kRounds));
}

TEST(BatchConcurrent, WorkThatEndsAfterTheFreeKeepsThePlace) {
  BatchTable table(2);
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    const BatchId id = table.allocate(4).value();
    BatchRef batch = table.find(id);
    batch->begin_work(4, 4);
    batch->publish_tasks(4);
    std::thread ender([held = batch.another()] {
      for (std::uint32_t task = 0; task < 4; ++task) {
        held->task(task).end(Outcome::kCompleted, nullptr);
        held->count_completed(1);
        held->end_work(1, 1);
      }
    });
    if (random() % 2 == 0) {
      EXPECT_TRUE(batch->wait_idle(within(kSoon)));
    }
    EXPECT_TRUE(table.free(id));
    batch.reset();
    ender.join();
    EXPECT_EQ(table.kept(), 0U);
  }
}

}  // namespace
}  // namespace larder::transfer
