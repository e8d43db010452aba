// SPDX-License-Identifier: Apache-2.0
#include "tier/hot/hot_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/checksum.h"
#include "route/route_table.h"

namespace larder::tier {
namespace {

constexpr std::uint64_t kMiB = 1UL << 20;

route::KeyRef key_of(std::string_view text) {
  return {1, text, hash64(text)};
}

class HotStoreTest : public testing::Test {
 protected:
  void open(HotOptions options) {
    options.pages = PageMode::k4K;
    options.populate = false;
    auto made = HotStore::create(options);
    ASSERT_TRUE(made) << made.error().to_string();
    table_.reset();
    store_ = std::move(*made);
    table_ = std::make_unique<route::RouteTable>(1);
    store_->set_authority(*table_);
  }
  void SetUp() override { open({.capacity = 4 * kMiB}); }
  void TearDown() override { check_sum(); }

  void check_sum() { EXPECT_EQ(store_->used() + store_->free_bytes(), store_->capacity()); }
  // Puts whatever is there; the version, or 0.
  std::uint64_t put(std::string_view name, std::uint64_t length, int fill = 'x') {
    auto reservation = store_->reserve(length);
    if (!reservation) return 0;
    std::memset(reservation->data(), fill, length);
    std::uint64_t version = 0;
    const route::EntryRef present = table_->find(key_of(name));
    const auto result =
        store_->publish(key_of(name), present ? present->version() : 0, *reservation, 1, version);
    return result.applied ? version : 0;
  }
  bool holds(std::string_view name) { return static_cast<bool>(table_->find(key_of(name))); }
  std::uint64_t word(std::uint32_t slot) {
    return reinterpret_cast<const std::atomic<std::uint64_t>*>(store_->slot_segment().data())[slot];
  }
  bool all_bytes(const route::Entry& entry, int fill) {
    for (std::uint64_t i = 0; i < entry.length(); ++i) {
      if (store_->data(entry)[i] != static_cast<std::byte>(fill)) return false;
    }
    return true;
  }

  std::unique_ptr<HotStore> store_;
  std::unique_ptr<route::RouteTable> table_;  // goes first
};

TEST_F(HotStoreTest, RefusesBadWatermarks) {
  EXPECT_FALSE(HotStore::create({.high_watermark = 1.1}));
  EXPECT_FALSE(HotStore::create({.high_watermark = 0.5, .low_watermark = 0.6}));
  EXPECT_FALSE(HotStore::create({.low_watermark = 0}));
  EXPECT_FALSE(HotStore::create({.low_watermark = std::nan("")}));
}

TEST_F(HotStoreTest, StoresAndGivesBack) {
  const std::uint64_t version = put("a", 1000, 'a');
  ASSERT_NE(version, 0U);
  EXPECT_EQ(store_->used(), 1024U);
  {
    const route::EntryRef entry = table_->find(key_of("a"));
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->length(), 1000U);
    EXPECT_EQ(entry->version(), version);
    EXPECT_TRUE(all_bytes(*entry, 'a'));
    EXPECT_EQ(word(entry->hot().slot), version);
  }
  EXPECT_EQ(store_->counters().stored_bytes.load(), 1000U);
  EXPECT_EQ(store_->counters().reserved_bytes.load(), 0U);
  ASSERT_TRUE(table_->remove(key_of("a"), {}));
  EXPECT_EQ(store_->used(), 0U);
  EXPECT_EQ(store_->counters().stored_bytes.load(), 0U);
}

TEST_F(HotStoreTest, UnpublishedReservationsGoBack) {
  {
    auto one = store_->reserve(5000);
    auto two = store_->reserve(64);
    ASSERT_TRUE(one && two);
    EXPECT_NE(one->data(), two->data());
    EXPECT_EQ(store_->used(), 5056U + 64);
    EXPECT_EQ(store_->counters().reserved_bytes.load(), 5064U);
    Reservation moved = std::move(*one);
    EXPECT_FALSE(*one);
    EXPECT_EQ(moved.length(), 5000U);
    *two = std::move(moved);  // gives its own back
    EXPECT_EQ(store_->used(), 5056U);
  }
  EXPECT_EQ(store_->used(), 0U);
  EXPECT_EQ(store_->counters().reserved_bytes.load(), 0U);
}

TEST_F(HotStoreTest, SaysWhatCanNeverFit) {
  EXPECT_EQ(store_->reserve(0).error().code(), Code::kInvalidArgument);
  ASSERT_NE(put("kept", 1000), 0U);
  for (const std::uint64_t length : {4 * kMiB + 1, ~0UL, ~0UL - 4094}) {
    const auto refused = store_->reserve(length);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kTooLarge);
    EXPECT_NE(refused.error().message().find(std::to_string(4 * kMiB)), std::string::npos);
  }
  EXPECT_TRUE(holds("kept"));              // nothing was evicted for it
  EXPECT_TRUE(store_->reserve(4 * kMiB));  // this fits, once all else is gone
  EXPECT_FALSE(holds("kept"));
}

