// SPDX-License-Identifier: Apache-2.0
// The name of one record of one device: what a locator holds.
#pragma once

#include <compare>
#include <cstdint>

namespace larder::extent {

struct RecordId {
  std::uint32_t cell = 0;        // the first of its header
  std::uint32_t generation = 0;  // low 24 bits of the record's sequence; of a record never 0

  // Fits 56 bits. 0 is never a record.
  constexpr std::uint64_t pack() const noexcept {
    return std::uint64_t{cell} << 24U | (generation & 0xFFFFFFU);
  }
  // Of any number; what names no record is found out by RecordStore::pin().
  static constexpr RecordId unpack(std::uint64_t packed) noexcept {
    return {static_cast<std::uint32_t>(packed >> 24U),
            static_cast<std::uint32_t>(packed & 0xFFFFFFU)};
  }
  constexpr auto operator<=>(const RecordId&) const = default;
};

}  // namespace larder::extent
