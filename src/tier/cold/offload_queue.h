// SPDX-License-Identifier: Apache-2.0
// Which objects of the hot tier are to be written to a disk, and in which order.
//
// Ready items are in a heap by age and, unless the order is FIFO, in a second one by length; those
// that failed wait in a heap by the time they are due. An item is in the queue or taken, never
// both: what the taker does not give back by retry() or defer() is done with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "env/clock.h"
#include "larder/status.h"

namespace larder::tier {

// When an object is written to disk: as soon as it is published, or when DRAM is to drop it (then
// nothing is queued but what was refused).
enum class OffloadMode : std::uint8_t { kPassthrough, kEvictTriggered };
enum class OffloadOrder : std::uint8_t { kFifo, kSmallFirst, kLargeFirst };

// "passthrough", "evict"; "fifo", "small_first", "large_first". Empty: no such name.
std::string_view offload_mode_name(OffloadMode mode) noexcept;
std::optional<OffloadMode> parse_offload_mode(std::string_view name) noexcept;
std::string_view offload_order_name(OffloadOrder order) noexcept;
std::optional<OffloadOrder> parse_offload_order(std::string_view name) noexcept;

struct OffloadQueueOptions {
  OffloadOrder order = OffloadOrder::kFifo;
  std::uint32_t items_max = 1U << 20;            // at most 2^30
  std::uint32_t slots_max = 1U << 24;            // slots are 0 .. slots_max - 1; at most 2^31
  env::Nanos age_limit = 30 * env::kSecond;      // whoever waited longer goes first
  env::Nanos retry_first = 100 * env::kMilli;    // after the first failure; then it doubles
  env::Nanos retry_max = 5 * env::kSecond;       // up to this
  env::Nanos refused_pause = 100 * env::kMilli;  // of defer()
};

struct OffloadItem {
  std::uint32_t slot = 0;      // of the hot tier
  std::uint64_t version = 0;   // of the object in it
  std::uint64_t length = 0;    // bytes
  env::Nanos since = 0;        // put at; made unique by some nanoseconds
  std::uint32_t failures = 0;  // how often retry() was called
};

struct OffloadCounts {
  std::uint64_t size = 0;   // ready and delayed
  std::uint64_t ready = 0;  // as of the last take()
  std::uint64_t delayed = 0;
  std::uint64_t bytes = 0;     // of all in the queue
  std::uint64_t attempts = 0;  // items that take() gave, ever; the rest likewise
  std::uint64_t retries = 0;
  std::uint64_t deferred = 0;
  std::uint64_t replaced = 0;  // by a newer version
  std::uint64_t refused = 0;   // put() or a return found it full, or lacked memory
};

// Not thread safe: under the caller's lock. All O(log size). Memory: 48 bytes for each of the most
// items there ever were, 4 or 8 of heaps, and 4 bytes a slot in chunks of 4096 slots.
class OffloadQueue {
 public:
  enum class Put : std::uint8_t {
    kQueued,
    kReplaced,  // an older version of the slot was in; the item is a new one, with its own age
    kPresent,   // this version is in, and stays as it is
    kStale,     // a newer version is in
    kFull,      // items_max, or no memory: the object stays in DRAM; whoever scans finds it again
    kBadSlot,
  };

  // Errors: kInvalidArgument (options), kExhausted (memory).
  static Result<OffloadQueue> create(const OffloadQueueOptions& options = {});

  // A slot that gets another object has to be remove()d first: versions of different keys do not
  // compare.
  Put put(std::uint32_t slot, std::uint64_t version, std::uint64_t length, env::Nanos now) noexcept;
  // The object is gone, or is written by other means; empty when it is not in.
  std::optional<OffloadItem> remove(std::uint32_t slot) noexcept;
  // The ready item that is next: the oldest if it has reached the age limit, else by the order,
  // equals by age. At most kDuePerTake delayed items become ready in one call.
  std::optional<OffloadItem> take(env::Nanos now) noexcept;
  // Gives a taken item back, with its age: after a failure, to wait for its back-off; or, when
  // nothing was tried since the disk had no room for it now, for the pause of refusals. False: the
  // slot has an item that was put meanwhile, or there is no place; the item is dropped.
  bool retry(const OffloadItem& item, env::Nanos now) noexcept;
  bool defer(const OffloadItem& item, env::Nanos now) noexcept;
  // When take() has something: `now`, or later; empty when there is nothing.
  std::optional<env::Nanos> next_due(env::Nanos now) const noexcept;
  bool contains(std::uint32_t slot) const noexcept { return find(slot) != kNone; }

  OffloadCounts counts() const noexcept;
  std::uint64_t report_memory_bytes() const noexcept;

  static constexpr unsigned kDuePerTake = 64;

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;
  static constexpr std::uint32_t kChunk = 4096;

  struct Entry {
    std::uint64_t version = 0;
    std::uint64_t length = 0;
    env::Nanos since = 0;
    env::Nanos due = 0;
    std::uint32_t slot = 0;
    std::uint32_t failures = 0;
    std::uint32_t age_at = kNone;    // place in by_age_; kNone: it is delayed
    std::uint32_t other_at = kNone;  // place in by_order_, or in by_due_ while it is delayed
  };
  static_assert(sizeof(Entry) == 48);

  // A binary heap of entries that know their place.
  struct Heap {
    bool (OffloadQueue::*before)(const Entry&, const Entry&) const noexcept;
    std::uint32_t Entry::*place;
    std::vector<std::uint32_t> cells;
  };

  explicit OffloadQueue(const OffloadQueueOptions& options) noexcept;
  std::uint32_t find(std::uint32_t slot) const noexcept;
  bool ensure_chunk(std::uint32_t slot) noexcept;
  std::uint32_t& index_of(std::uint32_t slot) noexcept {
    return chunks_[slot / kChunk][slot % kChunk];
  }
  bool insert(const OffloadItem& item, std::optional<env::Nanos> due) noexcept;
  bool put_back(OffloadItem item, env::Nanos due) noexcept;
  OffloadItem extract(std::uint32_t index) noexcept;
  void make_ready(std::uint32_t index) noexcept;
  env::Nanos stamp(env::Nanos now) noexcept;
  env::Nanos back_off(std::uint32_t failures) const noexcept;

  bool older(const Entry& a, const Entry& b) const noexcept;
  bool sooner(const Entry& a, const Entry& b) const noexcept;
  bool preferred(const Entry& a, const Entry& b) const noexcept;
  void push(Heap& heap, std::uint32_t index) noexcept;
  void pull(Heap& heap, std::uint32_t index) noexcept;
  void rise(Heap& heap, std::uint32_t cell) noexcept;
  void sink(Heap& heap, std::uint32_t cell) noexcept;
  void place(Heap& heap, std::uint32_t cell, std::uint32_t index) noexcept;

  OffloadQueueOptions options_;
  std::vector<std::unique_ptr<std::uint32_t[]>> chunks_;  // slot -> entry
  std::vector<Entry> entries_;  // reserved at once, so that growing never copies; so the heaps
  std::uint32_t free_ = kNone;  // entries that are free are linked by age_at
  Heap by_age_;
  Heap by_order_;  // empty in FIFO order
  Heap by_due_;
  env::Nanos last_stamp_;
  OffloadCounts counts_;
};

}  // namespace larder::tier
