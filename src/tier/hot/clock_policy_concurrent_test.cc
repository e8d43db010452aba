// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tier/hot/clock_policy.h"

namespace larder::tier {
namespace {

TEST(ClockPolicyConcurrent, TouchesNeedNoLock) {
  constexpr std::uint32_t kHandles = 1U << 14U;
  auto policy = ClockPolicy::create({.handles_max = kHandles});
  ASSERT_TRUE(policy);
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (std::uint32_t t = 0; t < 3; ++t) {
    readers.emplace_back([&, t] {
      for (std::uint32_t h = t; !stop.load(std::memory_order_relaxed); h += 7) {
        policy->touch(h % (kHandles + 100));
      }
    });
  }
  for (int round = 0; round < 5; ++round) {
    for (std::uint32_t h = 0; h < kHandles; ++h) ASSERT_TRUE(policy->insert(h, 10));
    for (std::uint32_t h = 0; h < kHandles; h += 2) ASSERT_TRUE(policy->erase(h));
    for (int i = 0; i < 100; ++i) {
      const auto victim = policy->next_victim([](std::uint32_t) { return true; });
      if (victim) {
        ASSERT_TRUE(policy->erase(*victim));
      }
    }
    ASSERT_EQ(policy->bytes(), policy->entries() * 10);
    for (std::uint32_t h = 0; h < kHandles; ++h) policy->erase(h);
    ASSERT_EQ(policy->entries(), 0U);
  }
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace larder::tier
