// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <barrier>
#include <thread>
#include <utility>
#include <vector>

#include "tier/cold/reuse_filter.h"

namespace larder::tier {
namespace {

constexpr unsigned kThreads = 4;

// Lookups that race may be lost, but a counter at its most must not start again from zero and carry
// into its neighbour.
TEST(ReuseFilterConcurrent, RacingLookupsLeaveTheMostAlone) {
  constexpr int kRounds = 500;
  for (const ReuseMode mode : {ReuseMode::kAsked, ReuseMode::kFrequency}) {
    std::vector<ReuseFilter> filters;
    for (int round = 0; round < kRounds; ++round) {
      auto made = ReuseFilter::create({.mode = mode, .memory_bytes = 64});
      ASSERT_TRUE(made);
      filters.push_back(std::move(*made));
    }
    std::barrier start(kThreads);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&filters, &start] {
        for (ReuseFilter& filter : filters) {
          start.arrive_and_wait();
          for (int i = 0; i < 40; ++i) filter.looked_up(12345);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    // A line of the sketch that aged once has half.
    const unsigned least = mode == ReuseMode::kAsked ? 3 : 7;
    for (const ReuseFilter& filter : filters) ASSERT_GE(filter.asks(12345), least);
  }
}

TEST(ReuseFilterConcurrent, ManyKeysFromManyThreads) {
  for (const ReuseMode mode : {ReuseMode::kAsked, ReuseMode::kFrequency}) {
    auto filter = ReuseFilter::create({.mode = mode, .memory_bytes = 4096});
    ASSERT_TRUE(filter);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&filter, t] {
        std::uint64_t hash = t + 1;
        for (int i = 0; i < 20000; ++i) {
          hash = hash * 6364136223846793005U + 1442695040888963407U;
          filter->looked_up(hash);
          filter->looked_up(7);
          filter->is_worth(hash, false);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(filter->asks(7), 16U);
  }
}

}  // namespace
}  // namespace larder::tier
