// SPDX-License-Identifier: Apache-2.0
#include "extent/cell_map.h"

#include <bit>

namespace larder::extent {
namespace {

constexpr std::uint32_t kLooksMax = 4096;  // free cells that are tried as the start of a run

}  // namespace

void CellMap::set(std::uint32_t cell, bool free) noexcept {
  std::uint64_t& word = free_[cell / 64];
  const std::uint64_t bit = 1ULL << cell % 64;
  word = free ? word | bit : word & ~bit;
  std::uint64_t& any = any_[cell / 4096];
  const std::uint64_t any_bit = 1ULL << cell / 64 % 64;
  any = word != 0 ? any | any_bit : any & ~any_bit;
}

void CellMap::raise_end(std::uint32_t end) {
  if (end <= end_) return;
  free_.resize((end + 63ULL) / 64);
  any_.resize((end + 4095ULL) / 4096);
  for (; end_ < end; ++end_) set(end_, true);
}

std::optional<std::uint32_t> CellMap::first_free(std::uint32_t from) const noexcept {
  if (from >= end_) return std::nullopt;
  std::size_t word = from / 64;
  const std::uint64_t first = free_[word] & (~0ULL << from % 64);
  if (first != 0) return static_cast<std::uint32_t>(word * 64) + std::countr_zero(first);
  ++word;
  std::uint64_t mask = ~0ULL << word % 64;
  for (std::size_t i = word / 64; i < any_.size(); ++i, mask = ~0ULL) {
    const std::uint64_t any = any_[i] & mask;
    if (any == 0) continue;
    word = i * 64 + static_cast<std::size_t>(std::countr_zero(any));
    return static_cast<std::uint32_t>(word * 64) + std::countr_zero(free_[word]);
  }
  return std::nullopt;
}

std::optional<std::uint32_t> CellMap::find_run(std::uint32_t count,
                                               std::uint32_t looks) const noexcept {
  auto start = first_free(0);
  for (std::uint32_t look = 0; start && look < looks; ++look) {
    std::uint32_t end = *start + 1;
    while (end < end_ && end - *start < count && is_free(end)) ++end;
    if (end - *start == count) return start;
    start = first_free(end);
  }
  return std::nullopt;
}

// The free cells right below the end go with those beyond it.
std::optional<std::uint32_t> CellMap::at_end(std::uint32_t count) const noexcept {
  std::uint32_t start = end_;
  while (start > 0 && end_ - start < count && is_free(start - 1)) --start;
  if (count > cells_ - start) return std::nullopt;
  return start;
}

std::optional<std::uint32_t> CellMap::take(std::uint32_t count) {
  auto cell = find_run(count, kLooksMax);
  if (!cell) cell = at_end(count);
  if (!cell) cell = find_run(count, cells_);
  if (!cell) return std::nullopt;
  mark_used(*cell, count);
  return cell;
}

void CellMap::mark_used(std::uint32_t cell, std::uint32_t count) {
  raise_end(cell + count);
  for (std::uint32_t i = cell; i < cell + count; ++i) {
    if (!is_free(i)) continue;
    set(i, false);
    ++used_;
  }
}

void CellMap::give(std::uint32_t cell, std::uint32_t count) {
  for (std::uint32_t i = cell; i < cell + count && i < end_; ++i) {
    if (is_free(i)) continue;
    set(i, true);
    --used_;
  }
}

}  // namespace larder::extent
