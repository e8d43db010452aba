// SPDX-License-Identifier: Apache-2.0
// Routes in memory: the authority of the keys of one process. Open addressing in 64 shards, each
// with its own spin lock; a look-up is one hash, one bucket line and one entry line. Batches of
// look-ups read without the shards' locks: they hold one of a few reader locks, all of which a
// change takes for its few dozen instructions.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/spin_lock.h"
#include "route/authority.h"

namespace larder::route {

class RouteTable final : public RouteAuthority {
 public:
  // `epoch` makes versions grow across restarts: it is their upper 24 bits.
  explicit RouteTable(std::uint64_t epoch);
  ~RouteTable() override;

  EntryRef find(const KeyRef& key) override;
  void look_up(std::span<const KeyRef> keys, std::span<RouteView> into) noexcept override;
  void prefetch(std::uint64_t hash) noexcept override;
  CasResult publish(std::uint64_t expected, EntryRef next) override;
  EntryRef begin_remove(const KeyRef& key) override;
  void end_remove(const EntryRef& entry) override;
  bool evict(const EntryRef& entry) override;
  bool add_record(const EntryRef& entry, std::uint64_t place) override;
  bool drop_record(const EntryRef& entry, std::uint64_t place) override;
  bool move_record(const EntryRef& entry, std::uint64_t from, std::uint64_t to) override;
  CasResult promote(const EntryRef& cold, EntryRef hot) override;
  EntryRef find_record(std::uint64_t hash, std::uint64_t place) override;
  std::uint64_t next_version() noexcept override;
  void see_version(std::uint64_t version) noexcept override;

  // Before the first entry with a record; outlives the use of the table, not the table itself: its
  // destructor forgets entries, not records.
  void set_record_owner(RecordOwner* owner) noexcept { record_owner_ = owner; }

  std::uint64_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  // Visits Active entries of buckets from `cursor` on, until `visit` returns false; returns where
  // to go on (at the entry it said no to), or kEnd. An entry that stays is visited exactly once,
  // unless its shard changed between two calls: then it may be missed or come twice. `visit` runs
  // under a shard's lock: it must be short and must not call the table.
  std::uint64_t scan(std::uint64_t cursor, const std::function<bool(const Entry&)>& visit);
  static constexpr std::uint64_t kEnd = ~0ULL;
  std::uint64_t memory_bytes() const noexcept;

 private:
  // Upper 16 bits of the hash above a 48-bit pointer: most mismatches are seen without a load.
  using Bucket = std::atomic<std::uint64_t>;
  struct alignas(64) Shard {
    SpinLock lock;
    std::atomic<Bucket*> buckets{nullptr};  // of `memory`, for prefetch()
    std::atomic<std::uint64_t> mask{0};
    std::uint64_t used = 0;
    std::unique_ptr<Bucket[]> memory;
  };
  struct alignas(64) ReaderLock {
    SpinLock lock;
  };
  // Held for a change of buckets or of an entry's state, with the shard's lock.
  class Change;
  static constexpr std::size_t kShards = 64;
  static constexpr std::size_t kReaderLocks = 4;
  static constexpr std::uint64_t kNoBucket = ~0ULL;

  Shard& shard_of(std::uint64_t hash) noexcept { return shards_[(hash >> 42) % kShards]; }
  // Both under a reader lock.
  void prefetch_entry(const KeyRef& key) noexcept;
  RouteView view(const KeyRef& key) noexcept;
  static std::uint64_t find_bucket(const Shard& shard, const KeyRef& key) noexcept;
  static Entry* entry_at(const Shard& shard, std::uint64_t bucket) noexcept;
  static void insert(Shard& shard, Entry* entry) noexcept;
  // Out of memory ends the process here: a publish that is half done would be worse.
  static void grow(Shard& shard) noexcept;
  static void erase(Shard& shard, std::uint64_t bucket) noexcept;
  // The bucket of exactly this entry while it is Active, else kNoBucket.
  static std::uint64_t bucket_of(const Shard& shard, const Entry& entry) noexcept;
  // `next`, of the same key, takes the bucket; the record goes with it. The returned reference is
  // the table's to the one before. Under the shard's lock and a Change.
  static EntryRef exchange(Shard& shard, std::uint64_t bucket, EntryRef next) noexcept;
  // Takes the entry out; the returned reference is the table's. `forgotten` gets the place of its
  // record, if it is wanted. Under the shard's lock and a Change.
  EntryRef unlink(Shard& shard, std::uint64_t bucket, std::uint64_t* forgotten = nullptr) noexcept;

  SpinLock& reader_lock() noexcept;

  std::array<Shard, kShards> shards_;
  std::array<ReaderLock, kReaderLocks> reader_locks_;
  std::atomic<std::uint64_t> size_{0};
  std::atomic<std::uint64_t> version_;
  RecordOwner* record_owner_ = nullptr;
};

}  // namespace larder::route
