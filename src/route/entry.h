// SPDX-License-Identifier: Apache-2.0
// One version of one object: its key, its route, and the references that keep its bytes in place.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace larder::route {

// A key as the tables use it. `hash` is hash64(key, seed of its space).
struct KeyRef {
  std::uint32_t space = 0;
  std::string_view key;
  std::uint64_t hash = 0;
};

enum class RouteState : std::uint8_t { kActive = 0, kDeleting = 1 };

// HotReplica::segment of an object that has no copy in memory.
inline constexpr std::uint16_t kNoSegment = 0xffff;

// Where the hot copy lies. Node and tag are the allocator's, slot indexes the shared version table.
struct HotReplica {
  std::uint64_t offset = 0;
  std::uint32_t node = 0;
  std::uint32_t slot = 0;
  std::uint16_t tag = 0;
  std::uint16_t segment = 0;

  bool present() const noexcept { return segment != kNoSegment; }
};

class Entry;

// Gets an entry's bytes back. Outlives every entry it owns.
class ReplicaOwner {
 public:
  virtual ~ReplicaOwner() = default;
  // The entry is no longer what its key leads to. Under the table's lock, before anything that
  // follows it becomes visible: readers through shared memory are turned away here.
  virtual void on_unlink(const Entry& entry) noexcept = 0;
  // The last reference is gone: nobody reads the bytes any more.
  virtual void on_release(const Entry& entry) noexcept = 0;
};

// Keeps the records on devices that entries name by a place: a number of the tier's, never 0.
class RecordOwner {
 public:
  virtual ~RecordOwner() = default;
  // No route leads to the record any more. Under the table's lock: short, and without the table.
  virtual void on_forgotten(std::uint64_t place) noexcept = 0;
};

// Allocated together with its key by make_entry(). Immutable once published, but for the counters
// and the place of its record.
class Entry {
 public:
  std::uint64_t hash() const noexcept { return hash_; }
  std::uint32_t space() const noexcept { return space_; }
  std::string_view key() const noexcept {
    return {reinterpret_cast<const char*>(this + 1), key_bytes_};
  }
  std::uint64_t version() const noexcept { return version_; }
  std::uint64_t length() const noexcept { return std::uint64_t{last_byte_} + 1; }
  std::uint64_t checksum() const noexcept { return checksum_; }
  HotReplica hot() const noexcept { return {offset_, node_, slot_, tag_, segment_}; }
  bool has_hot() const noexcept { return segment_ != kNoSegment; }
  // Its record on a device; 0: none, or no longer this entry's. Changed by the table only.
  std::uint64_t cold() const noexcept { return cold_.load(std::memory_order_acquire); }
  bool matches(const KeyRef& key) const noexcept {
    return hash_ == key.hash && space_ == key.space && this->key() == key.key;
  }
  RouteState state() const noexcept { return state_.load(std::memory_order_relaxed); }
  // In the table, not replaced, removed or evicted.
  bool linked() const noexcept { return linked_.load(std::memory_order_acquire); }
  // All references: one is the table's while linked.
  std::uint32_t references() const noexcept { return references_.load(std::memory_order_acquire); }
  // References held by clients' pins, counted among references().
  std::atomic<std::uint32_t>& pins() const noexcept { return pins_; }
  // Before publication only, or when publication was refused.
  void set_owner(ReplicaOwner* owner) noexcept { owner_ = owner; }
  // What the entry itself costs in memory, bytes.
  static std::size_t footprint(std::size_t key_bytes) noexcept { return sizeof(Entry) + key_bytes; }

 private:
  friend class EntryRef;
  friend class RouteTable;
  friend struct EntryFields;
  Entry() = default;

  // 80 bytes, so that with a key of up to 40 an entry is a heap block of 128. What a look-up reads
  // comes last, next to the key.
  ReplicaOwner* owner_ = nullptr;  // of the hot copy
  std::atomic<std::uint64_t> cold_{0};
  std::uint64_t checksum_ = 0;
  std::uint64_t offset_ = 0;
  mutable std::atomic<std::uint32_t> pins_{0};
  std::uint32_t node_ = 0;
  std::uint16_t tag_ = 0;
  std::uint16_t segment_ = 0;
  std::uint32_t slot_ = 0;
  std::uint64_t version_ = 0;
  std::uint32_t last_byte_ = 0;  // the length less one: values have 1 byte to 4 GiB
  mutable std::atomic<std::uint32_t> references_{1};
  std::uint64_t hash_ = 0;
  std::uint32_t space_ = 0;
  std::uint16_t key_bytes_ = 0;
  std::atomic<RouteState> state_{RouteState::kActive};
  std::atomic<bool> linked_{false};
};

// A counted reference. Copy and destroy on any thread.
class EntryRef {
 public:
  EntryRef() = default;
  // Takes over one reference.
  static EntryRef adopt(Entry* entry) noexcept { return EntryRef(entry); }
  // Another reference to an entry that may be dying; empty when it is.
  static EntryRef try_share(Entry* entry) noexcept;
  EntryRef(const EntryRef& other) noexcept : entry_(other.entry_) {
    if (entry_ != nullptr) entry_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  EntryRef(EntryRef&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  EntryRef& operator=(EntryRef other) noexcept {
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~EntryRef() {
    if (entry_ != nullptr) drop(entry_);
  }
  explicit operator bool() const noexcept { return entry_ != nullptr; }
  Entry* get() const noexcept { return entry_; }
  Entry* operator->() const noexcept { return entry_; }
  Entry& operator*() const noexcept { return *entry_; }
  Entry* release() noexcept { return std::exchange(entry_, nullptr); }

 private:
  explicit EntryRef(Entry* entry) noexcept : entry_(entry) {}
  static void drop(Entry* entry) noexcept;
  Entry* entry_ = nullptr;
};

struct EntryFields {
  KeyRef key;
  std::uint64_t version = 0;
  std::uint64_t length = 1;  // 1 to 4 GiB
  std::uint64_t checksum = 0;
  HotReplica hot = {};
  std::uint64_t cold = 0;
  ReplicaOwner* owner = nullptr;
  // One allocation: the entry and its key. Not linked yet; the caller holds the only reference.
  EntryRef make() const;
};

}  // namespace larder::route
