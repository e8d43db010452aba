// SPDX-License-Identifier: Apache-2.0
#include "tier/hot/clock_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <exception>
#include <new>
#include <utility>

namespace larder::tier {

struct ClockPolicy::Chunk {
  std::array<Entry, kChunk> entries;
  std::array<std::atomic<std::uint8_t>, kChunk> credits{};
};

namespace {

constexpr std::uint32_t kFirstPlaces = 1024;
constexpr std::uint32_t kPlacesMax = 1U << 30U;
constexpr std::uint8_t kCreditMax = 15;

}  // namespace

// ---- ghosts ----

std::uint32_t GhostList::home(std::uint32_t fingerprint) const noexcept {
  const auto bits = static_cast<unsigned>(std::countr_zero(cells_.size()));
  return (fingerprint * 0x9E3779B1U) >> (32U - bits);
}

std::uint32_t GhostList::find(std::uint32_t fingerprint) const noexcept {
  const auto mask = static_cast<std::uint32_t>(cells_.size() - 1);
  std::uint32_t cell = home(fingerprint);
  while (cells_[cell] != 0 && ring_[cells_[cell] - 1] != fingerprint) cell = (cell + 1) & mask;
  return cell;
}

void GhostList::add(std::uint32_t place) noexcept {
  cells_[find(ring_[place])] = place + 1;
}

// Closes the gap by moving back what was pushed past it.
void GhostList::clear_cell(std::uint32_t gap) noexcept {
  const auto mask = static_cast<std::uint32_t>(cells_.size() - 1);
  for (std::uint32_t i = (gap + 1) & mask; cells_[i] != 0; i = (i + 1) & mask) {
    const std::uint32_t from = home(ring_[cells_[i] - 1]);
    if (((i - from) & mask) >= ((i - gap) & mask)) {
      cells_[gap] = cells_[i];
      gap = i;
    }
  }
  cells_[gap] = 0;
}

bool GhostList::take(std::uint32_t fingerprint) noexcept {
  if (fingerprint == 0 || ring_.empty()) return false;
  const std::uint32_t cell = find(fingerprint);
  if (cells_[cell] == 0) return false;
  const std::uint32_t place = cells_[cell] - 1;
  clear_cell(cell);
  ring_[place] = 0;
  return true;
}

void GhostList::remember(std::uint32_t fingerprint, std::uint64_t wanted) noexcept {
  if (fingerprint == 0 || places_max_ == 0) return;
  take(fingerprint);
  if (ring_.empty() || (ring_[next_] != 0 && ring_.size() < wanted)) grow();
  if (ring_.empty()) return;  // no memory: go on without
  if (ring_[next_] != 0) clear_cell(find(ring_[next_]));
  ring_[next_] = fingerprint;
  add(next_);
  next_ = (next_ + 1) & static_cast<std::uint32_t>(ring_.size() - 1);
}

void GhostList::grow() noexcept {
  const std::size_t most = std::bit_floor(std::min(places_max_, kPlacesMax));
  const std::size_t places =
      ring_.empty() ? std::min<std::size_t>(kFirstPlaces, most) : ring_.size() * 2;
  if (places > most) return;
  try {
    std::vector<std::uint32_t> ring(places);
    std::vector<std::uint32_t> cells(places * 2);
    std::uint32_t filled = 0;
    for (std::size_t i = 0; i < ring_.size(); ++i) {
      const std::uint32_t fingerprint = ring_[(next_ + i) & (ring_.size() - 1)];
      if (fingerprint != 0) ring[filled++] = fingerprint;
    }
    ring_.swap(ring);
    cells_.swap(cells);
    next_ = filled;
  } catch (const std::exception&) {
    return;  // stays as large as it is
  }
  for (std::uint32_t place = 0; place < next_; ++place) add(place);
}

std::uint64_t GhostList::report_memory_bytes() const noexcept {
  return (ring_.size() + cells_.size()) * sizeof(std::uint32_t);
}

// ---- the queue ----

std::uint32_t ClockPolicy::fingerprint(std::uint64_t hash) noexcept {
  const auto folded = static_cast<std::uint32_t>(hash ^ (hash >> 32U));
  return folded != 0 ? folded : 1;
}

Result<ClockPolicy> ClockPolicy::create(const ClockOptions& options) {
  if (options.handles_max == 0 || options.handles_max > (1U << 31U)) {
    return fail(Code::kInvalidArgument,
                fmt::format("handles_max {} must be from 1 to 2^31", options.handles_max));
  }
  if (std::max({options.hit_credit, options.fresh_credit, options.ghost_credit}) > kCreditMax) {
    return fail(Code::kInvalidArgument,
                "hit_credit, fresh_credit and ghost_credit must be from 0 to 15");
  }
  if (options.ghosts_max > kPlacesMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("ghosts_max {} must be from 0 to 2^30", options.ghosts_max));
  }
  ClockPolicy made(options);
  made.chunk_slots_ = (options.handles_max + kChunk - 1) / kChunk;
  made.chunks_.reset(new (std::nothrow) std::atomic<Chunk*>[made.chunk_slots_] {});
  if (!made.chunks_) return fail(Code::kExhausted, "no memory for the eviction queue");
  return made;
}

ClockPolicy::ClockPolicy(ClockPolicy&& other) noexcept : options_(other.options_) {
  *this = std::move(other);
}

