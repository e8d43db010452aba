// SPDX-License-Identifier: Apache-2.0
// The books of a store: which record has which cells and which space. Internal to extent.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/offset_allocator.h"
#include "extent/cell_map.h"
#include "extent/layout.h"
#include "extent/record_header.h"
#include "extent/record_id.h"
#include "extent/record_store.h"
#include "larder/status.h"

namespace larder::extent {

// Not thread safe: the store's lock. A slot is one record, or what is on its way to be one or away
// from it. Never more than 56 bytes a record, beside the allocator's nodes.
class RecordTable {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;

  // kExhausted: no memory.
  static Result<std::unique_ptr<RecordTable>> create(const Layout& layout,
                                                     std::uint64_t sequence_base);

  // --- in
  Result<std::uint32_t> reserve(std::uint64_t payload_bytes);  // errors as of the store
  void give_back(std::uint32_t slot) noexcept;                 // no header of it was ever written
  // Cells and a sequence for the header of a reservation. False: there are no cells.
  bool name(std::uint32_t slot, std::uint32_t cells, std::uint64_t& sequence);
  void commit(std::uint32_t slot);  // its header is durable
  // Its header may or may not be on the device: gives it up like a record, by a tombstone.
  void give_up(std::uint32_t slot);
  // Its cells could not be written or read, and no header of it is there: they are not used again.
  void give_back_but_cells(std::uint32_t slot);

  // --- use
  std::uint32_t find(RecordId id) const noexcept;  // kNone: no record that can be pinned
  std::uint32_t next_from(std::uint32_t cell) const noexcept;
  void pin(std::uint32_t slot) noexcept;
  void unpin(std::uint32_t slot);
  std::uint64_t payload_bytes(std::uint32_t slot) const noexcept;
  std::uint64_t stored_bytes(std::uint32_t slot) const noexcept;
  RecordId id(std::uint32_t slot) const noexcept;
  std::uint32_t cell_count(std::uint32_t slot) const noexcept { return slots_[slot].cells; }
  // Bytes from the start of the device. How many.
  std::uint32_t extents(std::uint32_t slot, std::array<Extent, kExtentsMax>& out) const noexcept;

  // --- out
  void release(std::uint32_t slot);  // of a record
  // Released, not pinned any more: wants a tombstone. Of the oldest; there is one.
  std::uint32_t peek_release() const noexcept { return to_release_.front(); }
  void pop_release() noexcept { to_release_.pop_front(); }
  bool has_releases() const noexcept { return !to_release_.empty(); }
  // Its tombstone is durable: cells and space are free.
  void finish_release(std::uint32_t slot);
  void stick(std::uint32_t slot);    // its tombstone could not be written
  void requeue(std::uint32_t slot);  // its tombstone may not be written: once more
  std::uint64_t unfinished_releases() const noexcept { return releases_; }

  // --- recovery
  // A header that was found. kNone: its cells are known already (of an earlier, stopped run).
  std::uint32_t adopt(const RecordHeader& header);
  void adopt_damaged(std::uint32_t cell);  // gets a tombstone before it is used again
  void note_damaged() noexcept { ++damaged_; }
  void adopt_unreadable(std::uint32_t cell, std::uint32_t count);
  void note_written(std::uint32_t end, std::uint64_t sequence);
  struct Range {
    std::uint64_t offset = 0;  // within the data
    std::uint32_t slot = 0;
    std::uint32_t extent = 0;  // number of it
  };
  std::vector<Range> ranges() const;  // of all slots, in no order
  std::uint64_t range_bytes(const Range& range) const noexcept;
  // `sorted`: no two overlap. kInternal: they do.
  Result<void> build(std::span<const Range> sorted);
  void drop_space(std::uint32_t slot);  // before build(): it has none of its own
  bool built() const noexcept { return built_; }

  std::uint64_t last_sequence() const noexcept { return next_sequence_ - 1; }
  std::uint32_t cells_end() const noexcept { return map_.end(); }
  bool has_reservations() const noexcept { return reserved_slots_ > 0; }
  void fill(StoreStats& stats) const;
  std::string check() const;  // empty: the books are right; for tests

 private:
  enum State : std::uint8_t {
    kSpare = 0,
    kReserved = 1,
    kNamed = 2,  // reserved, with cells
    kLive = 3,
    kReleasing = 4,  // still pinned
    kQueued = 5,     // in to_release_, or with the writer
    kGone = 6,       // released during recovery; freed at its end
    kStuck = 7,
  };
  struct Slot {
    std::uint32_t cell = kNone;  // of a spare: the next spare
    std::uint32_t generation : 24;
    std::uint32_t state : 4;
    std::uint32_t cells : 4;
    std::uint32_t pins = 0;
    std::uint32_t more = kNone;  // further extents: index into more_
    std::uint64_t payload_bytes = 0;
    Allocation first;  // within the data; no size: no space
  };
  static_assert(sizeof(Slot) == 48);
  struct More {
    std::uint32_t count = 0;
    std::array<Allocation, kExtentsMax - 1> rest;
  };

  RecordTable(const Layout& layout, OffsetAllocator allocator, std::uint64_t sequence_base)
      : layout_(layout),
        allocator_(std::move(allocator)),
        map_(layout.cells),
        next_sequence_(sequence_base) {}
  std::uint32_t take_slot();
  void give_slot(std::uint32_t slot);
  std::uint32_t take_more();
  bool take_space(Slot& slot, std::uint64_t bytes);
  bool take_split_space(Slot& slot, std::uint64_t bytes);
  void free_space(Slot& slot);
  void free_cells(Slot& slot);
  void bind(std::uint32_t slot, std::uint32_t cell, std::uint32_t cells);
  void queue_release(std::uint32_t slot);
  Allocation& extent(Slot& slot, std::uint32_t index) noexcept;
  tl::unexpected<Error> no_space(std::uint64_t payload_bytes) const;

  const Layout layout_;
  OffsetAllocator allocator_;
  CellMap map_;
  std::deque<Slot> slots_;
  std::deque<std::uint32_t> slot_of_cell_;  // of first cells; kNone
  std::deque<More> more_;
  std::vector<std::uint32_t> spare_more_;
  std::deque<std::uint32_t> to_release_;
  std::uint32_t spare_ = kNone;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t adopted_bytes_ = 0;  // before build(): of space
  std::uint64_t reserved_slots_ = 0;
  std::uint64_t unnamed_ = 0;  // of those: without cells
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t releasing_bytes_ = 0;
  std::uint64_t stuck_bytes_ = 0;
  std::uint64_t releases_ = 0;  // kReleasing, kQueued and kGone
  std::uint64_t records_ = 0;
  std::uint64_t payload_bytes_ = 0;
  std::uint64_t pins_ = 0;
  std::uint64_t split_ = 0;
  std::uint64_t damaged_ = 0;
  std::uint64_t overlapping_ = 0;
  std::uint64_t bad_cells_ = 0;
  bool built_ = false;
};

}  // namespace larder::extent