// Spare space is what the next tick would not evict for: never beyond the high watermark.
TEST_F(HotStoreTest, SpareSpaceEndsAtTheHighWatermark) {
  EXPECT_FALSE(store_->reserve_spare(0));
  EXPECT_FALSE(store_->reserve_spare(4 * kMiB + 1));
  ASSERT_NE(put("a", 3 * kMiB), 0U);  // the watermark is at 3.6 MiB
  EXPECT_FALSE(store_->reserve_spare(kMiB));
  EXPECT_TRUE(holds("a"));
  {
    const auto spare = store_->reserve_spare(kMiB / 2);
    ASSERT_TRUE(spare);
    EXPECT_EQ(store_->used(), 3 * kMiB + kMiB / 2);
    EXPECT_FALSE(store_->reserve_spare(kMiB / 2));
  }
  EXPECT_TRUE(store_->reserve_spare(kMiB / 2));
  EXPECT_EQ(store_->evict_tick(), 0U);
  EXPECT_EQ(store_->counters().evict_stalls, 0U);
}

TEST_F(HotStoreTest, ReadersKeepTheirBytes) {
  put("a", 3000, '1');
  const route::EntryRef reader = table_->find(key_of("a"));
  const std::uint32_t slot = reader->hot().slot;
  put("a", 3000, '2');
  EXPECT_EQ(word(slot), 0U);  // shared-memory readers are turned away at once
  EXPECT_EQ(store_->used(), 2U * 3008);
  route::EntryRef second = table_->find(key_of("a"));
  ASSERT_TRUE(table_->remove(key_of("a"), {}));
  EXPECT_EQ(word(second->hot().slot), 0U);
  for (int i = 0; i < 200; ++i) ASSERT_NE(put("b" + std::to_string(i), 64 << 10, 'b'), 0U);
  EXPECT_TRUE(all_bytes(*reader, '1'));
  EXPECT_TRUE(all_bytes(*second, '2'));
  second = {};
  check_sum();
}

TEST_F(HotStoreTest, ARefusedPublishKeepsTheReservation) {
  const std::uint64_t first = put("a", 100, '1');
  auto reservation = store_->reserve(200);
  ASSERT_TRUE(reservation);
  std::memset(reservation->data(), '2', 200);
  std::uint64_t version = 0;
  for (int i = 0; i < 3; ++i) {
    const auto refused = store_->publish(key_of("a"), 0, *reservation, 1, version);
    EXPECT_FALSE(refused.applied);
    ASSERT_TRUE(refused.current);
    EXPECT_EQ(refused.current->version(), first);
  }
  EXPECT_EQ(version, 0U);
  EXPECT_TRUE(*reservation);
  EXPECT_EQ(store_->counters().reserved_bytes.load(), 200U);
  const auto taken = store_->publish(key_of("a"), first, *reservation, 1, version);
  EXPECT_TRUE(taken.applied);
  EXPECT_FALSE(*reservation);
  EXPECT_GT(version, first);
  const route::EntryRef entry = table_->find(key_of("a"));
  EXPECT_EQ(entry->version(), version);
  EXPECT_TRUE(all_bytes(*entry, '2'));
  EXPECT_EQ(word(entry->hot().slot), version);
  EXPECT_EQ(store_->used(), 256U);  // 100 bytes take 128, but they are gone
}

