// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/offload_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <new>
#include <utility>

namespace larder::tier {
namespace {

constexpr std::uint32_t kItemsMax = 1U << 30U;
constexpr std::uint32_t kSlotsMax = 1U << 31U;
constexpr env::Nanos kTimeMax = std::numeric_limits<env::Nanos>::max();

// Without overflow; `pause` is not negative.
env::Nanos later(env::Nanos now, env::Nanos pause) noexcept {
  return now > kTimeMax - pause ? kTimeMax : now + pause;
}

Result<void> check(const OffloadQueueOptions& options) {
  if (options.items_max == 0 || options.items_max > kItemsMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("items_max {} must be from 1 to 2^30", options.items_max));
  }
  if (options.slots_max == 0 || options.slots_max > kSlotsMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("slots_max {} must be from 1 to 2^31", options.slots_max));
  }
  if (options.age_limit < 0 || options.refused_pause < 0) {
    return fail(Code::kInvalidArgument, "age_limit and refused_pause must not be negative");
  }
  if (options.retry_first <= 0 || options.retry_max < options.retry_first) {
    return fail(Code::kInvalidArgument,
                "retry_first must be above 0, and retry_max not below retry_first");
  }
  return {};
}

}  // namespace

// ---- names ----

std::string_view offload_mode_name(OffloadMode mode) noexcept {
  return mode == OffloadMode::kPassthrough ? "passthrough" : "evict";
}

std::optional<OffloadMode> parse_offload_mode(std::string_view name) noexcept {
  for (const auto mode : {OffloadMode::kPassthrough, OffloadMode::kEvictTriggered}) {
    if (name == offload_mode_name(mode)) return mode;
  }
  return std::nullopt;
}

std::string_view offload_order_name(OffloadOrder order) noexcept {
  if (order == OffloadOrder::kFifo) return "fifo";
  return order == OffloadOrder::kSmallFirst ? "small_first" : "large_first";
}

std::optional<OffloadOrder> parse_offload_order(std::string_view name) noexcept {
  for (const auto order :
       {OffloadOrder::kFifo, OffloadOrder::kSmallFirst, OffloadOrder::kLargeFirst}) {
    if (name == offload_order_name(order)) return order;
  }
  return std::nullopt;
}

// ---- heaps ----

bool OffloadQueue::older(const Entry& a, const Entry& b) const noexcept {
  return a.since < b.since;
}

bool OffloadQueue::sooner(const Entry& a, const Entry& b) const noexcept {
  return a.due != b.due ? a.due < b.due : a.since < b.since;
}

bool OffloadQueue::preferred(const Entry& a, const Entry& b) const noexcept {
  if (a.length == b.length) return a.since < b.since;
  return (a.length < b.length) == (options_.order == OffloadOrder::kSmallFirst);
}

void OffloadQueue::place(Heap& heap, std::uint32_t cell, std::uint32_t index) noexcept {
  heap.cells[cell] = index;
  entries_[index].*heap.place = cell;
}

void OffloadQueue::rise(Heap& heap, std::uint32_t cell) noexcept {
  const std::uint32_t index = heap.cells[cell];
  while (cell > 0) {
    const std::uint32_t above = (cell - 1) / 2;
    if (!(this->*heap.before)(entries_[index], entries_[heap.cells[above]])) break;
    place(heap, cell, heap.cells[above]);
    cell = above;
  }
  place(heap, cell, index);
}

void OffloadQueue::sink(Heap& heap, std::uint32_t cell) noexcept {
  const std::uint32_t index = heap.cells[cell];
  const auto size = static_cast<std::uint32_t>(heap.cells.size());
  for (std::uint32_t below = 2 * cell + 1; below < size; below = 2 * cell + 1) {
    const bool right = below + 1 < size && (this->*heap.before)(entries_[heap.cells[below + 1]],
                                                                entries_[heap.cells[below]]);
    if (right) ++below;
    if (!(this->*heap.before)(entries_[heap.cells[below]], entries_[index])) break;
    place(heap, cell, heap.cells[below]);
    cell = below;
  }
  place(heap, cell, index);
}

