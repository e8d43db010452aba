// SPDX-License-Identifier: Apache-2.0
// How the books come to be from what was found on a device.
#include <algorithm>

#include "extent/record_table.h"

namespace larder::extent {
namespace {

constexpr std::uint64_t kGenerationMask = 0xFFFFFF;

}  // namespace

void RecordTable::note_written(std::uint32_t end, std::uint64_t sequence) {
  map_.raise_end(end);
  next_sequence_ = std::max(next_sequence_, sequence + 1);
  if ((next_sequence_ & kGenerationMask) == 0) ++next_sequence_;
}

std::uint32_t RecordTable::adopt(const RecordHeader& header) {
  if (header.cell < slot_of_cell_.size() && slot_of_cell_[header.cell] != kNone) return kNone;
  const std::uint32_t number = take_slot();
  map_.mark_used(header.cell, header.cells);
  bind(number, header.cell, header.cells);
  Slot& slot = slots_[number];
  slot.state = kLive;
  slot.generation = header.id().generation;
  slot.payload_bytes = header.payload_bytes;
  const auto allocation = [this](const Extent& e) {
    return Allocation{e.offset - layout_.data_offset, e.bytes, kNone, 0};
  };
  slot.first = allocation(header.extents[0]);
  if (header.extents.size() > 1) {
    slot.more = take_more();
    More& more = more_[slot.more];
    more.count = static_cast<std::uint32_t>(header.extents.size() - 1);
    std::transform(header.extents.begin() + 1, header.extents.end(), more.rest.begin(), allocation);
    ++split_;
  }
  ++records_;
  payload_bytes_ += slot.payload_bytes;
  adopted_bytes_ += stored_bytes(number);
  note_written(header.cell + header.cells, header.sequence);
  return number;
}

void RecordTable::adopt_damaged(std::uint32_t cell) {
  if (cell < slot_of_cell_.size() && slot_of_cell_[cell] != kNone) return;
  ++damaged_;
  const std::uint32_t number = take_slot();
  map_.mark_used(cell, 1);
  bind(number, cell, 1);
  ++releases_;
  queue_release(number);
}

void RecordTable::adopt_unreadable(std::uint32_t cell, std::uint32_t count) {
  const std::uint32_t before = map_.used();
  map_.mark_used(cell, count);
  if (slot_of_cell_.size() < map_.end()) slot_of_cell_.resize(map_.end(), kNone);
  bad_cells_ += map_.used() - before;
}

std::vector<RecordTable::Range> RecordTable::ranges() const {
  std::vector<Range> out;
  out.reserve(slots_.size());
  for (std::uint32_t number = 0; number < slots_.size(); ++number) {
    const Slot& slot = slots_[number];
    if (slot.state == kSpare || slot.first.size == 0) continue;
    out.push_back({slot.first.offset, number, 0});
    if (slot.more == kNone) continue;
    for (std::uint32_t i = 0; i < more_[slot.more].count; ++i) {
      out.push_back({more_[slot.more].rest[i].offset, number, i + 1});
    }
  }
  return out;
}

std::uint64_t RecordTable::range_bytes(const Range& range) const noexcept {
  const Slot& slot = slots_[range.slot];
  return range.extent == 0 ? slot.first.size : more_[slot.more].rest[range.extent - 1].size;
}

void RecordTable::drop_space(std::uint32_t number) {
  Slot& slot = slots_[number];
  ++overlapping_;
  adopted_bytes_ -= stored_bytes(number);
  if (slot.state == kLive) release(number);
  releasing_bytes_ -= slot.state == kStuck ? 0 : stored_bytes(number);
  stuck_bytes_ -= slot.state == kStuck ? stored_bytes(number) : 0;
  free_space(slot);
  slot.payload_bytes = 0;  // pins have their own copy of where it was
}

Result<void> RecordTable::build(std::span<const Range> sorted) {
  for (const Range& range : sorted) {
    Allocation& mine = extent(slots_[range.slot], range.extent);
    const auto got = allocator_.allocate_at(mine.offset, mine.size);
    if (!got) return fail(Code::kInternal, "the extents of records overlap after all");
    mine = *got;
  }
  built_ = true;
  for (std::uint32_t number = 0; number < slots_.size(); ++number) {
    if (slots_[number].state == kGone) finish_release(number);
  }
  return {};
}

}  // namespace larder::extent
