// SPDX-License-Identifier: Apache-2.0
// The DRAM tier: bytes in a sealed segment, version words beside them, CLOCK to make room.
//
// Life of a hot copy: reserve() -> bytes are written -> publish() -> read by reference or through
// shared memory -> evicted, replaced or removed (its version word is cleared at that moment) -> the
// last reference goes -> the bytes are free again. So nothing that anybody may still read is
// reused.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/offset_allocator.h"
#include "env/page_warmer.h"
#include "larder/status.h"
#include "route/authority.h"
#include "tier/hot/clock_policy.h"
#include "tier/hot/segment.h"

namespace larder::tier {

struct HotOptions {
  std::uint64_t capacity = 1ULL << 30;
  PageMode pages = PageMode::kAuto;
  bool populate = true;
  double high_watermark = 0.90;   // eviction starts above
  double low_watermark = 0.80;    // and stops here
  std::uint32_t objects_max = 0;  // 0: one per 4 KiB of capacity, at least 65,536
};

struct HotCounters {
  std::atomic<std::uint64_t> evicted_objects{0};
  std::atomic<std::uint64_t> evicted_bytes{0};
  std::atomic<std::uint64_t> evict_stalls{0};  // reservations that had to evict first
  std::atomic<std::uint64_t> backpressure{0};
  std::atomic<std::uint64_t> reserved_bytes{0};
  std::atomic<std::uint64_t> stored_bytes{0};  // lengths of published copies not yet released
};

// A tier below this one, which takes copies of what is stored here.
class LowerTier {
 public:
  virtual ~LowerTier() = default;
  // A value is about to be published, or to get a hot copy again (`fresh` false). Its bytes are in
  // place; from here on may_evict() is asked about it. Any thread.
  virtual void on_install(const route::Entry& entry, bool fresh) noexcept = 0;
  // It was published. Any thread.
  virtual void on_publish(const route::Entry& entry) noexcept = 0;
  // Its place in memory is about to be free, or it was not published after all. Any thread.
  virtual void on_release(const route::Entry& entry) noexcept = 0;
  // False: the bytes are nowhere else yet, and shall be; the copy stays. Under the store's lock: a
  // few instructions, and none of the store's methods.
  virtual bool may_evict(const route::Entry& entry) noexcept = 0;
};

class HotStore;

// Space for one value, given back when destroyed unpublished.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();
  explicit operator bool() const noexcept { return store_ != nullptr; }
  std::byte* data() const noexcept;
  std::uint64_t length() const noexcept { return length_; }

 private:
  friend class HotStore;
  HotStore* store_ = nullptr;
  Allocation allocation_;
  std::uint32_t slot_ = 0;
  std::uint64_t length_ = 0;
};

// Any thread.
class HotStore final : public route::ReplicaOwner {
 public:
  // `authority` must outlive the store's entries and be set before use.
  static Result<std::unique_ptr<HotStore>> create(const HotOptions& options);
  ~HotStore() override;
  void set_authority(route::RouteAuthority& authority) { authority_ = &authority; }
  // Before use, or never: then everything may go. Outlives the use of the store.
  void set_lower(LowerTier& lower) { lower_ = &lower; }

  // kInvalidArgument (0 bytes), kTooLarge (never fits; says the limit) or kBackpressure (full of
  // what cannot go now).
  Result<Reservation> reserve(std::uint64_t length);
  // The same from space that is free below the high watermark: evicts nothing, now or by a tick.
  std::optional<Reservation> reserve_spare(std::uint64_t length);
  // Publishes the value written into the reservation if the key's version is `expected`. The
  // reservation is used up only when applied. Gives the new version.
  route::CasResult publish(const route::KeyRef& key, std::uint64_t expected,
                           Reservation& reservation, std::uint64_t checksum,
                           std::uint64_t& version);
  // Makes the bytes in the reservation, which are those of `cold`, its hot copy; the route gets a
  // new version. Empty: `cold` is the route no longer; the reservation is used up only otherwise.
  route::EntryRef promote(const route::EntryRef& cold, Reservation& reservation);
  // What the slot holds, if that is of this version and still stored.
  route::EntryRef find(std::uint32_t slot, std::uint64_t version) const;
  const std::byte* data(const route::Entry& entry) const noexcept {
    return segment_->data() + entry.hot().offset;
  }
  void touch(std::uint32_t slot) noexcept { clock_->touch(slot); }
  // It was read since the hand last came by.
  bool is_wanted(std::uint32_t slot) const noexcept { return clock_->credit(slot) > 0; }
  // Evicts down to the low watermark when above the high one. Returns bytes evicted.
  std::uint64_t evict_tick();
  bool above_high_watermark() const;

  std::uint64_t capacity() const noexcept { return options_.capacity; }
  std::uint64_t used() const;  // bytes taken in the segment, reservations and pinned included
  std::uint64_t free_bytes() const;
  std::uint64_t largest_free() const;
  // Bytes whose pages the background pass has touched; the capacity when there is none.
  std::uint64_t warmed() const noexcept { return warmer_ ? warmer_->warmed() : capacity(); }
  std::uint32_t slots() const noexcept { return slots_max_; }
  const HotCounters& counters() const noexcept { return counters_; }
  const Segment& segment() const noexcept { return *segment_; }
  const Segment& slot_segment() const noexcept { return *slot_segment_; }
  // What the store spends besides values: allocator nodes, CLOCK, slots in use, ghosts.
  std::uint64_t metadata_bytes() const;

  void on_unlink(const route::Entry& entry) noexcept override;
  void on_release(const route::Entry& entry) noexcept override;

 private:
  friend class Reservation;
  HotStore() = default;
  bool ensure_slot();
  std::optional<Reservation> try_reserve(std::uint64_t length);
  std::optional<Reservation> reserve_locked(std::uint64_t length);
  void cancel(Reservation& reservation) noexcept;
  route::EntryRef install(const route::EntryFields& fields, bool fresh);
  void uninstall(route::Entry& entry) noexcept;
  void use_up(Reservation& reservation) noexcept;
  std::uint64_t evict(std::uint64_t bytes_wanted);
  bool above_high(std::uint64_t used_bytes) const noexcept;
  route::EntryRef next_victim();
  std::atomic<std::uint64_t>& slot_word(std::uint32_t slot) const noexcept;

  HotOptions options_;
  route::RouteAuthority* authority_ = nullptr;
  LowerTier* lower_ = nullptr;
  std::unique_ptr<Segment> segment_;
  std::unique_ptr<env::PageWarmer> warmer_;  // after the segment, which it reads
  std::unique_ptr<Segment> slot_segment_;
  std::uint32_t slots_max_ = 0;
  HotCounters counters_;
  mutable std::mutex mutex_;
  std::unique_ptr<OffsetAllocator> allocator_;  // from here on under the lock
  std::unique_ptr<ClockPolicy> clock_;          // but for touch()
  std::vector<route::Entry*> entries_;          // by slot; null: free
  std::vector<std::uint32_t> free_slots_;
  std::uint32_t slots_used_ = 0;  // slots below this were used at some time
};

}  // namespace larder::tier