// The memory was reserved by create().
void OffloadQueue::push(Heap& heap, std::uint32_t index) noexcept {
  heap.cells.push_back(index);
  rise(heap, static_cast<std::uint32_t>(heap.cells.size() - 1));
}

void OffloadQueue::pull(Heap& heap, std::uint32_t index) noexcept {
  const std::uint32_t cell = entries_[index].*heap.place;
  const std::uint32_t last = heap.cells.back();
  heap.cells.pop_back();
  if (last == index) return;
  place(heap, cell, last);
  rise(heap, cell);
  sink(heap, entries_[last].*heap.place);
}

// ---- the queue ----

OffloadQueue::OffloadQueue(const OffloadQueueOptions& options) noexcept
    : options_(options),
      by_age_{&OffloadQueue::older, &Entry::age_at, {}},
      by_order_{&OffloadQueue::preferred, &Entry::other_at, {}},
      by_due_{&OffloadQueue::sooner, &Entry::other_at, {}},
      last_stamp_(std::numeric_limits<env::Nanos>::min()) {}

Result<OffloadQueue> OffloadQueue::create(const OffloadQueueOptions& options) {
  LARDER_TRY(check(options));
  OffloadQueue made(options);
  try {
    made.chunks_.resize((options.slots_max + kChunk - 1) / kChunk);
    made.entries_.reserve(options.items_max);
    made.by_age_.cells.reserve(options.items_max);
    made.by_due_.cells.reserve(options.items_max);
    if (options.order != OffloadOrder::kFifo) made.by_order_.cells.reserve(options.items_max);
  } catch (const std::exception&) {
    return fail(Code::kExhausted,
                fmt::format("no memory for an offload queue of {} items", options.items_max));
  }
  return made;
}

std::uint32_t OffloadQueue::find(std::uint32_t slot) const noexcept {
  if (slot >= options_.slots_max) return kNone;
  const auto& chunk = chunks_[slot / kChunk];
  return chunk ? chunk[slot % kChunk] : kNone;
}

bool OffloadQueue::ensure_chunk(std::uint32_t slot) noexcept {
  auto& chunk = chunks_[slot / kChunk];
  if (chunk) return true;
  chunk.reset(new (std::nothrow) std::uint32_t[kChunk]);
  if (!chunk) return false;
  std::fill_n(chunk.get(), kChunk, kNone);
  return true;
}

// The order of arrival, also of items that arrive at one time, and should the clock step back.
env::Nanos OffloadQueue::stamp(env::Nanos now) noexcept {
  last_stamp_ = now > last_stamp_ ? now : later(last_stamp_, 1);
  return last_stamp_;
}

env::Nanos OffloadQueue::back_off(std::uint32_t failures) const noexcept {
  env::Nanos pause = options_.retry_first;
  for (std::uint32_t i = 1; i < failures && pause < options_.retry_max; ++i) {
    pause = pause > options_.retry_max / 2 ? options_.retry_max : pause * 2;
  }
  return std::min(pause, options_.retry_max);
}

bool OffloadQueue::insert(const OffloadItem& item, std::optional<env::Nanos> due) noexcept {
  const bool full = counts_.size >= options_.items_max;
  if (full || !ensure_chunk(item.slot)) {
    ++counts_.refused;
    return false;
  }
  std::uint32_t index = free_;
  if (index != kNone) {
    free_ = entries_[index].age_at;
  } else {
    index = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back();  // within what create() reserved
  }
  entries_[index] = {item.version, item.length,   item.since, due.value_or(0),
                     item.slot,    item.failures, kNone,      kNone};
  index_of(item.slot) = index;
  ++counts_.size;
  counts_.bytes += item.length;
  if (due) {
    push(by_due_, index);
  } else {
    make_ready(index);
  }
  return true;
}

void OffloadQueue::make_ready(std::uint32_t index) noexcept {
  push(by_age_, index);
  if (options_.order != OffloadOrder::kFifo) push(by_order_, index);
}

