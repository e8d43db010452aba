// SPDX-License-Identifier: Apache-2.0
#include "tier/hot/clock_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <list>
#include <random>
#include <unordered_map>
#include <vector>

namespace larder::tier {
namespace {

const std::function<bool(std::uint32_t)> kAny = [](std::uint32_t) { return true; };

ClockPolicy make(ClockOptions options = {}) {
  auto made = ClockPolicy::create(options);
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

// Takes the next victim out; -1 when there is none.
int evict(ClockPolicy& policy) {
  const auto victim = policy.next_victim(kAny);
  if (!victim) return -1;
  EXPECT_TRUE(policy.erase(*victim));
  return static_cast<int>(*victim);
}

TEST(ClockPolicy, RefusesBadOptions) {
  EXPECT_FALSE(ClockPolicy::create({.handles_max = 0}));
  EXPECT_FALSE(ClockPolicy::create({.handles_max = 0xFFFFFFFFU}));
  EXPECT_FALSE(ClockPolicy::create({.hit_credit = 16}));
  EXPECT_FALSE(ClockPolicy::create({.ghost_credit = 16}));
  EXPECT_FALSE(ClockPolicy::create({.ghosts_max = 0xFFFFFFFFU}));
}

TEST(ClockPolicy, CountsEntriesAndBytes) {
  ClockPolicy policy = make({.handles_max = 10000});
  EXPECT_TRUE(policy.insert(3, 100));
  EXPECT_FALSE(policy.insert(3, 100));
  EXPECT_TRUE(policy.insert(9999, 50));
  EXPECT_FALSE(policy.insert(10000, 50));
  EXPECT_EQ(policy.entries(), 2U);
  EXPECT_EQ(policy.bytes(), 150U);
  EXPECT_TRUE(policy.contains(3));
  EXPECT_FALSE(policy.contains(4));
  EXPECT_FALSE(policy.erase(4));
  EXPECT_FALSE(policy.erase(5000));
  EXPECT_FALSE(policy.erase(20000));
  EXPECT_TRUE(policy.erase(3));
  EXPECT_FALSE(policy.erase(3));
  EXPECT_EQ(policy.bytes(), 50U);
  policy.touch(12);
  policy.touch(5000);
  policy.touch(4000000000U);
  ClockPolicy moved = std::move(policy);
  EXPECT_TRUE(moved.contains(9999));
  EXPECT_EQ(moved.bytes(), 50U);
}

TEST(ClockPolicy, UntouchedEntriesLeaveInOrder) {
  ClockPolicy policy = make();
  for (std::uint32_t h = 0; h < 10; ++h) policy.insert(h, 1);
  policy.erase(4);
  for (const int want : {0, 1, 2, 3, 5, 6, 7, 8, 9, -1}) EXPECT_EQ(evict(policy), want);
}

TEST(ClockPolicy, AHitBuysThreeRounds) {
  ClockPolicy policy = make();
  for (std::uint32_t h = 0; h < 3; ++h) policy.insert(h, 1);
  policy.touch(0);
  policy.touch(0);
  EXPECT_EQ(policy.credit(0), 3U);
  EXPECT_EQ(evict(policy), 1);  // 0 paid its first credit
  policy.insert(5, 1);
  EXPECT_EQ(evict(policy), 2);
  EXPECT_EQ(evict(policy), 5);  // its second
  policy.insert(6, 1);
  EXPECT_EQ(evict(policy), 6);  // its third
  policy.insert(7, 1);
  EXPECT_EQ(evict(policy), 0);
  EXPECT_EQ(evict(policy), 7);
}

TEST(ClockPolicy, AGhostComesBackWithCredit) {
  ClockPolicy policy = make();
  const std::uint32_t print = ClockPolicy::fingerprint(0x123456789abcdef0);
  policy.insert(0, 1, print);
  EXPECT_EQ(policy.credit(0), 0U);
  policy.remember(print);
  policy.erase(0);
  policy.insert(1, 1, ClockPolicy::fingerprint(0x123456789abcdef1));
  EXPECT_EQ(policy.credit(1), 0U);
  policy.insert(0, 1, print);
  EXPECT_EQ(policy.credit(0), 3U);
  policy.erase(0);
  policy.insert(0, 1, print);  // the ghost is used up
  EXPECT_EQ(policy.credit(0), 0U);
  EXPECT_NE(ClockPolicy::fingerprint(0), 0U);
  EXPECT_NE(ClockPolicy::fingerprint(0x0000000500000005), 0U);  // folds to 0

  ClockPolicy without = make({.ghosts_max = 0});
  without.insert(0, 1, print);
  without.remember(print);
  without.erase(0);
  without.insert(0, 1, print);
  EXPECT_EQ(without.credit(0), 0U);
}

TEST(GhostList, ForgetsTheOldest) {
  GhostList ghosts(1500);  // 1024 places
  for (std::uint32_t i = 1; i <= 3000; ++i) ghosts.remember(i, 1U << 20U);
  EXPECT_EQ(ghosts.places(), 1024U);
  EXPECT_FALSE(ghosts.take(3000 - 1024));
  for (std::uint32_t i = 3000 - 1023; i <= 3000; ++i) ASSERT_TRUE(ghosts.take(i)) << i;
  EXPECT_FALSE(ghosts.take(3000));
  EXPECT_FALSE(ghosts.take(0));
}

TEST(GhostList, GrowsWithTheEntriesOnly) {
  GhostList ghosts(1U << 16U);
  EXPECT_EQ(ghosts.report_memory_bytes(), 0U);
  for (std::uint32_t i = 1; i <= 20000; ++i) ghosts.remember(i, 5000);
  EXPECT_EQ(ghosts.places(), 8192U);
  EXPECT_EQ(ghosts.report_memory_bytes(), 12U * 8192);
  EXPECT_TRUE(ghosts.take(20000 - 8191));
  EXPECT_FALSE(ghosts.take(20000 - 8192));
  for (std::uint32_t i = 1; i <= 200000; ++i) ghosts.remember(i, 1U << 20U);
  EXPECT_EQ(ghosts.places(), 1U << 16U);

  GhostList none;
  none.remember(1, 100);
  EXPECT_FALSE(none.take(1));
  EXPECT_EQ(none.report_memory_bytes(), 0U);
  GhostList one(1);
  one.remember(1, 100);
  one.remember(2, 100);
  EXPECT_FALSE(one.take(1));
  EXPECT_TRUE(one.take(2));
}

// Against a plain list: places in order, a taken one stays empty until it is overwritten.
TEST(GhostList, AgreesWithAModel) {
  constexpr std::uint64_t kSeed = 20260706;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  GhostList ghosts(1024);
  std::list<std::uint32_t> model(1024, 0);  // oldest first
  for (int step = 0; step < 200000; ++step) {
    const auto print = static_cast<std::uint32_t>(random() % 3000 + 1)
                       << (step % 2 == 0 ? 0U : 20U);
    const auto found = std::find(model.begin(), model.end(), print);
    const bool there = found != model.end();
    if (random() % 3 == 0) {
      ASSERT_EQ(ghosts.take(print), there) << step;
      if (there) *found = 0;
    } else {
      ghosts.remember(print, 0);
      if (there) *found = 0;
      model.pop_front();
      model.push_back(print);
    }
  }
}

TEST(ClockPolicy, AReusedHandleStartsAfresh) {
  ClockPolicy policy = make();
  policy.insert(0, 1);
  policy.touch(0);
  policy.erase(0);
  policy.insert(0, 1);
  EXPECT_EQ(policy.credit(0), 0U);
}

TEST(ClockPolicy, PassesOverWhatIsPinnedWithinItsBudget) {
  ClockPolicy policy = make();
  for (std::uint32_t h = 0; h < 100; ++h) policy.insert(h, 1);
  const auto odd = policy.next_victim([](std::uint32_t h) { return h % 2 == 1; });
  EXPECT_EQ(odd, 1U);
  EXPECT_TRUE(policy.contains(1));  // until the caller erases it

  std::uint64_t looked = 0;
  const auto none = policy.next_victim([&](std::uint32_t) { return ++looked == 0; });
  EXPECT_FALSE(none);
  EXPECT_EQ(looked, 400U);
  EXPECT_EQ(policy.full_steps(), 400U);

  for (std::uint32_t h = 0; h < 100; ++h) policy.touch(h);
  EXPECT_FALSE(policy.next_victim(kAny, 300));
  EXPECT_TRUE(policy.next_victim(kAny, 1));
  for (std::uint32_t h = 0; h < 100; ++h) policy.touch(h);
  EXPECT_TRUE(policy.next_victim(kAny));  // four rounds suffice whatever was touched
  EXPECT_FALSE(make().next_victim(kAny));
}

TEST(ClockPolicy, MemoryStaysBelow24BytesAnEntry) {
  constexpr std::uint32_t kEntries = 1U << 20U;
  ClockPolicy policy = make({.handles_max = kEntries});
  for (std::uint32_t h = 0; h < kEntries; ++h) ASSERT_TRUE(policy.insert(h, 1));
  EXPECT_LE(policy.report_memory_bytes(), 24ULL * kEntries);
  std::printf("%.2f bytes an entry\n",
              static_cast<double>(policy.report_memory_bytes()) / kEntries);
}

// Exact LRU over the same requests, to compare with.
class Lru {
 public:
  explicit Lru(std::size_t capacity) : capacity_(capacity) {}
  bool access(std::uint32_t key) {
    const auto found = where_.find(key);
    if (found != where_.end()) {
      order_.splice(order_.end(), order_, found->second);
      return true;
    }
    where_[key] = order_.insert(order_.end(), key);
    if (where_.size() > capacity_) {
      where_.erase(order_.front());
      order_.pop_front();
    }
    return false;
  }

 private:
  std::size_t capacity_;
  std::list<std::uint32_t> order_;
  std::unordered_map<std::uint32_t, std::list<std::uint32_t>::iterator> where_;
};

bool access_clock(ClockPolicy& policy, std::uint32_t key, std::uint64_t capacity) {
  if (policy.contains(key)) {
    policy.touch(key);
    return true;
  }
  EXPECT_TRUE(policy.insert(key, 1));
  // The watermarks of the tier: from 90 % down to 80 %.
  if (policy.entries() > capacity * 9 / 10) {
    while (policy.entries() > capacity * 8 / 10 && evict(policy) >= 0) {
    }
  }
  return false;
}

// Keys 0..kKeys-1 by a Zipf law, with runs of keys that are asked for once and never again.
std::vector<std::uint32_t> zipf_and_scans(std::uint64_t seed) {
  constexpr std::uint32_t kKeys = 20000;
  constexpr std::size_t kRequests = 200000;
  std::mt19937_64 random(seed);
  std::vector<double> sums(kKeys);
  double sum = 0;
  for (std::uint32_t i = 0; i < kKeys; ++i) sums[i] = sum += 1.0 / std::pow(i + 1, 0.9);
  std::uniform_real_distribution<double> at(0, sum);
  std::vector<std::uint32_t> trace;
  std::uint32_t scanned = kKeys;
  while (trace.size() < kRequests) {
    if (random() % 2000 == 0) {
      for (int i = 0; i < 1500; ++i) trace.push_back(scanned++);
    }
    const auto found = std::lower_bound(sums.begin(), sums.end(), at(random));
    trace.push_back(static_cast<std::uint32_t>(found - sums.begin()));
  }
  return trace;
}

TEST(ClockPolicy, HitsAboutAsOftenAsLru) {
  for (const std::uint64_t seed : {1UL, 2UL, 3UL}) {
    const std::vector<std::uint32_t> trace = zipf_and_scans(seed);
    constexpr std::uint64_t kCapacity = 2000;
    Lru lru(kCapacity);
    ClockPolicy clock = make({.handles_max = 1U << 20U});
    double lru_hits = 0;
    double clock_hits = 0;
    for (const std::uint32_t key : trace) {
      lru_hits += lru.access(key) ? 1 : 0;
      clock_hits += access_clock(clock, key, kCapacity) ? 1 : 0;
    }
    const auto asked = static_cast<double>(trace.size());
    std::printf("seed %lu: LRU %.2f %%, CLOCK at 90/80 %.2f %%\n", seed, 100 * lru_hits / asked,
                100 * clock_hits / asked);
    EXPECT_GE(clock_hits / asked, lru_hits / asked - 0.02) << "seed " << seed;
  }
}

}  // namespace
}  // namespace larder::tier
