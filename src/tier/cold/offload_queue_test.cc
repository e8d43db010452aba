// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/offload_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "env/test_seeds.h"

namespace larder::tier {
namespace {

using env::kMilli;
using env::kSecond;
using Put = OffloadQueue::Put;

constexpr env::Nanos kNow = 1000 * kSecond;

OffloadQueue make(const OffloadQueueOptions& options = {}) {
  auto made = OffloadQueue::create(options);
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

OffloadQueue make(OffloadOrder order) {
  OffloadQueueOptions options;
  options.order = order;
  return make(options);
}

// The slots in the order in which they are taken.
std::vector<int> drain(OffloadQueue& queue, env::Nanos now) {
  std::vector<int> slots;
  while (const auto item = queue.take(now)) slots.push_back(static_cast<int>(item->slot));
  return slots;
}

TEST(OffloadQueue, RefusesBadOptions) {
  EXPECT_FALSE(OffloadQueue::create({.items_max = 0}));
  EXPECT_FALSE(OffloadQueue::create({.items_max = 1U << 31U}));
  EXPECT_FALSE(OffloadQueue::create({.slots_max = 0}));
  EXPECT_FALSE(OffloadQueue::create({.slots_max = (1U << 31U) + 1}));
  EXPECT_FALSE(OffloadQueue::create({.age_limit = -1}));
  EXPECT_FALSE(OffloadQueue::create({.retry_first = 0}));
  EXPECT_FALSE(OffloadQueue::create({.retry_first = 2, .retry_max = 1}));
  EXPECT_FALSE(OffloadQueue::create({.refused_pause = -1}));
}

TEST(OffloadQueue, NamesOfModesAndOrders) {
  for (const auto mode : {OffloadMode::kPassthrough, OffloadMode::kEvictTriggered}) {
    EXPECT_EQ(parse_offload_mode(offload_mode_name(mode)), mode);
  }
  for (const auto order :
       {OffloadOrder::kFifo, OffloadOrder::kSmallFirst, OffloadOrder::kLargeFirst}) {
    EXPECT_EQ(parse_offload_order(offload_order_name(order)), order);
  }
  EXPECT_FALSE(parse_offload_mode("fifo"));
  EXPECT_FALSE(parse_offload_order(""));
}

TEST(OffloadQueue, OrdersAndEqualsByAge) {
  struct Case {
    OffloadOrder order;
    std::vector<int> want;
  };
  for (const Case& c : {Case{OffloadOrder::kFifo, {7, 3, 9, 1, 5}},
                        Case{OffloadOrder::kSmallFirst, {3, 5, 7, 1, 9}},
                        Case{OffloadOrder::kLargeFirst, {9, 7, 1, 3, 5}}}) {
    SCOPED_TRACE(offload_order_name(c.order));
    OffloadQueue queue = make(c.order);
    EXPECT_EQ(queue.put(7, 1, 200, kNow), Put::kQueued);
    EXPECT_EQ(queue.put(3, 1, 100, kNow), Put::kQueued);
    EXPECT_EQ(queue.put(9, 1, 300, kNow), Put::kQueued);
    EXPECT_EQ(queue.put(1, 1, 200, kNow), Put::kQueued);
    EXPECT_EQ(queue.put(5, 1, 100, kNow - kSecond), Put::kQueued);  // the clock stepped back
    EXPECT_EQ(queue.counts().bytes, 900U);
    EXPECT_EQ(drain(queue, kNow), c.want);
    EXPECT_EQ(queue.counts().bytes, 0U);
    EXPECT_EQ(queue.counts().attempts, 5U);
  }
}

TEST(OffloadQueue, WhoWaitedTooLongGoesFirst) {
  OffloadQueue queue = make(OffloadOrder::kSmallFirst);
  queue.put(0, 1, 1000, kNow);
  queue.put(1, 1, 900, kNow + 10 * kSecond);
  queue.put(2, 1, 10, kNow + 20 * kSecond);
  queue.put(3, 1, 20, kNow + 20 * kSecond);
  EXPECT_EQ(queue.take(kNow + 30 * kSecond - 1)->slot, 2U);
  EXPECT_EQ(queue.take(kNow + 30 * kSecond)->slot, 0U);
  EXPECT_EQ(queue.take(kNow + 30 * kSecond)->slot, 3U);
}

TEST(OffloadQueue, OneItemASlotTheNewest) {
  OffloadQueue queue = make();
  EXPECT_EQ(queue.put(4, 10, 100, kNow), Put::kQueued);
  EXPECT_EQ(queue.put(5, 10, 100, kNow), Put::kQueued);
  EXPECT_EQ(queue.put(4, 10, 100, kNow), Put::kPresent);
  EXPECT_EQ(queue.put(4, 9, 50, kNow), Put::kStale);
  EXPECT_EQ(queue.put(4, 11, 70, kNow), Put::kReplaced);
  EXPECT_EQ(queue.counts().size, 2U);
  EXPECT_EQ(queue.counts().bytes, 170U);
  EXPECT_EQ(queue.counts().replaced, 1U);
  EXPECT_EQ(queue.take(kNow)->slot, 5U);  // a new item has a new age
  const auto item = queue.take(kNow);
  EXPECT_EQ(item->version, 11U);
  EXPECT_EQ(item->length, 70U);
  EXPECT_FALSE(queue.take(kNow));
  EXPECT_FALSE(queue.next_due(kNow));
}

TEST(OffloadQueue, RemovesAndBounds) {
  OffloadQueue queue = make({.items_max = 2, .slots_max = 5000});
  EXPECT_EQ(queue.put(5000, 1, 1, kNow), Put::kBadSlot);
  EXPECT_FALSE(queue.remove(4));
  EXPECT_FALSE(queue.remove(9999));
  EXPECT_EQ(queue.put(4999, 1, 1, kNow), Put::kQueued);
  EXPECT_EQ(queue.put(0, 1, 2, kNow), Put::kQueued);
  EXPECT_EQ(queue.put(1, 1, 4, kNow), Put::kFull);
  EXPECT_EQ(queue.put(0, 2, 8, kNow), Put::kReplaced);
  EXPECT_EQ(queue.counts().refused, 1U);
  EXPECT_EQ(queue.counts().bytes, 9U);
  EXPECT_EQ(queue.remove(4999)->length, 1U);
  EXPECT_FALSE(queue.contains(4999));
  EXPECT_EQ(queue.put(1, 1, 4, kNow), Put::kQueued);
  const auto item = queue.take(kNow);
  ASSERT_TRUE(item);
  EXPECT_EQ(queue.put(2, 1, 1, kNow), Put::kQueued);
  EXPECT_FALSE(queue.retry(*item, kNow));  // full
  EXPECT_FALSE(queue.retry({.slot = 5000}, kNow));
  EXPECT_EQ(queue.counts().retries, 0U);
}

TEST(OffloadQueue, BacksOffFrom100MillisecondsTo5Seconds) {
  OffloadQueue queue = make();
  queue.put(1, 1, 100, kNow);
  env::Nanos now = kNow;
  for (const env::Nanos pause : {100, 200, 400, 800, 1600, 3200, 5000, 5000}) {
    const auto item = queue.take(now);
    ASSERT_TRUE(item);
    EXPECT_TRUE(queue.retry(*item, now));
    EXPECT_EQ(queue.next_due(now), now + pause * kMilli);
    EXPECT_EQ(queue.counts().delayed, 1U);
    EXPECT_FALSE(queue.take(now + pause * kMilli - 1));
    now += pause * kMilli;
  }
  const auto item = queue.take(now);
  EXPECT_EQ(item->failures, 8U);
  EXPECT_EQ(item->since, kNow);
  OffloadItem worn = *item;
  worn.failures = 0xFFFFFFFFU;
  EXPECT_TRUE(queue.retry(worn, now));
  EXPECT_EQ(queue.next_due(now), now + 5 * kSecond);
  EXPECT_EQ(queue.take(now + 5 * kSecond)->failures, 0xFFFFFFFFU);
  const env::Nanos end = std::numeric_limits<env::Nanos>::max() - 5;
  EXPECT_TRUE(queue.retry(worn, end));
  EXPECT_EQ(queue.next_due(end), end + 5);
}

TEST(OffloadQueue, WhatWasRefusedComesBackInItsPlace) {
  OffloadQueue queue = make();
  queue.put(1, 1, 100, kNow);
  queue.put(2, 1, 100, kNow);
  const auto item = queue.take(kNow);
  EXPECT_TRUE(queue.defer(*item, kNow));
  EXPECT_EQ(queue.next_due(kNow), kNow);  // of slot 2
  EXPECT_EQ(queue.counts().deferred, 1U);
  const auto again = drain(queue, kNow + 100 * kMilli);
  EXPECT_EQ(again, (std::vector<int>{1, 2}));
}

TEST(OffloadQueue, APutMeanwhileWinsOverTheReturn) {
  OffloadQueue queue = make();
  queue.put(1, 7, 100, kNow);
  const auto item = queue.take(kNow);
  EXPECT_EQ(queue.put(1, 2, 30, kNow), Put::kQueued);  // another object in the slot
  EXPECT_FALSE(queue.retry(*item, kNow));
  EXPECT_FALSE(queue.defer(*item, kNow));
  EXPECT_EQ(queue.take(kNow)->version, 2U);
}

TEST(OffloadQueue, ADelayedItemIsReplacedAndRemoved) {
  OffloadQueue queue = make(OffloadOrder::kLargeFirst);
  queue.put(1, 1, 100, kNow);
  queue.put(2, 1, 50, kNow);
  EXPECT_TRUE(queue.retry(*queue.take(kNow), kNow));
  EXPECT_TRUE(queue.retry(*queue.take(kNow), kNow));
  EXPECT_EQ(queue.put(1, 2, 100, kNow), Put::kReplaced);
  EXPECT_EQ(queue.remove(2)->failures, 1U);
  EXPECT_EQ(queue.take(kNow)->version, 2U);  // without waiting
  EXPECT_EQ(queue.counts().size, 0U);
}

TEST(OffloadQueue, MemoryFollowsTheItems) {
  OffloadQueue queue = make(OffloadOrder::kSmallFirst);
  const std::uint64_t empty = queue.report_memory_bytes();
  for (std::uint32_t slot = 0; slot < 100000; ++slot) queue.put(slot, 1, slot, kNow);
  EXPECT_LE(queue.report_memory_bytes() - empty, 61U * 100000);
  drain(queue, kNow);
  for (std::uint32_t slot = 0; slot < 100000; ++slot) queue.put(slot, 1, slot, kNow);
  EXPECT_LE(queue.report_memory_bytes() - empty, 61U * 100000);
}

// ---- against a list that is searched from end to end ----

struct Modelled {
  OffloadItem item;
  std::optional<env::Nanos> due;
};

class Model {
 public:
  explicit Model(OffloadQueueOptions options) : options_(options) {}

  Put put(std::uint32_t slot, std::uint64_t version, std::uint64_t length, env::Nanos now) {
    const auto at = find(slot);
    if (at != items_.end() && at->item.version == version) return Put::kPresent;
    if (at != items_.end() && at->item.version > version) return Put::kStale;
    const bool replaces = at != items_.end();
    if (replaces) items_.erase(at);
    last_ = std::max(now, last_ + 1);
    if (items_.size() >= options_.items_max) return Put::kFull;
    items_.push_back({{slot, version, length, last_, 0}, {}});
    return replaces ? Put::kReplaced : Put::kQueued;
  }
  bool remove(std::uint32_t slot) {
    const auto at = find(slot);
    if (at == items_.end()) return false;
    items_.erase(at);
    return true;
  }
  bool put_back(OffloadItem item, env::Nanos due) {
    if (find(item.slot) != items_.end() || items_.size() >= options_.items_max) return false;
    items_.push_back({item, due});
    return true;
  }
  bool retry(OffloadItem item, env::Nanos now) {
    ++item.failures;
    env::Nanos pause = options_.retry_first;
    for (unsigned i = 1; i < item.failures; ++i) pause = std::min(pause * 2, options_.retry_max);
    return put_back(item, now + pause);
  }
  std::optional<OffloadItem> take(env::Nanos now) {
    for (unsigned i = 0; i < OffloadQueue::kDuePerTake; ++i) {
      Modelled* next = nullptr;
      for (Modelled& m : items_) {
        if (m.due && *m.due <= now && (next == nullptr || sooner(m, *next))) next = &m;
      }
      if (next == nullptr) break;
      next->due.reset();
    }
    auto best = items_.end();
    for (auto at = items_.begin(); at != items_.end(); ++at) {
      if (!at->due && (best == items_.end() || first(at->item, best->item, now))) best = at;
    }
    if (best == items_.end()) return std::nullopt;
    const OffloadItem item = best->item;
    items_.erase(best);
    return item;
  }
  std::optional<env::Nanos> next_due(env::Nanos now) const {
    std::optional<env::Nanos> due;
    for (const Modelled& m : items_) {
      const env::Nanos at = std::max(now, m.due.value_or(now));
      due = std::min(due.value_or(at), at);
    }
    return due;
  }
  std::size_t size() const { return items_.size(); }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const Modelled& m : items_) sum += m.item.length;
    return sum;
  }

