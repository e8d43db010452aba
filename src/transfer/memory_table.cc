// SPDX-License-Identifier: Apache-2.0
#include "transfer/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <mutex>

namespace larder::transfer {
namespace {

std::uintptr_t begin_of(const MemoryRangeRecord& range) {
  return reinterpret_cast<std::uintptr_t>(range.base);
}
std::uintptr_t end_of(const MemoryRangeRecord& range) {
  return begin_of(range) + range.bytes;
}

std::string text_of(const MemoryRangeRecord& range) {
  return fmt::format("{} + {} bytes", fmt::ptr(range.base), range.bytes);
}

Result<void> check(const MemoryRangeRecord& range) {
  if (range.base == nullptr || range.bytes == 0) {
    return fail(Code::kInvalidArgument, "register memory: " + text_of(range) + " is empty");
  }
  if (end_of(range) < begin_of(range)) {
    return fail(Code::kInvalidArgument,
                "register memory: " + text_of(range) + " goes beyond the address space");
  }
  return {};
}

}  // namespace

std::size_t MemoryTable::position(const void* address) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), at,
      [](std::uintptr_t value, const auto& range) { return value < end_of(*range); });
  return static_cast<std::size_t>(after - ranges_.begin());
}

Result<void> MemoryTable::add(std::vector<std::unique_ptr<MemoryRangeRecord>> ranges) {
  for (const auto& range : ranges) LARDER_TRY(check(*range));
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a->base < b->base; });
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (end_of(*ranges[i - 1]) > begin_of(*ranges[i])) {
      return fail(Code::kAlreadyExists, "register memory: " + text_of(*ranges[i - 1]) + " and " +
                                            text_of(*ranges[i]) + " of one call overlap");
    }
  }
  const std::unique_lock lock(mutex_);
  if (ranges_.size() + ranges.size() > kRangesMax) {
    return fail(Code::kExhausted, fmt::format("register memory: {} ranges at most; register "
                                              "larger ones",
                                              kRangesMax));
  }
  for (const auto& range : ranges) {
    const std::size_t at = position(range->base);
    if (at < ranges_.size() && begin_of(*ranges_[at]) < end_of(*range)) {
      return fail(Code::kAlreadyExists, "register memory: " + text_of(*range) + " overlaps " +
                                            text_of(*ranges_[at]) + ", which is registered");
    }
  }
  const auto before = static_cast<std::ptrdiff_t>(ranges_.size());
  std::move(ranges.begin(), ranges.end(), std::back_inserter(ranges_));
  std::inplace_merge(ranges_.begin(), ranges_.begin() + before, ranges_.end(),
                     [](const auto& a, const auto& b) { return a->base < b->base; });
  generation_.fetch_add(1, std::memory_order_release);
  return {};
}

Result<std::vector<std::unique_ptr<MemoryRangeRecord>>> MemoryTable::remove(
    std::span<void* const> addresses) {
  std::vector<void*> sorted(addresses.begin(), addresses.end());
  std::sort(sorted.begin(), sorted.end());
  const std::unique_lock lock(mutex_);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const std::size_t at = position(sorted[i]);
    const bool known = at < ranges_.size() && ranges_[at]->base == sorted[i];
    if (!known || (i > 0 && sorted[i] == sorted[i - 1])) {
      return fail(Code::kNotFound,
                  fmt::format("unregister memory: no registered range begins at {}", sorted[i]));
    }
    // Acquire: pairs with the last unpin, so that the caller may reuse the memory.
    if (ranges_[at]->pins.load(std::memory_order_acquire) != 0) {
      return fail(Code::kConflict, "unregister memory: " + text_of(*ranges_[at]) +
                                       " is in use by transfers; wait until they are quiescent");
    }
  }
  std::vector<std::unique_ptr<MemoryRangeRecord>> removed;
  removed.reserve(sorted.size());
  if (sorted.empty()) return removed;
  auto kept = ranges_.begin() + static_cast<std::ptrdiff_t>(position(sorted.front()));
  for (auto at = kept; at != ranges_.end(); ++at) {
    if (removed.size() < sorted.size() && (*at)->base == sorted[removed.size()]) {
      removed.push_back(std::move(*at));
    } else {
      *kept++ = std::move(*at);
    }
  }
  ranges_.erase(kept, ranges_.end());
  generation_.fetch_add(1, std::memory_order_release);
  return removed;
}

MemoryRangeRecord* MemoryTable::Reader::find(const void* address, std::uint64_t bytes,
                                             MemoryRangeRecord* guess) const noexcept {
  if (guess != nullptr && guess->holds(address, bytes)) return guess;
  const std::size_t at = table_.position(address);
  if (at == table_.ranges_.size() || !table_.ranges_[at]->holds(address, bytes)) return nullptr;
  return table_.ranges_[at].get();
}

RangePin MemoryTable::pin(const void* address, std::uint64_t bytes) const {
  const Reader reader(*this);
  MemoryRangeRecord* const range = reader.find(address, bytes);
  return range != nullptr ? RangePin(*range) : RangePin();
}

}  // namespace larder::transfer
