// SPDX-License-Identifier: Apache-2.0
// Where a record is: what a route carries (route::Entry::cold()), opaque to all but this tier.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extent/record_id.h"

namespace larder::tier {

inline constexpr std::size_t kDevicesMax = 255;  // of one node, over its life

struct Place {
  std::uint8_t device = 0;  // in the order in which the node opened them
  extent::RecordId record;

  // Never 0: the generation of a record is not.
  constexpr std::uint64_t pack() const noexcept {
    return std::uint64_t{device} << 56U | record.pack();
  }
  static constexpr Place unpack(std::uint64_t packed) noexcept {
    return {static_cast<std::uint8_t>(packed >> 56U),
            extent::RecordId::unpack(packed & ((1ULL << 56U) - 1))};
  }
  constexpr bool operator==(const Place&) const = default;
};

}  // namespace larder::tier
