// SPDX-License-Identifier: Apache-2.0
// Which header cells are free. Not thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace larder::extent {

// Gives out the lowest free cells, so that those ever written form a prefix of the table, but for
// what a crash tears out of it: recovery reads no further. Of a run of several cells the lowest
// place may be missed when the free ones lie scattered; never by going further than end().
class CellMap {
 public:
  explicit CellMap(std::uint32_t cells) : cells_(cells) {}

  std::optional<std::uint32_t> take(std::uint32_t count);
  void give(std::uint32_t cell, std::uint32_t count);
  // Those that recovery found in use, in any order.
  void mark_used(std::uint32_t cell, std::uint32_t count);
  // All cells below were given out or written once.
  void raise_end(std::uint32_t end);

  std::uint32_t cells() const noexcept { return cells_; }
  std::uint32_t used() const noexcept { return used_; }
  std::uint32_t free() const noexcept { return cells_ - used_; }
  std::uint32_t end() const noexcept { return end_; }
  std::uint64_t memory_bytes() const noexcept {
    return (free_.capacity() + any_.capacity()) * sizeof(std::uint64_t);
  }

 private:
  bool is_free(std::uint32_t cell) const noexcept {
    return (free_[cell / 64] >> cell % 64 & 1U) != 0;
  }
  void set(std::uint32_t cell, bool free) noexcept;
  std::optional<std::uint32_t> first_free(std::uint32_t from) const noexcept;
  std::optional<std::uint32_t> find_run(std::uint32_t count, std::uint32_t looks) const noexcept;
  std::optional<std::uint32_t> at_end(std::uint32_t count) const noexcept;

  const std::uint32_t cells_;
  std::uint32_t used_ = 0;
  std::uint32_t end_ = 0;
  std::vector<std::uint64_t> free_;  // a bit each, of cells below end_
  std::vector<std::uint64_t> any_;   // a bit for each word of free_ that is not 0
};

}  // namespace larder::extent