OffloadItem OffloadQueue::extract(std::uint32_t index) noexcept {
  Entry& entry = entries_[index];
  if (entry.age_at == kNone) {
    pull(by_due_, index);
  } else {
    pull(by_age_, index);
    if (options_.order != OffloadOrder::kFifo) pull(by_order_, index);
  }
  index_of(entry.slot) = kNone;
  entry.age_at = std::exchange(free_, index);
  --counts_.size;
  counts_.bytes -= entry.length;
  return {entry.slot, entry.version, entry.length, entry.since, entry.failures};
}

OffloadQueue::Put OffloadQueue::put(std::uint32_t slot, std::uint64_t version, std::uint64_t length,
                                    env::Nanos now) noexcept {
  if (slot >= options_.slots_max) return Put::kBadSlot;
  const std::uint32_t present = find(slot);
  if (present != kNone) {
    if (entries_[present].version == version) return Put::kPresent;
    if (entries_[present].version > version) return Put::kStale;
    extract(present);
    ++counts_.replaced;
  }
  if (!insert({slot, version, length, stamp(now), 0}, std::nullopt)) return Put::kFull;
  return present != kNone ? Put::kReplaced : Put::kQueued;
}

std::optional<OffloadItem> OffloadQueue::remove(std::uint32_t slot) noexcept {
  const std::uint32_t index = find(slot);
  if (index == kNone) return std::nullopt;
  return extract(index);
}

std::optional<OffloadItem> OffloadQueue::take(env::Nanos now) noexcept {
  for (unsigned moved = 0; moved < kDuePerTake && !by_due_.cells.empty(); ++moved) {
    const std::uint32_t index = by_due_.cells.front();
    if (entries_[index].due > now) break;
    pull(by_due_, index);
    make_ready(index);
  }
  if (by_age_.cells.empty()) return std::nullopt;
  std::uint32_t next = by_age_.cells.front();
  const bool aged = now >= later(entries_[next].since, options_.age_limit);
  if (!aged && options_.order != OffloadOrder::kFifo) next = by_order_.cells.front();
  ++counts_.attempts;
  return extract(next);
}

bool OffloadQueue::put_back(OffloadItem item, env::Nanos due) noexcept {
  if (item.slot >= options_.slots_max || contains(item.slot)) return false;
  return insert(item, due);
}

bool OffloadQueue::retry(const OffloadItem& item, env::Nanos now) noexcept {
  OffloadItem again = item;
  if (again.failures != std::numeric_limits<std::uint32_t>::max()) ++again.failures;
  if (!put_back(again, later(now, back_off(again.failures)))) return false;
  ++counts_.retries;
  return true;
}

bool OffloadQueue::defer(const OffloadItem& item, env::Nanos now) noexcept {
  if (!put_back(item, later(now, options_.refused_pause))) return false;
  ++counts_.deferred;
  return true;
}

std::optional<env::Nanos> OffloadQueue::next_due(env::Nanos now) const noexcept {
  if (!by_age_.cells.empty()) return now;
  if (by_due_.cells.empty()) return std::nullopt;
  return std::max(now, entries_[by_due_.cells.front()].due);
}

OffloadCounts OffloadQueue::counts() const noexcept {
  OffloadCounts now = counts_;
  now.ready = by_age_.cells.size();
  now.delayed = by_due_.cells.size();
  return now;
}

// What was touched: reserved memory is none before.
std::uint64_t OffloadQueue::report_memory_bytes() const noexcept {
  std::uint64_t made = 0;
  for (const auto& chunk : chunks_) made += chunk ? 1 : 0;
  const std::uint64_t heaps = options_.order == OffloadOrder::kFifo ? 1 : 2;
  return chunks_.size() * sizeof(chunks_[0]) + made * kChunk * sizeof(std::uint32_t) +
         entries_.size() * (sizeof(Entry) + heaps * sizeof(std::uint32_t));
}

}  // namespace larder::tier
