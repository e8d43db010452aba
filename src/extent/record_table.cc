// SPDX-License-Identifier: Apache-2.0
#include "extent/record_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder::extent {
namespace {

constexpr std::uint64_t kGenerationMask = 0xFFFFFF;

}  // namespace

Result<std::unique_ptr<RecordTable>> RecordTable::create(const Layout& layout,
                                                         std::uint64_t sequence_base) {
  LARDER_ASSIGN(auto allocator, OffsetAllocator::create(layout.data_bytes));
  return std::unique_ptr<RecordTable>(new RecordTable(layout, std::move(allocator), sequence_base));
}

std::uint32_t RecordTable::take_slot() {
  if (spare_ == kNone) {
    slots_.emplace_back();
    spare_ = static_cast<std::uint32_t>(slots_.size() - 1);
    slots_.back().cell = kNone;
  }
  const std::uint32_t number = spare_;
  spare_ = slots_[number].cell;
  slots_[number] = Slot{};
  slots_[number].generation = 0;
  slots_[number].state = kSpare;
  slots_[number].cells = 0;
  return number;
}

void RecordTable::give_slot(std::uint32_t number) {
  Slot& slot = slots_[number];
  slot.state = kSpare;
  slot.cell = spare_;
  spare_ = number;
}

std::uint32_t RecordTable::take_more() {
  if (spare_more_.empty()) {
    more_.emplace_back();
    return static_cast<std::uint32_t>(more_.size() - 1);
  }
  const std::uint32_t index = spare_more_.back();
  spare_more_.pop_back();
  more_[index] = More{};
  return index;
}

Allocation& RecordTable::extent(Slot& slot, std::uint32_t index) noexcept {
  return index == 0 ? slot.first : more_[slot.more].rest[index - 1];
}

// In one piece if there is one; else in the longest there are.
bool RecordTable::take_space(Slot& slot, std::uint64_t bytes) {
  if (bytes > allocator_.free_bytes()) return false;
  if (const auto whole = allocator_.allocate(bytes)) {
    slot.first = *whole;
    return true;
  }
  return take_split_space(slot, bytes);
}

bool RecordTable::take_split_space(Slot& slot, std::uint64_t bytes) {
  std::array<Allocation, kExtentsMax> parts;
  std::uint32_t count = 0;
  std::uint64_t left = bytes;
  for (; left > 0 && count < kExtentsMax; ++count) {
    const auto part = allocator_.allocate_longest(left);
    if (!part) break;
    parts[count] = *part;
    left -= part->size;
  }
  if (left > 0) {
    for (std::uint32_t i = 0; i < count; ++i) allocator_.free(parts[i]);
    return false;
  }
  slot.first = parts[0];
  if (count == 1) return true;
  slot.more = take_more();
  More& more = more_[slot.more];
  more.count = count - 1;
  std::copy(parts.begin() + 1, parts.begin() + count, more.rest.begin());
  ++split_;
  return true;
}

void RecordTable::free_space(Slot& slot) {
  if (slot.first.size > 0 && built_) allocator_.free(slot.first);
  if (slot.more != kNone) {
    More& more = more_[slot.more];
    for (std::uint32_t i = 0; built_ && i < more.count; ++i) allocator_.free(more.rest[i]);
    spare_more_.push_back(slot.more);
    slot.more = kNone;
    --split_;
  }
  slot.first = {};
}

void RecordTable::free_cells(Slot& slot) {
  slot_of_cell_[slot.cell] = kNone;
  map_.give(slot.cell, slot.cells);
}

void RecordTable::bind(std::uint32_t number, std::uint32_t cell, std::uint32_t cells) {
  if (slot_of_cell_.size() < map_.end()) slot_of_cell_.resize(map_.end(), kNone);
  slots_[number].cell = cell;
  slots_[number].cells = cells & 15U;
  slot_of_cell_[cell] = number;
}

tl::unexpected<Error> RecordTable::no_space(std::uint64_t payload_bytes) const {
  const std::string text =
      fmt::format("no space for {} bytes: {} of {} bytes are free, {} are being released",
                  payload_bytes, allocator_.free_bytes(), allocator_.capacity(), releasing_bytes_);
  if (releasing_bytes_ > 0) return fail(Code::kBackpressure, text);
  return fail(Code::kExhausted, text + "; release records");
}