 private:
  std::vector<Modelled>::iterator find(std::uint32_t slot) {
    return std::ranges::find_if(items_, [slot](const Modelled& m) { return m.item.slot == slot; });
  }
  static bool sooner(const Modelled& a, const Modelled& b) {
    return std::pair(*a.due, a.item.since) < std::pair(*b.due, b.item.since);
  }
  bool first(const OffloadItem& a, const OffloadItem& b, env::Nanos now) const {
    const bool aged = now - std::min(a.since, b.since) >= options_.age_limit;
    if (aged || options_.order == OffloadOrder::kFifo || a.length == b.length) {
      return a.since < b.since;
    }
    return options_.order == OffloadOrder::kSmallFirst ? a.length < b.length : a.length > b.length;
  }

  OffloadQueueOptions options_;
  std::vector<Modelled> items_;
  env::Nanos last_ = 0;
};

void compare(std::uint64_t seed, OffloadOrder order) {
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t end) { return random() % end; };
  OffloadQueueOptions options;
  options.order = order;
  options.items_max = static_cast<std::uint32_t>(20 + below(180));
  OffloadQueue queue = make(options);
  Model model(options);
  std::vector<OffloadItem> taken;
  env::Nanos now = kNow;
  for (int step = 0; step < 4000; ++step) {
    now += static_cast<env::Nanos>(below(3) == 0 ? below(300 * kMilli) : 0);
    const auto slot = static_cast<std::uint32_t>(below(300));
    const auto what = below(10);
    if (what < 4) {
      const auto version = 1 + below(5);
      const auto length = 1 + below(8);
      ASSERT_EQ(queue.put(slot, version, length, now), model.put(slot, version, length, now));
    } else if (what == 4) {
      ASSERT_EQ(queue.remove(slot).has_value(), model.remove(slot));
    } else if (what < 8 || taken.empty()) {
      const auto got = queue.take(now);
      const auto want = model.take(now);
      ASSERT_EQ(got.has_value(), want.has_value());
      if (!got) continue;
      ASSERT_EQ(std::tuple(got->slot, got->version, got->length, got->since, got->failures),
                std::tuple(want->slot, want->version, want->length, want->since, want->failures));
      taken.push_back(*got);
    } else {
      const auto at = taken.begin() + static_cast<std::ptrdiff_t>(below(taken.size()));
      const OffloadItem item = *at;
      taken.erase(at);
      if (what == 8) {
        ASSERT_EQ(queue.retry(item, now), model.retry(item, now));
      } else {
        ASSERT_EQ(queue.defer(item, now), model.put_back(item, now + options.refused_pause));
      }
    }
    ASSERT_EQ(queue.counts().size, model.size());
    ASSERT_EQ(queue.counts().bytes, model.bytes());
    ASSERT_EQ(queue.counts().ready + queue.counts().delayed, model.size());
    ASSERT_EQ(queue.next_due(now), model.next_due(now));
  }
}

TEST(OffloadQueue, AgreesWithAModel) {
  const auto seeds = env::test_seeds(12);
  for (std::uint64_t seed = seeds.first; seed != seeds.end(); ++seed) {
    SCOPED_TRACE(env::seed_trace(seed, "tier_cold_test", "OffloadQueue.AgreesWithAModel"));
    compare(seed, static_cast<OffloadOrder>(seed % 3));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace larder::tier
