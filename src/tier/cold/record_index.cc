// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/record_index.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <new>
#include <utility>

namespace larder::tier {

Result<RecordIndex> RecordIndex::create(std::uint32_t cells) {
  ClockOptions options;
  options.handles_max = cells;
  options.ghosts_max = std::bit_ceil(std::min(cells, 1U << 24U));
  LARDER_ASSIGN(ClockPolicy clock, ClockPolicy::create(options));
  // Zeros that take no memory until they are written.
  Stamps stamps(static_cast<std::uint8_t*>(std::calloc(std::max(cells, 1U), 1)), &std::free);
  if (!stamps) return fail(Code::kExhausted, "no memory for the index of a disk's records");
  return RecordIndex(std::move(clock), std::move(stamps), cells);
}

RecordIndex::RecordIndex(RecordIndex&& other) noexcept
    : clock_(std::move(other.clock_)),
      stamps_(std::move(other.stamps_)),
      cells_(other.cells_),
      hashes_(std::move(other.hashes_)),
      generations_(std::move(other.generations_)) {}

bool RecordIndex::insert(extent::RecordId id, std::uint64_t hash, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (id.cell >= generations_.size()) {
    // Cells are taken lowest first, so this grows as the device fills.
    const std::size_t more = std::size_t{id.cell} + id.cell / 4 + 1024;
    try {
      hashes_.resize(more);
      generations_.resize(more);
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  if (!clock_.insert(id.cell, bytes, ClockPolicy::fingerprint(hash))) return false;
  if (id.cell < cells_) std::atomic_ref(stamps_[id.cell]).store(0, std::memory_order_relaxed);
  hashes_[id.cell] = hash;
  generations_[id.cell] = id.generation;
  return true;
}

bool RecordIndex::erase(extent::RecordId id) noexcept {
  const std::lock_guard lock(mutex_);
  if (id.cell >= generations_.size() || generations_[id.cell] != id.generation) return false;
  generations_[id.cell] = 0;
  return clock_.erase(id.cell);
}

void RecordIndex::touch(extent::RecordId id) noexcept {
  clock_.touch(id.cell);
}

std::uint8_t RecordIndex::stamp(extent::RecordId id, std::uint8_t now) noexcept {
  if (id.cell >= cells_) return 0;
  return std::atomic_ref(stamps_[id.cell]).exchange(now, std::memory_order_relaxed);
}

std::optional<IndexedRecord> RecordIndex::next_victim() {
  const std::lock_guard lock(mutex_);
  const auto cell = clock_.next_victim([](std::uint32_t) { return true; }, clock_.full_steps());
  if (!cell) return std::nullopt;
  return IndexedRecord{{*cell, generations_[*cell]}, hashes_[*cell]};
}

void RecordIndex::remember(std::uint64_t hash) {
  const std::lock_guard lock(mutex_);
  clock_.remember(ClockPolicy::fingerprint(hash));
}

std::optional<IndexedRecord> RecordIndex::from(std::uint32_t cell) const {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = cell; i < generations_.size(); ++i) {
    if (generations_[i] == 0) continue;
    return IndexedRecord{{static_cast<std::uint32_t>(i), generations_[i]}, hashes_[i]};
  }
  return std::nullopt;
}

std::uint64_t RecordIndex::records() const {
  const std::lock_guard lock(mutex_);
  return clock_.entries();
}

std::uint64_t RecordIndex::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  return clock_.report_memory_bytes() + hashes_.capacity() * sizeof(std::uint64_t) +
         generations_.capacity() * (sizeof(std::uint32_t) + 1);
}

}  // namespace larder::tier
