// SPDX-License-Identifier: Apache-2.0
// The volatile cache of a pretended disk: what was written and not flushed, in order. And what a
// loss of power leaves of it.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "block/aligned_buffer.h"
#include "larder/status.h"

namespace larder::block {

// A write, or a discard or write of zeroes, which have no data.
struct Change {
  std::uint64_t offset = 0;  // bytes
  std::uint64_t bytes = 0;
  AlignedBuffer data;  // of zeros: nothing

  bool zeros() const noexcept { return data.size() == 0; }
};

// Not thread safe.
class WriteCache {
 public:
  void add(Change change);
  // Puts over `into`, which was read from `offset` of the medium, what is newer here.
  void patch(std::uint64_t offset, std::span<std::byte> into) const;
  const std::vector<Change>& changes() const noexcept { return changes_; }
  std::uint64_t bytes() const noexcept { return bytes_; }  // of data
  void clear();

 private:
  std::vector<Change> changes_;  // oldest first
  std::uint64_t bytes_ = 0;
};

// What of the changes is on the medium after a loss of power.
enum class CutKind : std::uint8_t {
  kAny = 0,  // the seed chooses one of the others
  kNothing = 1,
  kEverything = 2,
  kSectors = 3,    // each sector of each change, or not: rarely, half of them, or mostly
  kWrites = 4,     // each change, or not
  kPrefix = 5,     // in order up to somewhere within one change
  kAllButOne = 6,  // one change is missing
};
inline constexpr std::size_t kCutKindCount = 7;

// Sectors of one change, counted from its start.
struct Survivor {
  std::size_t change = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  bool operator==(const Survivor&) const = default;
};

// In order of the changes: where they meet the later one has it, and a change whose successor is
// lost shows again. The changes' offsets and lengths are multiples of `sector_bytes`.
std::vector<Survivor> survivors_of(std::span<const Change> changes, std::uint32_t sector_bytes,
                                   CutKind kind, std::mt19937_64& random);

}  // namespace larder::block
