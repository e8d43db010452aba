// SPDX-License-Identifier: Apache-2.0
#include "route/route_table.h"

#include <algorithm>
#include <mutex>

namespace larder::route {
namespace {

constexpr std::uint64_t kFirstBuckets = 64;
constexpr std::uint64_t kPointerMask = (1ULL << 48) - 1;
// Loads in flight: more than the processor keeps at once, and short enough that a change which
// waits for the group's end waits a microsecond.
constexpr std::size_t kGroup = 32;

std::uint64_t pack(const Entry* entry) noexcept {
  return (entry->hash() & ~kPointerMask) | (reinterpret_cast<std::uintptr_t>(entry) & kPointerMask);
}
Entry* unpack(std::uint64_t word) noexcept {
  return reinterpret_cast<Entry*>(static_cast<std::uintptr_t>(word & kPointerMask));
}
bool same_tag(std::uint64_t word, std::uint64_t hash) noexcept {
  return ((word ^ hash) & ~kPointerMask) == 0;
}

// The route of the same version with its record alone.
EntryRef without_hot(const Entry& entry) {
  EntryFields fields;
  fields.key = {entry.space(), entry.key(), entry.hash()};
  fields.version = entry.version();
  fields.length = entry.length();
  fields.checksum = entry.checksum();
  fields.hot.segment = kNoSegment;
  return fields.make();
}

}  // namespace

// Always taken in the same order, after a shard's lock.
class RouteTable::Change {
 public:
  explicit Change(RouteTable& table) noexcept : table_(table) {
    for (ReaderLock& reader : table_.reader_locks_) reader.lock.lock();
  }
  ~Change() {
    for (ReaderLock& reader : table_.reader_locks_) reader.lock.unlock();
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  RouteTable& table_;
};

RouteTable::RouteTable(std::uint64_t epoch) : version_(epoch << kVersionBits) {
  for (Shard& shard : shards_) grow(shard);
}

RouteTable::~RouteTable() {
  for (Shard& shard : shards_) {
    const std::uint64_t buckets = shard.mask.load(std::memory_order_relaxed) + 1;
    for (std::uint64_t i = 0; i < buckets; ++i) {
      if (entry_at(shard, i) != nullptr) {
        Entry* entry = entry_at(shard, i);
        entry->linked_.store(false, std::memory_order_release);
        if (entry->owner_ != nullptr) entry->owner_->on_unlink(*entry);
        EntryRef::adopt(entry);
      }
    }
  }
}

Entry* RouteTable::entry_at(const Shard& shard, std::uint64_t bucket) noexcept {
  return unpack(shard.memory[bucket].load(std::memory_order_relaxed));
}

std::uint64_t RouteTable::find_bucket(const Shard& shard, const KeyRef& key) noexcept {
  const std::uint64_t mask = shard.mask.load(std::memory_order_relaxed);
  for (std::uint64_t i = key.hash & mask;; i = (i + 1) & mask) {
    const std::uint64_t word = shard.memory[i].load(std::memory_order_relaxed);
    if (word == 0) return kNoBucket;
    if (same_tag(word, key.hash) && unpack(word)->matches(key)) return i;
  }
}

void RouteTable::prefetch(std::uint64_t hash) noexcept {
  Shard& shard = shard_of(hash);
  // No lock: the array may be gone by now, but a prefetch only names an address and never faults.
  const std::uint64_t mask = shard.mask.load(std::memory_order_acquire);
  const Bucket* buckets = shard.buckets.load(std::memory_order_acquire);
  __builtin_prefetch(&buckets[hash & mask]);
}

// Threads share a lock only when there are more of them than locks.
SpinLock& RouteTable::reader_lock() noexcept {
  static std::atomic<std::size_t> threads{0};
  static thread_local const std::size_t mine = threads.fetch_add(1, std::memory_order_relaxed);
  return reader_locks_[mine % kReaderLocks].lock;
}

void RouteTable::prefetch_entry(const KeyRef& key) noexcept {
  const Shard& shard = shard_of(key.hash);
  const std::uint64_t mask = shard.mask.load(std::memory_order_relaxed);
  for (std::uint64_t i = key.hash & mask;; i = (i + 1) & mask) {
    const std::uint64_t word = shard.memory[i].load(std::memory_order_relaxed);
    if (word == 0) return;
    if (!same_tag(word, key.hash)) continue;
    const Entry* entry = unpack(word);
    __builtin_prefetch(&entry->hash_);
    __builtin_prefetch(entry->key().data() + key.key.size() - 1);
    return;
  }
}

// Three passes over each group: every key's bucket, then its entry, then the comparison.
void RouteTable::look_up(std::span<const KeyRef> keys, std::span<RouteView> into) noexcept {
  for (std::size_t first = 0; first < keys.size(); first += kGroup) {
    const std::size_t end = std::min(keys.size(), first + kGroup);
    const std::lock_guard lock(reader_lock());
    for (std::size_t i = first; i < end; ++i) prefetch(keys[i].hash);
    for (std::size_t i = first; i < end; ++i) prefetch_entry(keys[i]);
    for (std::size_t i = first; i < end; ++i) into[i] = view(keys[i]);
  }
}

RouteView RouteTable::view(const KeyRef& key) noexcept {
  const Shard& shard = shard_of(key.hash);
  const std::uint64_t bucket = find_bucket(shard, key);
  if (bucket == kNoBucket) return {};
  const Entry& entry = *entry_at(shard, bucket);
  if (entry.state() != RouteState::kActive) return {};
  return {entry.version(), entry.length(), entry.hot(), entry.cold() != 0};
}

EntryRef RouteTable::find(const KeyRef& key) {
  Shard& shard = shard_of(key.hash);
  const std::lock_guard lock(shard.lock);
  const std::uint64_t bucket = find_bucket(shard, key);
  if (bucket == kNoBucket) return {};
  Entry* entry = entry_at(shard, bucket);
  if (entry->state() != RouteState::kActive) return {};
  entry->references_.fetch_add(1, std::memory_order_relaxed);
  return EntryRef::adopt(entry);
}

CasResult RouteTable::publish(std::uint64_t expected, EntryRef next) {
  const KeyRef key{next->space(), next->key(), next->hash()};
  Shard& shard = shard_of(key.hash);
  EntryRef replaced;  // released after the lock
  const std::lock_guard lock(shard.lock);
  const std::uint64_t bucket = find_bucket(shard, key);
  Entry* present = bucket == kNoBucket ? nullptr : entry_at(shard, bucket);
  const std::uint64_t version = present == nullptr ? 0 : present->version();
  if (version != expected || (present != nullptr && present->state() != RouteState::kActive)) {
    if (present != nullptr) present->references_.fetch_add(1, std::memory_order_relaxed);
    return {false, EntryRef::adopt(present), 0, 0};
  }
  const Change change(*this);
  CasResult result{true, {}, version, 0};
  if (present != nullptr) {
    replaced = unlink(shard, bucket, &result.forgotten);
  } else if ((shard.used + 1) * 4 > (shard.mask.load(std::memory_order_relaxed) + 1) * 3) {
    grow(shard);
  }
  next->linked_.store(true, std::memory_order_release);
  insert(shard, next.release());
  size_.fetch_add(1, std::memory_order_relaxed);
  return result;
}

EntryRef RouteTable::begin_remove(const KeyRef& key) {
  Shard& shard = shard_of(key.hash);
  const std::lock_guard lock(shard.lock);
  const std::uint64_t bucket = find_bucket(shard, key);
  if (bucket == kNoBucket) return {};
  Entry* present = entry_at(shard, bucket);
  const Change change(*this);
  present->state_.store(RouteState::kDeleting, std::memory_order_relaxed);
  if (present->owner_ != nullptr) present->owner_->on_unlink(*present);
  present->references_.fetch_add(1, std::memory_order_relaxed);
  return EntryRef::adopt(present);
}

void RouteTable::end_remove(const EntryRef& entry) {
  Shard& shard = shard_of(entry->hash());
  EntryRef removed;
  const std::lock_guard lock(shard.lock);
  const std::uint64_t bucket = find_bucket(shard, {entry->space(), entry->key(), entry->hash()});
  if (bucket == kNoBucket || entry_at(shard, bucket) != entry.get()) return;
  const Change change(*this);
  entry->cold_.store(0, std::memory_order_release);  // its record is gone already
  removed = unlink(shard, bucket);
}

std::uint64_t RouteTable::bucket_of(const Shard& shard, const Entry& entry) noexcept {
  const std::uint64_t bucket = find_bucket(shard, {entry.space(), entry.key(), entry.hash()});
  if (bucket == kNoBucket || entry_at(shard, bucket) != &entry) return kNoBucket;
  return entry.state() == RouteState::kActive ? bucket : kNoBucket;
}

EntryRef RouteTable::exchange(Shard& shard, std::uint64_t bucket, EntryRef next) noexcept {
  Entry* before = entry_at(shard, bucket);
  next->cold_.store(before->cold_.exchange(0, std::memory_order_acq_rel),
                    std::memory_order_release);
  before->linked_.store(false, std::memory_order_release);
  if (before->owner_ != nullptr) before->owner_->on_unlink(*before);
  next->linked_.store(true, std::memory_order_release);
  shard.memory[bucket].store(pack(next.release()), std::memory_order_relaxed);
  return EntryRef::adopt(before);
}

bool RouteTable::evict(const EntryRef& entry) {
  // Made before the lock. A record that comes after this look lets the next attempt do it.
  const std::uint64_t place = entry->cold();
  EntryRef demoted;
  if (place != 0) demoted = without_hot(*entry);
  Shard& shard = shard_of(entry->hash());
  EntryRef evicted;
  const std::lock_guard lock(shard.lock);
  const std::uint64_t bucket = bucket_of(shard, *entry);
  // find() counts under this lock: with two references, the table's and the caller's, nobody reads.
  if (bucket == kNoBucket || entry->references() != 2 || entry->cold() != place) return false;
  const Change change(*this);
  evicted = demoted ? exchange(shard, bucket, std::move(demoted)) : unlink(shard, bucket);
  return true;
}

bool RouteTable::add_record(const EntryRef& entry, std::uint64_t place) {
  Shard& shard = shard_of(entry->hash());
  const std::lock_guard lock(shard.lock);
  if (bucket_of(shard, *entry) == kNoBucket || entry->cold() != 0) return false;
  entry->cold_.store(place, std::memory_order_release);
  return true;
}

bool RouteTable::drop_record(const EntryRef& entry, std::uint64_t place) {
  Shard& shard = shard_of(entry->hash());
  EntryRef dropped;
  const std::lock_guard lock(shard.lock);
  const std::uint64_t bucket = bucket_of(shard, *entry);
  if (bucket == kNoBucket || place == 0 || entry->cold() != place) return false;
  if (entry->has_hot()) {
    entry->cold_.store(0, std::memory_order_release);
    if (record_owner_ != nullptr) record_owner_->on_forgotten(place);
    return true;
  }
  const Change change(*this);
  dropped = unlink(shard, bucket);
  return true;
}

bool RouteTable::move_record(const EntryRef& entry, std::uint64_t from, std::uint64_t to) {
  Shard& shard = shard_of(entry->hash());
  const std::lock_guard lock(shard.lock);
  const std::uint64_t bucket = bucket_of(shard, *entry);
  if (bucket == kNoBucket || from == 0 || entry->cold() != from) return false;
  entry->cold_.store(to, std::memory_order_release);
  if (record_owner_ != nullptr) record_owner_->on_forgotten(from);
  return true;
}

CasResult RouteTable::promote(const EntryRef& cold, EntryRef hot) {
  Shard& shard = shard_of(cold->hash());
  EntryRef replaced;
  const std::lock_guard lock(shard.lock);
  const std::uint64_t bucket = bucket_of(shard, *cold);
  if (bucket == kNoBucket || cold->cold() == 0) return {};
  const Change change(*this);
  replaced = exchange(shard, bucket, std::move(hot));
  return {true, {}, 0, 0};
}

EntryRef RouteTable::find_record(std::uint64_t hash, std::uint64_t place) {
  Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.lock);
  const std::uint64_t mask = shard.mask.load(std::memory_order_relaxed);
  for (std::uint64_t i = hash & mask;; i = (i + 1) & mask) {
    const std::uint64_t word = shard.memory[i].load(std::memory_order_relaxed);
    if (word == 0) return {};
    if (!same_tag(word, hash)) continue;
    Entry* entry = unpack(word);
    if (entry->cold() != place || entry->state() != RouteState::kActive) continue;
    entry->references_.fetch_add(1, std::memory_order_relaxed);
    return EntryRef::adopt(entry);
  }
}

std::uint64_t RouteTable::next_version() noexcept {
  return version_.fetch_add(1, std::memory_order_relaxed) + 1;
}

void RouteTable::see_version(std::uint64_t version) noexcept {
  std::uint64_t seen = version_.load(std::memory_order_relaxed);
  while (seen < version &&
         !version_.compare_exchange_weak(seen, version, std::memory_order_relaxed)) {
  }
}

EntryRef RouteTable::unlink(Shard& shard, std::uint64_t bucket, std::uint64_t* forgotten) noexcept {
  Entry* entry = entry_at(shard, bucket);
  entry->linked_.store(false, std::memory_order_release);
  if (entry->owner_ != nullptr) entry->owner_->on_unlink(*entry);
  const std::uint64_t place = entry->cold_.exchange(0, std::memory_order_acq_rel);
  if (place != 0 && record_owner_ != nullptr) record_owner_->on_forgotten(place);
  if (forgotten != nullptr) *forgotten = place;
  erase(shard, bucket);
  size_.fetch_sub(1, std::memory_order_relaxed);
  return EntryRef::adopt(entry);
}

void RouteTable::insert(Shard& shard, Entry* entry) noexcept {
  const std::uint64_t mask = shard.mask.load(std::memory_order_relaxed);
  std::uint64_t i = entry->hash() & mask;
  while (shard.memory[i].load(std::memory_order_relaxed) != 0) i = (i + 1) & mask;
  shard.memory[i].store(pack(entry), std::memory_order_relaxed);
  ++shard.used;
}

void RouteTable::grow(Shard& shard) noexcept {
  const std::uint64_t old = shard.memory ? shard.mask.load(std::memory_order_relaxed) + 1 : 0;
  const std::uint64_t buckets = old == 0 ? kFirstBuckets : old * 2;
  std::unique_ptr<Bucket[]> memory(new Bucket[buckets]());
  memory.swap(shard.memory);
  shard.buckets.store(shard.memory.get(), std::memory_order_release);
  shard.mask.store(buckets - 1, std::memory_order_release);
  shard.used = 0;
  for (std::uint64_t i = 0; i < old; ++i) {
    const std::uint64_t word = memory[i].load(std::memory_order_relaxed);
    if (word != 0) insert(shard, unpack(word));
  }
}

// Closes the gap by moving back what was pushed past it: no tombstones, so probes stay short.
void RouteTable::erase(Shard& shard, std::uint64_t gap) noexcept {
  const std::uint64_t mask = shard.mask.load(std::memory_order_relaxed);
  for (std::uint64_t i = (gap + 1) & mask;; i = (i + 1) & mask) {
    const std::uint64_t word = shard.memory[i].load(std::memory_order_relaxed);
    if (word == 0) break;
    const std::uint64_t home = unpack(word)->hash() & mask;
    if (((i - home) & mask) >= ((i - gap) & mask)) {
      shard.memory[gap].store(word, std::memory_order_relaxed);
      gap = i;
    }
  }
  shard.memory[gap].store(0, std::memory_order_relaxed);
  --shard.used;
}

std::uint64_t RouteTable::scan(std::uint64_t cursor,
                               const std::function<bool(const Entry&)>& visit) {
  // Cursor: shard in the upper half, bucket in the lower.
  std::uint64_t bucket = cursor & 0xffffffffU;
  for (std::uint64_t s = cursor >> 32; s < kShards; ++s, bucket = 0) {
    Shard& shard = shards_[s];
    const std::lock_guard lock(shard.lock);
    const std::uint64_t buckets = shard.mask.load(std::memory_order_relaxed) + 1;
    for (; bucket < buckets; ++bucket) {
      const Entry* entry = entry_at(shard, bucket);
      if (entry == nullptr || entry->state() != RouteState::kActive) continue;
      if (!visit(*entry)) return (s << 32) | bucket;
    }
  }
  return kEnd;
}

std::uint64_t RouteTable::memory_bytes() const noexcept {
  std::uint64_t total = sizeof(*this);
  for (const Shard& shard : shards_) {
    total += (shard.mask.load(std::memory_order_relaxed) + 1) * sizeof(Bucket);
  }
  return total;
}

}  // namespace larder::route