TEST_F(HotStoreTest, PushesBackWhenAllIsReferenced) {
  std::vector<route::EntryRef> readers;
  for (int i = 0; i < 64; ++i) {
    ASSERT_NE(put(std::to_string(i), 64 << 10), 0U);
    readers.push_back(table_->find(key_of(std::to_string(i))));
  }
  EXPECT_EQ(store_->free_bytes(), 0U);
  const auto refused = store_->reserve(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kBackpressure);
  EXPECT_EQ(store_->counters().backpressure.load(), 1U);
  EXPECT_EQ(table_->size(), 64U);
  readers.erase(readers.begin() + 7);
  EXPECT_NE(put("new", 64 << 10), 0U);
  EXPECT_FALSE(holds("7"));
  EXPECT_EQ(table_->size(), 64U);
}

TEST_F(HotStoreTest, TouchedOnesOutliveTheOthersWhateverTheirCredit) {
  for (int i = 0; i < 64; ++i) ASSERT_NE(put(std::to_string(i), 64 << 10), 0U);
  store_->touch(table_->find(key_of("0"))->hot().slot);
  for (int i = 0; i < 30; ++i) ASSERT_NE(put("n" + std::to_string(i), 64 << 10), 0U);
  EXPECT_TRUE(holds("0"));
  EXPECT_FALSE(holds("1"));
  // Credit alone never leads to back-pressure.
  table_->scan(0, [&](const route::Entry& entry) {
    store_->touch(entry.hot().slot);
    return true;
  });
  EXPECT_NE(put("one more", 64 << 10), 0U);
}

TEST_F(HotStoreTest, AKeyThatCameBackStaysLonger) {
  for (int i = 0; i < 65; ++i) ASSERT_NE(put(std::to_string(i), 64 << 10), 0U);
  EXPECT_FALSE(holds("0"));
  ASSERT_NE(put("0", 64 << 10), 0U);  // was evicted lately
  ASSERT_TRUE(table_->remove(key_of("20"), {}));
  ASSERT_NE(put("20", 64 << 10), 0U);  // was removed: that says nothing about its worth
  for (int i = 0; i < 70; ++i) ASSERT_NE(put("n" + std::to_string(i), 64 << 10), 0U);
  EXPECT_TRUE(holds("0"));
  EXPECT_FALSE(holds("20"));
}

TEST_F(HotStoreTest, TheTickEvictsBetweenTheWatermarks) {
  int i = 0;
  while (!store_->above_high_watermark()) ASSERT_NE(put(std::to_string(i++), 64 << 10), 0U);
  EXPECT_EQ(store_->counters().evicted_objects.load(), 0U);
  const std::uint64_t before = store_->used();
  const std::uint64_t evicted = store_->evict_tick();
  EXPECT_EQ(store_->used(), before - evicted);
  EXPECT_LE(store_->used(), store_->capacity() * 8 / 10);
  EXPECT_GT(store_->used(), store_->capacity() * 8 / 10 - (64 << 10));
  EXPECT_EQ(store_->counters().evicted_bytes.load(), evicted);
  EXPECT_EQ(store_->evict_tick(), 0U);
}

// A remove that cannot finish keeps its object; that must not hide what can be evicted.
TEST_F(HotStoreTest, DeletingObjectsDoNotStopTheHand) {
  const auto away = [](const route::Entry&) -> Result<void> {
    return fail(Code::kUnavailable, "the disk is away");
  };
  for (int i = 0; i < 64; ++i) ASSERT_NE(put(std::to_string(i), 64 << 10), 0U);
  for (int i = 0; i < 40; ++i) {
    const std::uint32_t slot = table_->find(key_of(std::to_string(i)))->hot().slot;
    EXPECT_FALSE(table_->remove(key_of(std::to_string(i)), away));
    EXPECT_EQ(word(slot), 0U);
  }
  for (int i = 0; i < 24; ++i) ASSERT_NE(put("n" + std::to_string(i), 64 << 10), 0U);
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(table_->remove(key_of(std::to_string(i)), {}));
  EXPECT_EQ(store_->used(), 24U * (64 << 10));
}