Result<std::uint32_t> RecordTable::reserve(std::uint64_t payload_bytes) {
  if (payload_bytes == 0) return fail(Code::kInvalidArgument, "a record has at least one byte");
  if (payload_bytes > layout_.data_bytes) {
    return fail(Code::kTooLarge, fmt::format("a record of {} bytes is larger than the device's {}",
                                             payload_bytes, layout_.data_bytes));
  }
  if (!built_) return fail(Code::kBackpressure, "the record store is still being recovered");
  if (map_.free() <= unnamed_) {
    const std::string text = fmt::format("all {} header cells are in use", map_.cells());
    if (releases_ > 0) return fail(Code::kBackpressure, text + ", some are being released");
    return fail(Code::kExhausted, text + "; release records, or format with smaller record_bytes");
  }
  const std::uint32_t number = take_slot();
  Slot& slot = slots_[number];
  if (!take_space(slot, layout_.stored_bytes(payload_bytes))) {
    give_slot(number);
    return no_space(payload_bytes);
  }
  slot.state = kReserved;
  slot.payload_bytes = payload_bytes;
  ++reserved_slots_;
  ++unnamed_;
  reserved_bytes_ += layout_.stored_bytes(payload_bytes);
  return number;
}

void RecordTable::give_back(std::uint32_t number) noexcept {
  Slot& slot = slots_[number];
  --reserved_slots_;
  reserved_bytes_ -= stored_bytes(number);
  if (slot.state == kNamed) free_cells(slot);
  if (slot.state == kReserved) --unnamed_;
  free_space(slot);
  give_slot(number);
}

bool RecordTable::name(std::uint32_t number, std::uint32_t cells, std::uint64_t& sequence) {
  const auto cell = map_.take(cells);
  if (!cell) return false;
  Slot& slot = slots_[number];
  bind(number, *cell, cells);
  slot.state = kNamed;
  --unnamed_;
  if ((next_sequence_ & kGenerationMask) == 0) ++next_sequence_;
  sequence = next_sequence_++;
  slot.generation = static_cast<std::uint32_t>(sequence & kGenerationMask);
  return true;
}

void RecordTable::commit(std::uint32_t number) {
  Slot& slot = slots_[number];
  slot.state = kLive;
  --reserved_slots_;
  reserved_bytes_ -= stored_bytes(number);
  ++records_;
  payload_bytes_ += slot.payload_bytes;
}

void RecordTable::give_up(std::uint32_t number) {
  --reserved_slots_;
  reserved_bytes_ -= stored_bytes(number);
  ++releases_;
  releasing_bytes_ += stored_bytes(number);
  queue_release(number);
}

void RecordTable::give_back_but_cells(std::uint32_t number) {
  Slot& slot = slots_[number];
  slot_of_cell_[slot.cell] = kNone;
  bad_cells_ += slot.cells;
  slot.cells = 0;  // they stay marked as used
  slot.state = kSpare;
  --reserved_slots_;
  reserved_bytes_ -= stored_bytes(number);
  free_space(slot);
  give_slot(number);
}

std::uint32_t RecordTable::find(RecordId id) const noexcept {
  if (id.cell >= slot_of_cell_.size()) return kNone;
  const std::uint32_t number = slot_of_cell_[id.cell];
  if (number == kNone) return kNone;
  const Slot& slot = slots_[number];
  return slot.state == kLive && slot.generation == id.generation ? number : kNone;
}

std::uint32_t RecordTable::next_from(std::uint32_t cell) const noexcept {
  for (std::size_t i = cell; i < slot_of_cell_.size(); ++i) {
    const std::uint32_t number = slot_of_cell_[i];
    if (number != kNone && slots_[number].state == kLive) return number;
  }
  return kNone;
}

void RecordTable::pin(std::uint32_t number) noexcept {
  ++slots_[number].pins;
  ++pins_;
}