ClockPolicy& ClockPolicy::operator=(ClockPolicy&& other) noexcept {
  if (this == &other) return *this;
  drop_chunks();
  options_ = other.options_;
  chunk_slots_ = std::exchange(other.chunk_slots_, 0);
  chunks_made_ = std::exchange(other.chunks_made_, 0);
  chunks_ = std::move(other.chunks_);
  head_ = std::exchange(other.head_, kNone);
  tail_ = std::exchange(other.tail_, kNone);
  entries_ = std::exchange(other.entries_, 0);
  bytes_ = std::exchange(other.bytes_, 0);
  ghosts_ = std::exchange(other.ghosts_, GhostList(other.options_.ghosts_max));
  return *this;
}

ClockPolicy::~ClockPolicy() {
  drop_chunks();
}

void ClockPolicy::drop_chunks() noexcept {
  for (std::uint32_t i = 0; i < chunk_slots_; ++i) {
    delete chunks_[i].load(std::memory_order_relaxed);
  }
  chunk_slots_ = 0;
}

ClockPolicy::Chunk* ClockPolicy::chunk_of(std::uint32_t handle) const noexcept {
  const std::uint32_t slot = handle / kChunk;
  return slot < chunk_slots_ ? chunks_[slot].load(std::memory_order_acquire) : nullptr;
}

ClockPolicy::Entry* ClockPolicy::entry_of(std::uint32_t handle) const noexcept {
  Chunk* chunk = chunk_of(handle);
  return chunk == nullptr ? nullptr : &chunk->entries[handle % kChunk];
}

bool ClockPolicy::ensure_chunk(std::uint32_t handle) noexcept {
  if (handle >= options_.handles_max || chunk_slots_ == 0) return false;
  if (chunk_of(handle) != nullptr) return true;
  Chunk* chunk = new (std::nothrow) Chunk;
  if (chunk == nullptr) return false;
  chunks_[handle / kChunk].store(chunk, std::memory_order_release);
  ++chunks_made_;
  return true;
}

void ClockPolicy::push_tail(std::uint32_t handle, Entry& entry) noexcept {
  entry.before = tail_;
  entry.after = kNone;
  if (tail_ != kNone) {
    entry_of(tail_)->after = handle;
  } else {
    head_ = handle;
  }
  tail_ = handle;
}

void ClockPolicy::unlink(Entry& entry) noexcept {
  if (entry.before != kNone) {
    entry_of(entry.before)->after = entry.after;
  } else {
    head_ = entry.after;
  }
  if (entry.after != kNone) {
    entry_of(entry.after)->before = entry.before;
  } else {
    tail_ = entry.before;
  }
  entry.before = kAbsent;
}

bool ClockPolicy::insert(std::uint32_t handle, std::uint64_t bytes,
                         std::uint32_t fingerprint) noexcept {
  if (!ensure_chunk(handle)) return false;
  Chunk& chunk = *chunk_of(handle);
  Entry& entry = chunk.entries[handle % kChunk];
  if (entry.before != kAbsent) return false;
  entry.bytes = bytes;
  const bool returns = ghosts_.take(fingerprint);
  chunk.credits[handle % kChunk].store(returns ? options_.ghost_credit : options_.fresh_credit,
                                       std::memory_order_relaxed);
  push_tail(handle, entry);
  ++entries_;
  bytes_ += bytes;
  return true;
}

bool ClockPolicy::erase(std::uint32_t handle) noexcept {
  Entry* entry = entry_of(handle);
  if (entry == nullptr || entry->before == kAbsent) return false;
  unlink(*entry);
  --entries_;
  bytes_ -= entry->bytes;
  return true;
}

bool ClockPolicy::contains(std::uint32_t handle) const noexcept {
  const Entry* entry = entry_of(handle);
  return entry != nullptr && entry->before != kAbsent;
}

void ClockPolicy::touch(std::uint32_t handle) noexcept {
  Chunk* chunk = chunk_of(handle);
  if (chunk == nullptr) return;
  auto& credit = chunk->credits[handle % kChunk];
  // A hot entry is read by many cores: do not take its cache line for a store that changes nothing.
  if (credit.load(std::memory_order_relaxed) < options_.hit_credit) {
    credit.store(options_.hit_credit, std::memory_order_relaxed);
  }
}

std::uint8_t ClockPolicy::credit(std::uint32_t handle) const noexcept {
  const Chunk* chunk = chunk_of(handle);
  if (chunk == nullptr) return 0;
  return chunk->credits[handle % kChunk].load(std::memory_order_relaxed);
}

std::uint64_t ClockPolicy::full_steps() const noexcept {
  const auto most = std::max({options_.hit_credit, options_.fresh_credit, options_.ghost_credit});
  return (most + 1U) * entries_;
}

std::optional<std::uint32_t> ClockPolicy::next_victim(
    const std::function<bool(std::uint32_t)>& evictable, std::uint64_t steps_max) {
  if (steps_max == 0) steps_max = full_steps();
  for (std::uint64_t step = 0; step < steps_max && head_ != kNone; ++step) {
    const std::uint32_t handle = head_;
    Chunk& chunk = *chunk_of(handle);
    Entry& entry = chunk.entries[handle % kChunk];
    unlink(entry);
    push_tail(handle, entry);
    auto& credit = chunk.credits[handle % kChunk];
    const std::uint8_t left = credit.load(std::memory_order_relaxed);
    if (left > 0) {
      // A touch between the two may be lost, which costs that entry one round at most.
      credit.store(static_cast<std::uint8_t>(left - 1), std::memory_order_relaxed);
    } else if (evictable(handle)) {
      return handle;
    }
  }
  return std::nullopt;
}

std::uint64_t ClockPolicy::report_memory_bytes() const noexcept {
  return std::uint64_t{chunks_made_} * sizeof(Chunk) +
         std::uint64_t{chunk_slots_} * sizeof(std::atomic<Chunk*>) + ghosts_.report_memory_bytes();
}

}  // namespace larder::tier
