// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/reuse_filter.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

#include "env/test_seeds.h"

namespace larder::tier {
namespace {

ReuseFilter make(const ReuseOptions& options) {
  auto made = ReuseFilter::create(options);
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

std::uint64_t hash_of(std::uint64_t key) {
  std::uint64_t x = key + 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EB;
  return x ^ (x >> 31U);
}

constexpr ReuseMode kBoth[] = {ReuseMode::kAsked, ReuseMode::kFrequency};

TEST(ReuseFilter, RefusesBadOptions) {
  EXPECT_FALSE(ReuseFilter::create({.memory_bytes = 63}));
  EXPECT_FALSE(ReuseFilter::create({.memory_bytes = (1ULL << 32U) + 1}));
  EXPECT_FALSE(ReuseFilter::create({.asks_min = 0}));
  EXPECT_FALSE(ReuseFilter::create({.asks_min = 4}));
  EXPECT_FALSE(ReuseFilter::create({.mode = ReuseMode::kAsked, .asks_min = 4}));
  EXPECT_TRUE(ReuseFilter::create({.mode = ReuseMode::kFrequency, .asks_min = 16}));
  EXPECT_FALSE(ReuseFilter::create({.mode = ReuseMode::kFrequency, .asks_min = 17}));
}

TEST(ReuseFilter, Names) {
  for (const auto mode : {ReuseMode::kAll, ReuseMode::kAsked, ReuseMode::kFrequency}) {
    EXPECT_EQ(parse_reuse_mode(reuse_mode_name(mode)), mode);
  }
  EXPECT_FALSE(parse_reuse_mode("none"));
}

TEST(ReuseFilter, AllTakesEverythingAndNoMemory) {
  ReuseFilter filter = make({});
  EXPECT_TRUE(filter.is_worth(1, false));
  filter.looked_up(1);
  EXPECT_EQ(filter.asks(1), 0U);
  EXPECT_EQ(filter.report_memory_bytes(), 0U);
}

TEST(ReuseFilter, MemoryIsWhatWasGiven) {
  for (const ReuseMode mode : kBoth) {
    EXPECT_EQ(make({.mode = mode, .memory_bytes = 1000}).report_memory_bytes(), 960U);
  }
}

TEST(ReuseFilter, WorthAfterSoManyLookups) {
  for (const ReuseMode mode : kBoth) {
    SCOPED_TRACE(reuse_mode_name(mode));
    for (std::uint8_t asks_min = 1; asks_min <= 3; ++asks_min) {
      ReuseFilter filter = make({.mode = mode, .memory_bytes = 1 << 16, .asks_min = asks_min});
      const std::uint64_t hash = hash_of(7);
      for (unsigned asked = 0; asked < 5; ++asked) {
        EXPECT_EQ(filter.is_worth(hash, false), asked >= asks_min) << asked;
        filter.looked_up(hash);
      }
      EXPECT_FALSE(filter.is_worth(hash_of(8), false));
    }
  }
}

TEST(ReuseFilter, EverythingWhileThereIsRoom) {
  for (const ReuseMode mode : kBoth) {
    EXPECT_TRUE(make({.mode = mode}).is_worth(1, true));
    EXPECT_FALSE(make({.mode = mode}).is_worth(1, false));
    EXPECT_FALSE(make({.mode = mode, .fill_first = false}).is_worth(1, true));
  }
}

TEST(ReuseFilter, CountsStopAtTheirMost) {
  ReuseFilter asked = make({.mode = ReuseMode::kAsked, .memory_bytes = 64});
  ReuseFilter counted = make({.mode = ReuseMode::kFrequency, .memory_bytes = 64});
  for (int i = 0; i < 1000; ++i) {
    asked.looked_up(hash_of(1));
    counted.looked_up(hash_of(1));
  }
  EXPECT_EQ(asked.asks(hash_of(1)), 3U);
  EXPECT_EQ(counted.asks(hash_of(1)), 16U);
}

TEST(ReuseFilter, ZeroIsAKeyLikeAnyOther) {
  ReuseFilter filter = make({.mode = ReuseMode::kAsked, .memory_bytes = 64});
  EXPECT_EQ(filter.asks(0), 0U);
  filter.looked_up(0);
  EXPECT_EQ(filter.asks(0), 1U);
}

// One line, so that it is known what is remembered: the last 15 new keys, whatever their counts.
TEST(ReuseFilter, AskedAgreesWithAModel) {
  const auto seeds = env::test_seeds(5);
  for (std::uint64_t seed = seeds.first; seed != seeds.end(); ++seed) {
    SCOPED_TRACE(env::seed_trace(seed, "tier_cold_test", "ReuseFilter.AskedAgreesWithAModel"));
    std::mt19937_64 random(seed);
    ReuseFilter filter = make({.mode = ReuseMode::kAsked, .memory_bytes = 64});
    std::deque<std::uint64_t> order;
    std::map<std::uint64_t, unsigned> counts;
    for (int step = 0; step < 20000; ++step) {
      const std::uint64_t hash = hash_of(random() % 40);
      filter.looked_up(hash);
      if (counts[hash] == 0) {
        order.push_back(hash);
        if (order.size() > 15) {
          counts.erase(order.front());
          order.pop_front();
        }
      }
      if (counts[hash] < 3) ++counts[hash];
      const std::uint64_t other = hash_of(random() % 40);
      const auto found = counts.find(other);
      ASSERT_EQ(filter.asks(other), found == counts.end() ? 0 : found->second) << step;
    }
  }
}

// The sketch may only err upwards until it ages, and rarely.
TEST(ReuseFilter, FrequencyErrsUpwardsAndRarely) {
  const auto seeds = env::test_seeds(5);
  for (std::uint64_t seed = seeds.first; seed != seeds.end(); ++seed) {
    SCOPED_TRACE(
        env::seed_trace(seed, "tier_cold_test", "ReuseFilter.FrequencyErrsUpwardsAndRarely"));
    ReuseFilter filter = make({.mode = ReuseMode::kFrequency, .memory_bytes = 64 * 1000});
    std::mt19937_64 random(seed);
    const std::uint64_t base = random();
    constexpr int kKeys = 10000;  // ten a line, asked up to three times: no line ages
    for (int key = 0; key < kKeys; ++key) {
      for (int i = 0; i < key % 4; ++i)
        filter.looked_up(hash_of(base + static_cast<unsigned>(key)));
    }
    int wrong = 0;
    for (int key = 0; key < kKeys; ++key) {
      const unsigned asks = filter.asks(hash_of(base + static_cast<unsigned>(key)));
      ASSERT_GE(asks, static_cast<unsigned>(key % 4)) << key;
      wrong += asks != static_cast<unsigned>(key % 4) ? 1 : 0;
    }
    EXPECT_LT(wrong, kKeys / 20);
  }
}

TEST(ReuseFilter, WhatIsNoLongerAskedForIsForgotten) {
  for (const ReuseMode mode : kBoth) {
    SCOPED_TRACE(reuse_mode_name(mode));
    ReuseFilter filter = make({.mode = mode, .memory_bytes = 64 * 16});
    for (int i = 0; i < 20; ++i) filter.looked_up(hash_of(1));
    EXPECT_GE(filter.asks(hash_of(1)), 3U);
    for (std::uint64_t key = 2; key < 20000; ++key) filter.looked_up(hash_of(key));
    EXPECT_FALSE(filter.is_worth(hash_of(1), false));
  }
}

// A count that is halved must not leave its lowest bit to its neighbour as the highest.
TEST(ReuseFilter, AgeingInventsNoKey) {
  ReuseFilter filter = make({.mode = ReuseMode::kFrequency, .memory_bytes = 64});
  for (int i = 0; i < 40; ++i) filter.looked_up(hash_of(1));
  std::uint64_t key = 1;
  while (filter.asks(hash_of(1)) > 8) filter.looked_up(hash_of(++key));
  int invented = 0;
  for (std::uint64_t other = 1U << 20U; other < (1U << 20U) + (1U << 18U); ++other) {
    invented += filter.asks(hash_of(other)) >= 4 ? 1 : 0;
  }
  EXPECT_LT(invented, 20);  // 2^18 keys, four rows of 16: four share all counters of key 1
}

// A stream of keys that come once leaves few that look worth it, and keeps those that do come.
TEST(ReuseFilter, TellsTheReturningFromTheMany) {
  for (const ReuseMode mode : kBoth) {
    SCOPED_TRACE(reuse_mode_name(mode));
    ReuseFilter filter = make({.mode = mode, .memory_bytes = 64 * 4096});
    std::uint64_t next = 1000;
    int taken = 0;
    int kept = 0;
    for (int round = 0; round < 20; ++round) {
      for (std::uint64_t hot = 0; hot < 500; ++hot) {
        filter.looked_up(hash_of(hot));
        if (round > 0) kept += filter.is_worth(hash_of(hot), false) ? 1 : 0;
      }
      for (int i = 0; i < 2000; ++i) {
        filter.looked_up(hash_of(++next));
        taken += filter.is_worth(hash_of(next), false) ? 1 : 0;
      }
    }
    EXPECT_GT(kept, 19 * 500 * 98 / 100);
    EXPECT_LT(taken, 20 * 2000 * 5 / 100);
  }
}

}  // namespace
}  // namespace larder::tier