void RecordTable::unpin(std::uint32_t number) {
  Slot& slot = slots_[number];
  --pins_;
  if (--slot.pins == 0 && slot.state == kReleasing) queue_release(number);
}

std::uint64_t RecordTable::payload_bytes(std::uint32_t number) const noexcept {
  return slots_[number].payload_bytes;
}

std::uint64_t RecordTable::stored_bytes(std::uint32_t number) const noexcept {
  return layout_.stored_bytes(slots_[number].payload_bytes);
}

RecordId RecordTable::id(std::uint32_t number) const noexcept {
  return {slots_[number].cell, slots_[number].generation};
}

std::uint32_t RecordTable::extents(std::uint32_t number,
                                   std::array<Extent, kExtentsMax>& out) const noexcept {
  const Slot& slot = slots_[number];
  out[0] = {layout_.data_offset + slot.first.offset, slot.first.size};
  if (slot.more == kNone) return 1;
  const More& more = more_[slot.more];
  for (std::uint32_t i = 0; i < more.count; ++i) {
    out[i + 1] = {layout_.data_offset + more.rest[i].offset, more.rest[i].size};
  }
  return more.count + 1;
}

void RecordTable::queue_release(std::uint32_t number) {
  slots_[number].state = kQueued;
  to_release_.push_back(number);
}

void RecordTable::release(std::uint32_t number) {
  Slot& slot = slots_[number];
  --records_;
  payload_bytes_ -= slot.payload_bytes;
  ++releases_;
  releasing_bytes_ += stored_bytes(number);
  slot.state = kReleasing;
  if (slot.pins == 0) queue_release(number);
}

void RecordTable::finish_release(std::uint32_t number) {
  Slot& slot = slots_[number];
  if (!built_) {
    slot.state = kGone;
    return;
  }
  --releases_;
  releasing_bytes_ -= stored_bytes(number);
  free_cells(slot);
  free_space(slot);
  give_slot(number);
}

void RecordTable::requeue(std::uint32_t number) {
  to_release_.push_back(number);
}

void RecordTable::stick(std::uint32_t number) {
  slots_[number].state = kStuck;
  --releases_;
  releasing_bytes_ -= stored_bytes(number);
  stuck_bytes_ += stored_bytes(number);
}

void RecordTable::fill(StoreStats& s) const {
  s.capacity = layout_.data_bytes;
  s.used = built_ ? allocator_.used() : std::min(adopted_bytes_, s.capacity);
  s.free = s.capacity - s.used;
  s.reserved = reserved_bytes_;
  s.releasing = releasing_bytes_;
  s.stuck = stuck_bytes_;
  s.payload_bytes = payload_bytes_;
  s.records = records_;
  s.pins = pins_;
  s.split_records = split_;
  s.cells = map_.cells();
  s.cells_used = map_.used();
  s.cells_end = map_.end();
  s.damaged_headers = damaged_;
  s.overlapping = overlapping_;
  s.bad_cells = bad_cells_;
  s.memory_bytes = slots_.size() * sizeof(Slot) + slot_of_cell_.size() * sizeof(std::uint32_t) +
                   more_.size() * sizeof(More) + to_release_.size() * sizeof(std::uint32_t) +
                   spare_more_.capacity() * sizeof(std::uint32_t) + map_.memory_bytes() +
                   allocator_.report_node_bytes();
  s.recovered = built_;
}

std::string RecordTable::check() const {
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;
  std::uint64_t reserved = 0;
  for (const Slot& slot : slots_) {
    if (slot.state == kSpare) continue;
    bytes += slot.first.size;
    if (slot.more != kNone) {
      for (std::uint32_t i = 0; i < more_[slot.more].count; ++i) {
        bytes += more_[slot.more].rest[i].size;
      }
    }
    records += slot.state == kLive ? 1 : 0;
    reserved += slot.state == kReserved || slot.state == kNamed ? 1 : 0;
  }
  if (built_ && bytes != allocator_.used()) {
    return fmt::format("slots have {} bytes, {} are used", bytes, allocator_.used());
  }
  if (records != records_ || reserved != reserved_slots_) return "slots were miscounted";
  return allocator_.check();
}

}  // namespace larder::extent
