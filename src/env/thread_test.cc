// SPDX-License-Identifier: Apache-2.0
#include "env/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <condition_variable>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace larder::env {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

// Collects the times at which a step ran, and waits for the n-th.
class Runs {
 public:
  void add(Nanos now) {
    const std::lock_guard lock(mutex_);
    times_.push_back(now);
    changed_.notify_all();
  }
  bool wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return times_.size() >= count; });
  }
  std::vector<Nanos> times() {
    const std::lock_guard lock(mutex_);
    return times_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Nanos> times_;
};

TEST(ThreadExecutor, RunsANewStepAtOnce) {
  ManualClock clock;
  const auto executor = make_thread_executor(clock);
  Runs runs;
  executor->add("step", [&](Nanos now) {
    runs.add(now);
    return now + 3600 * kSecond;
  });
  EXPECT_TRUE(runs.wait_for(1));
  executor->stop();
  EXPECT_EQ(runs.times(), std::vector<Nanos>{clock.now()});
}

// A step that wants to run in an hour is not run before, however often its neighbours are.
TEST(ThreadExecutor, KeepsDueTimesBeyondASecond) {
  ManualClock clock;
  const auto executor = make_thread_executor(clock);
  Runs late;
  Runs busy;
  executor->add("late", [&](Nanos now) {
    late.add(now);
    return now + 3600 * kSecond;
  });
  executor->add("busy", [&](Nanos now) {
    busy.add(now);
    return now + 3600 * kSecond;
  });
  ASSERT_TRUE(late.wait_for(1) && busy.wait_for(1));
  for (std::size_t i = 2; i < 10; ++i) {
    clock.advance(5 * kSecond);
    executor->wake("busy");
    ASSERT_TRUE(busy.wait_for(i));
  }
  executor->stop();
  EXPECT_EQ(late.times().size(), 1U);
}

TEST(ThreadExecutor, RunsAStepWhenTheClockReachesItsTime) {
  ManualClock clock;
  const auto executor = make_thread_executor(clock);
  Runs runs;
  executor->add("step", [&](Nanos now) {
    runs.add(now);
    return now + 10 * kMilli;
  });
  ASSERT_TRUE(runs.wait_for(1));
  clock.advance(10 * kMilli);
  ASSERT_TRUE(runs.wait_for(2));
  executor->stop();
  const std::vector<Nanos> times = runs.times();
  EXPECT_EQ(times[1] - times[0], 10 * kMilli);
}

TEST(ThreadExecutor, WakeInsideTheStepRunsItAgain) {
  ManualClock clock;
  const auto executor = make_thread_executor(clock);
  Runs runs;
  executor->add("step", [&](Nanos now) {
    if (runs.times().empty()) executor->wake("step");
    runs.add(now);
    return now + 3600 * kSecond;
  });
  EXPECT_TRUE(runs.wait_for(2));
  executor->wake("nobody has this name");
  executor->stop();
  EXPECT_EQ(runs.times().size(), 2U);
}

TEST(ThreadExecutor, StepsMayAddSteps) {
  ManualClock clock;
  const auto executor = make_thread_executor(clock);
  Runs inner;
  executor->add("outer", [&](Nanos now) {
    for (int i = 0; i < 20; ++i) {
      executor->add("inner", [&](Nanos at) {
        inner.add(at);
        return at + 3600 * kSecond;
      });
    }
    return now + 3600 * kSecond;
  });
  EXPECT_TRUE(inner.wait_for(20));
  executor->stop();
}

TEST(ThreadExecutor, StopWaitsForTheRunningStepAndRunsNoMore) {
  ManualClock clock;
  const auto executor = make_thread_executor(clock);
  Runs runs;
  std::atomic<bool> finished{false};
  executor->add("step", [&](Nanos now) {
    runs.add(now);
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    finished = true;
    return now;  // always due
  });
  ASSERT_TRUE(runs.wait_for(1));
  executor->stop();
  EXPECT_TRUE(finished);
  const std::size_t count = runs.times().size();
  executor->wake("step");
  executor->stop();  // twice is harmless
  EXPECT_EQ(runs.times().size(), count);
}

TEST(SpinTicket, NobodySpinsWhileMoreWaitThanHalfOfTheCores) {
  const unsigned others = core_count() / 2 - 1;
  std::promise<void> go;
  const std::shared_future<void> end = go.get_future().share();
  std::vector<std::future<bool>> granted;
  std::vector<std::thread> threads;
  const auto wait_in_a_thread = [&] {
    std::promise<bool> holds;
    granted.push_back(holds.get_future());
    threads.emplace_back([end, holds = std::move(holds)]() mutable {
      const SpinTicket ticket;
      holds.set_value(ticket.granted());
      end.wait();
    });
    return granted.back().get();
  };
  for (unsigned i = 0; i < others; ++i) EXPECT_TRUE(wait_in_a_thread()) << i;
  const SpinTicket ours;
  EXPECT_TRUE(ours.granted());
  {
    const SpinTicket again;  // of the same thread
    EXPECT_TRUE(again.granted());
  }
  EXPECT_FALSE(wait_in_a_thread()) << "one too many";
  EXPECT_FALSE(ours.granted());
  go.set_value();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(ours.granted());
}

TEST(Thread, LongNamesAreCut) {
  std::thread([] {
    set_thread_name("larder-with-a-very-long-name");
    std::array<char, 32> name{};
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    EXPECT_STREQ(name.data(), "larder-with-a-v");
  }).join();
}

TEST(Thread, CoreCountIsPositive) {
  EXPECT_GE(core_count(), 1U);
}

TEST(Clock, ManualClockMovesOnlyWhenTold) {
  ManualClock clock;
  const Nanos start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(5);
  clock.sleep(7);
  EXPECT_EQ(clock.now(), start + 12);
  EXPECT_EQ(clock.wall(), clock.now());
}

TEST(Clock, SystemClockGoesForward) {
  const Nanos first = system_clock().now();
  EXPECT_GE(monotonic_now(), first);
  EXPECT_GT(system_clock().wall(), 1'600'000'000 * kSecond);
  system_clock().sleep(0);
  system_clock().sleep(-5);
}

}  // namespace
}  // namespace larder::env