TEST_F(HotStoreTest, SlotsAreBoundedAndReused) {
  open({.capacity = 4 * kMiB, .objects_max = 4});
  EXPECT_EQ(store_->slots(), 4U);
  for (int i = 0; i < 100; ++i) ASSERT_NE(put(std::to_string(i), 100), 0U);
  EXPECT_EQ(table_->size(), 4U);
  std::vector<route::EntryRef> readers;
  table_->scan(0, [&](const route::Entry& entry) {
    readers.push_back(route::EntryRef::try_share(const_cast<route::Entry*>(&entry)));
    return true;
  });
  EXPECT_EQ(store_->reserve(1).error().code(), Code::kBackpressure);
  readers.pop_back();
  EXPECT_TRUE(store_->reserve(1));
}

// Any mix of steps against a map of what is held; the bytes of every reader are looked at.
TEST_F(HotStoreTest, StaysRightUnderRandomSteps) {
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %lu\n", static_cast<unsigned long>(seed));
  std::mt19937_64 random(seed);
  std::unordered_map<std::string, std::pair<route::EntryRef, int>> held;
  std::unordered_map<std::string, int> fills;
  for (int step = 0; step < 20000; ++step) {
    const std::string name = "k" + std::to_string(random() % 300);
    switch (random() % 6) {
      case 0:
      case 1: {
        const int fill = step % 251;
        if (put(name, random() % 40000 + 1, fill) != 0) fills[name] = fill;
        break;
      }
      case 2:
        (void)table_->remove(key_of(name), {});
        break;
      case 3:
        if (auto entry = table_->find(key_of(name)); entry && held.size() < 50) {
          held[name] = {entry, fills[name]};
        }
        break;
      case 4:
        if (const auto found = held.find(name); found != held.end()) {
          ASSERT_TRUE(all_bytes(*found->second.first, found->second.second)) << step;
          held.erase(found);
        }
        break;
      default:
        if (const auto entry = table_->find(key_of(name))) {
          ASSERT_TRUE(all_bytes(*entry, fills[name])) << step;
          ASSERT_EQ(word(entry->hot().slot), entry->version());
          store_->touch(entry->hot().slot);
        }
        (void)store_->evict_tick();
    }
    check_sum();
  }
  held.clear();
  table_.reset();
  EXPECT_EQ(store_->used(), 0U);
  EXPECT_EQ(store_->counters().stored_bytes.load(), 0U);
}

TEST_F(HotStoreTest, SpendsLittleMemoryOnAnObject) {
  constexpr std::uint64_t kObjects = 20'000;
  open({.capacity = kObjects * 4096});
  const auto spent = [&] {
    const std::uint64_t entries =
        table_->size() * (route::Entry::footprint(40) + 2 * sizeof(void*));  // malloc's own
    return static_cast<double>(store_->metadata_bytes() + table_->memory_bytes() + entries) /
           static_cast<double>(table_->size());
  };
  const auto publish = [&](std::uint64_t i) {
    char name[41];
    std::snprintf(name, sizeof(name), "%040llu", static_cast<unsigned long long>(i));
    auto reservation = store_->reserve(4096);
    ASSERT_TRUE(reservation);
    std::uint64_t version = 0;
    ASSERT_TRUE(store_->publish(key_of(name), 0, *reservation, 1, version).applied);
  };
  for (std::uint64_t i = 0; i < kObjects; ++i) publish(i);
  ASSERT_EQ(table_->size(), kObjects);
  std::printf("%.1f bytes an object\n", spent());
  EXPECT_LE(spent(), 256.0);
  for (std::uint64_t i = kObjects; i < 4 * kObjects; ++i) publish(i);  // now with ghosts
  EXPECT_GT(table_->size(), kObjects * 9 / 10);
  std::printf("%.1f bytes an object with ghosts\n", spent());
  EXPECT_LE(spent(), 256.0);
}

}  // namespace
}  // namespace larder::tier
