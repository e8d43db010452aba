// SPDX-License-Identifier: Apache-2.0
#include "transfer/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
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
  for (auto& range : ranges) {
    const auto at = static_cast<std::ptrdiff_t>(position(range->base));
    ranges_.insert(ranges_.begin() + at, std::move(range));
  }
  generation_.fetch_add(1, std::memory_order_release);
  return {};
}

Result<std::vector<std::unique_ptr<MemoryRangeRecord>>> MemoryTable::remove(
    std::span<void* const> addresses) {
  const std::unique_lock lock(mutex_);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const std::size_t at = position(addresses[i]);
    const bool known = at < ranges_.size() && ranges_[at]->base == addresses[i];
    const auto before = addresses.first(i);
    if (!known || std::find(before.begin(), before.end(), addresses[i]) != before.end()) {
      return fail(Code::kNotFound,
                  fmt::format("unregister memory: no registered range begins at {}", addresses[i]));
    }
    // Acquire: pairs with the last unpin, so that the caller may reuse the memory.
    if (ranges_[at]->pins.load(std::memory_order_acquire) != 0) {
      return fail(Code::kConflict, "unregister memory: " + text_of(*ranges_[at]) +
                                       " is in use by transfers; wait until they are quiescent");
    }
  }
  std::vector<std::unique_ptr<MemoryRangeRecord>> removed;
  for (void* const address : addresses) {
    const auto at = static_cast<std::ptrdiff_t>(position(address));
    removed.push_back(std::move(ranges_[static_cast<std::size_t>(at)]));
    ranges_.erase(ranges_.begin() + at);
  }
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
