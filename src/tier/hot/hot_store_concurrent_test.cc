// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/checksum.h"
#include "route/route_table.h"
#include "tier/hot/hot_store.h"

namespace larder::tier {
namespace {

constexpr std::uint64_t kKeys = 96;
constexpr int kSteps = 2'000;

std::uint64_t mixed(std::uint64_t seed, std::uint64_t i) {
  return (seed + i) * 0x9E3779B97F4A7C15ULL;
}

// Bytes that follow from the entry's checksum field, which holds a number unique to its put.
void fill(std::byte* to, std::uint64_t words, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < words; ++i) {
    const std::uint64_t word = mixed(seed, i);
    std::memcpy(to + i * 8, &word, 8);
  }
}
bool filled(const std::byte* from, std::uint64_t words, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + i * 8, 8);
    if (word != mixed(seed, i)) return false;
  }
  return true;
}

class HotStoreConcurrent : public testing::Test {
 protected:
  void SetUp() override {
    auto made =
        HotStore::create({.capacity = 1ULL << 20, .pages = PageMode::k4K, .objects_max = 80});
    ASSERT_TRUE(made) << made.error().to_string();
    store_ = std::move(*made);
    table_ = std::make_unique<route::RouteTable>(1);
    store_->set_authority(*table_);
  }

  void write(std::mt19937_64& random) {
    const std::string name = "key" + std::to_string(random() % kKeys);
    const route::KeyRef key{1, name, hash64(name)};
    const std::uint64_t words = random() % 3000 + 1;
    const std::uint64_t seed = puts_.fetch_add(1) * 0x10001;
    auto reservation = store_->reserve(words * 8);
    if (!reservation) return;  // back-pressure is fine while others hold references
    fill(reservation->data(), words / 2, seed);
    std::this_thread::yield();  // lets a reader look at space that is being written
    fill(reservation->data(), words, seed);
    if (random() % 16 == 0) return;  // never published
    const route::EntryRef present = table_->find(key);
    std::uint64_t version = 0;
    for (std::uint64_t expected = present ? present->version() : 0;;) {
      const auto result = store_->publish(key, expected, *reservation, seed, version);
      if (result.applied || random() % 4 == 0) return;
      expected = result.current ? result.current->version() : 0;
    }
  }

  void read_by_reference(std::mt19937_64& random) {
    const std::string name = "key" + std::to_string(random() % kKeys);
    const route::EntryRef entry = table_->find({1, name, hash64(name)});
    if (!entry) return;
    store_->touch(entry->hot().slot);
    for (int i = 0; i < 2; ++i) {
      if (!filled(store_->data(*entry), entry->length() / 8, entry->checksum())) ++wrong_;
    }
  }

  void remove_or_evict(std::mt19937_64& random) {
    const std::string name = "key" + std::to_string(random() % kKeys);
    if (random() % 32 == 0) (void)table_->remove({1, name, hash64(name)}, {});
    (void)store_->evict_tick();
  }

  template <class Step>
  void start(std::uint64_t seed, Step step) {
    ++running_;
    threads_.emplace_back([this, seed, step] {
      std::mt19937_64 random(seed);
      for (int i = 0; i < kSteps; ++i) step(random);
      --running_;
    });
  }
  // Goes on for as long as anything else does.
  template <class Step>
  void accompany(std::uint64_t seed, Step step) {
    threads_.emplace_back([this, seed, step] {
      std::mt19937_64 random(seed);
      while (running_.load() > 0) step(random);
    });
  }

  void finish() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    EXPECT_EQ(wrong_.load(), 0U);
    EXPECT_EQ(store_->used() + store_->free_bytes(), store_->capacity());
    EXPECT_EQ(store_->counters().reserved_bytes.load(), 0U);
    table_.reset();
    EXPECT_EQ(store_->used(), 0U);
    EXPECT_EQ(store_->largest_free(), store_->capacity());
    EXPECT_EQ(store_->counters().stored_bytes.load(), 0U);
  }

  std::unique_ptr<HotStore> store_;
  std::unique_ptr<route::RouteTable> table_;
  std::atomic<std::uint64_t> puts_{1};
  std::atomic<std::uint64_t> wrong_{0};
  std::atomic<int> running_{0};
  std::vector<std::thread> threads_;
};

