// SPDX-License-Identifier: Apache-2.0
// The name of a device: 128 random bits, written on it when it is formatted.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <string>
#include <string_view>

#include "larder/status.h"

namespace larder::extent {

struct Uuid {
  std::array<std::byte, 16> bytes{};

  static Uuid random() noexcept;
  // kInvalidArgument: not 32 hex digits, or those in groups of 8-4-4-4-12.
  static Result<Uuid> parse(std::string_view text);
  bool is_nil() const noexcept { return *this == Uuid(); }
  // "0f8fad5b-d9cb-469f-a165-70867728950e"
  std::string to_string() const;
  auto operator<=>(const Uuid&) const = default;
};

}  // namespace larder::extent
