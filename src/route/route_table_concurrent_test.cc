// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/checksum.h"
#include "route/route_table.h"

namespace larder::route {
namespace {

constexpr int kThreads = 4;
constexpr int kSteps = 100'000;
constexpr std::uint64_t kKeys = 200;
constexpr std::uint64_t kVersions = kThreads * kSteps + 1;

// One state per version: made -> unlinked -> released, each once, and no reader after that.
class CheckingOwner final : public ReplicaOwner {
 public:
  CheckingOwner() : states_(new std::atomic<int>[kVersions] {}) {}
  void on_unlink(const Entry& entry) noexcept override {
    // Twice when a remove marks it first; never after the release.
    if (entry.references() == 0 || at(entry).load() == kReleased) ++faults;
    at(entry).store(kUnlinked);
  }
  void on_release(const Entry& entry) noexcept override {
    const int before = at(entry).exchange(kReleased);
    // Never linked is fine: publication was refused.
    if (before == kReleased || (before == kMade && entry.linked())) ++faults;
    if (entry.references() != 0) ++faults;
    ++released;
  }
  // By someone who holds a reference.
  void check_alive(const Entry& entry) {
    if (at(entry).load() == kReleased || entry.references() == 0) ++faults;
  }
  std::atomic<std::uint64_t> released{0};
  std::atomic<std::uint64_t> faults{0};

 private:
  enum State : int { kMade = 0, kUnlinked = 1, kReleased = 2 };
  std::atomic<int>& at(const Entry& entry) { return states_[entry.checksum()]; }
  std::unique_ptr<std::atomic<int>[]> states_;
};

std::uint64_t length_of(std::uint64_t version) {
  return 1 + (version * 3 & 0xffffff);
}

class Worker {
 public:
  Worker(RouteTable& table, CheckingOwner& owner, std::atomic<std::uint64_t>& made,
         std::uint64_t seed)
      : table_(table), owner_(owner), made_(made), random_(seed) {}

  void run() {
    for (int step = 0; step < kSteps; ++step) {
      const std::string name = "key" + std::to_string(random_() % kKeys);
      const KeyRef key{1, name, hash64(name)};
      switch (random_() % 8) {
        case 0:
        case 1:
          publish(key);
          break;
        case 2:
          (void)table_.remove(key, {});
          break;
        case 3:
          fail_a_remove(key);
          break;
        case 4:
          evict(key);
          break;
        case 5:
          table_.scan(random_() % 64 << 32, [&](const Entry& entry) {
            owner_.check_alive(entry);
            return random_() % 8 != 0;
          });
          break;
        case 6:
          look_up();
          break;
        default:
          read(key);
      }
    }
  }

 private:
  void publish(const KeyRef& key) {
    const EntryRef present = table_.find(key);
    EntryFields fields{.key = key, .version = table_.next_version(), .owner = &owner_};
    fields.checksum = made_.fetch_add(1);  // the number by which the owner knows it
    fields.length = length_of(fields.version);
    const CasResult result = table_.publish(present ? present->version() : 0, fields.make());
    if (!result.applied && result.current) owner_.check_alive(*result.current);
  }
  void fail_a_remove(const KeyRef& key) {
    (void)table_.remove(key, [&](const Entry& entry) -> Result<void> {
      owner_.check_alive(entry);
      if (random_() % 2 == 0) return {};
      return fail(Code::kUnavailable, "not now");
    });
  }
  void evict(const KeyRef& key) {
    const EntryRef held = table_.find(key);
    if (held && table_.evict(held) && held->references() != 1) ++owner_.faults;
  }
  void read(const KeyRef& key) {
    table_.prefetch(key.hash);
    const EntryRef one = table_.find(key);
    if (!one) return;
    const EntryRef two = one;
    owner_.check_alive(*two);
    if (two->key() != key.key || two->length() != length_of(two->version())) ++owner_.faults;
  }

  // What a view says belongs together, whatever happens to its key meanwhile.
  void look_up() {
    std::array<std::string, 40> names;
    std::array<KeyRef, 40> keys;
    std::array<RouteView, 40> views;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      names[i] = "key" + std::to_string(random_() % kKeys);
      keys[i] = {1, names[i], hash64(names[i])};
    }
    table_.look_up(keys, views);
    for (const RouteView& view : views) {
      if (view.version != 0 && view.length != length_of(view.version)) ++owner_.faults;
    }
  }

  RouteTable& table_;
  CheckingOwner& owner_;
  std::atomic<std::uint64_t>& made_;
  std::mt19937_64 random_;
};

TEST(RouteTableConcurrent, ReleasesEachEntryOnceAndNeverUnderAReader) {
  CheckingOwner owner;
  std::atomic<std::uint64_t> made{0};
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %lu\n", static_cast<unsigned long>(seed));
  {
    RouteTable table(1);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] { Worker(table, owner, made, seed + t).run(); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(table.size(), kKeys);
    EXPECT_EQ(owner.released.load() + table.size(), made.load());
  }
  EXPECT_EQ(owner.released.load(), made.load());
  EXPECT_EQ(owner.faults.load(), 0U);
}

// Shards grow under look-ups and prefetches.
TEST(RouteTableConcurrent, GrowsUnderReaders) {
  RouteTable table(1);
  constexpr int kNames = 30'000;
  std::atomic<int> published{0};
  std::atomic<int> missing{0};
  std::thread reader([&] {
    std::mt19937_64 random(1);
    for (int have = 0; have < kNames; have = published.load(std::memory_order_acquire)) {
      if (have == 0) continue;
      const std::string name = std::to_string(random() % static_cast<std::uint64_t>(have));
      const KeyRef key{1, name, hash64(name)};
      table.prefetch(key.hash);
      RouteView view;
      table.look_up(std::span(&key, 1), std::span(&view, 1));
      if (!table.find(key) || view.version == 0) ++missing;
    }
  });
  for (int i = 0; i < kNames; ++i) {
    const std::string name = std::to_string(i);
    const EntryFields fields{.key = {1, name, hash64(name)}, .version = table.next_version()};
    EXPECT_TRUE(table.publish(0, fields.make()).applied);
    published.store(i + 1, std::memory_order_release);
  }
  reader.join();
  EXPECT_EQ(missing.load(), 0);
}

}  // namespace
}  // namespace larder::route