TEST_F(HotStoreConcurrent, ReferencesKeepBytesInPlace) {
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %lu\n", static_cast<unsigned long>(seed));
  start(seed, [this](std::mt19937_64& random) { write(random); });
  start(seed + 1, [this](std::mt19937_64& random) { write(random); });
  accompany(seed + 2, [this](std::mt19937_64& random) { remove_or_evict(random); });
  accompany(seed + 3, [this](std::mt19937_64& random) { read_by_reference(random); });
  finish();
}

// What a client on the same host does: it knows a descriptor, holds no reference, and copies from
// its own read-only mapping between two looks at the version word.
class SharedReader {
 public:
  SharedReader(const HotStore& store)
      : bytes_(MappedSegment::map(store.segment().fd(), store.segment().bytes()).value()),
        words_(MappedSegment::map(store.slot_segment().fd(), store.slot_segment().bytes()).value()),
        copy_(24000) {}

  struct Known {
    std::uint64_t version = 0;
    std::uint64_t seed = 0;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint32_t slot = 0;
  };
  enum class Got { kStale, kRight, kWrong };

  Got read(const Known& known) {
    const auto& word =
        reinterpret_cast<const std::atomic<std::uint64_t>*>(words_.data())[known.slot];
    if (word.load(std::memory_order_acquire) != known.version) return Got::kStale;
    const auto* from =
        reinterpret_cast<const std::atomic<std::uint64_t>*>(bytes_.data() + known.offset);
    // Acquiring loads keep the second look behind the copy.
    for (std::uint64_t i = 0; i < known.length / 8; ++i) {
      copy_[i] = from[i].load(std::memory_order_acquire);
    }
    if (word.load(std::memory_order_acquire) != known.version) return Got::kStale;
    const auto* copied = reinterpret_cast<const std::byte*>(copy_.data());
    return filled(copied, known.length / 8, known.seed) ? Got::kRight : Got::kWrong;
  }

 private:
  MappedSegment bytes_;
  MappedSegment words_;
  std::vector<std::uint64_t> copy_;
};

TEST_F(HotStoreConcurrent, SharedMemoryReadersSeeRightBytesOrAreTurnedAway) {
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %lu\n", static_cast<unsigned long>(seed));
  std::atomic<std::uint64_t> right{0};
  std::atomic<std::uint64_t> stale{0};
  SharedReader reader(*store_);
  std::vector<SharedReader::Known> known(kKeys);
  start(seed, [this](std::mt19937_64& random) { write(random); });
  start(seed + 1, [this](std::mt19937_64& random) { write(random); });
  accompany(seed + 2, [this](std::mt19937_64& random) { remove_or_evict(random); });
  accompany(seed + 3, [&](std::mt19937_64& random) {
    SharedReader::Known& one = known[random() % 8];
    const auto got = one.version == 0 ? SharedReader::Got::kStale : reader.read(one);
    if (got == SharedReader::Got::kWrong) ++wrong_;
    if (got == SharedReader::Got::kRight) ++right;
    if (got != SharedReader::Got::kStale) return;
    ++stale;
    const std::string name = "key" + std::to_string(&one - known.data());
    if (const auto entry = table_->find({1, name, hash64(name)})) {
      one = {entry->version(), entry->checksum(), entry->hot().offset, entry->length(),
             entry->hot().slot};
      if (reader.read(one) == SharedReader::Got::kWrong) ++wrong_;
    }
  });
  finish();
  std::printf("%lu right, %lu turned away\n", static_cast<unsigned long>(right.load()),
              static_cast<unsigned long>(stale.load()));
}

}  // namespace
}  // namespace larder::tier
