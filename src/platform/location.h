// SPDX-License-Identifier: Apache-2.0
// Locations as people write them, and pieces of ranges that have one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "larder/status.h"
#include "larder/transfer_types.h"

namespace larder::platform {

inline constexpr int kLocationIndexMax = 4095;

// "cpu:0" is a NUMA node, "cuda:1" and "npu:0" are devices. Without an index ("cuda") it is that
// kind of memory wherever it is: index -1. "*" is unknown: look where the memory is. Each location
// has one spelling: no blanks, capitals, signs or leading zeros. kInvalidArgument names the text
// and what is wrong with it. Pure; any thread.
Result<Location> parse_location(std::string_view text);

// The other way; parse_location() gives the same location back. Any negative index reads as none.
std::string format_location(const Location& location);

// Digits alone and no leading zero: the one way to write a number in a location or a platform.
bool is_plain_number(std::string_view text) noexcept;

// A piece of a range of memory that lies at one place.
struct Region {
  std::uint64_t offset = 0;  // bytes from the beginning of the range
  std::uint64_t bytes = 0;
  Location location;
  bool operator==(const Region&) const = default;
};

}  // namespace larder::platform
