// SPDX-License-Identifier: Apache-2.0
// What the tags of the writer's operations say. Internal to extent.
#pragma once

#include <cstdint>

namespace larder::extent {

enum class OpRole : std::uint8_t { kPayload = 0, kTable = 1, kFlush = 2 };

constexpr std::uint64_t tag_of(OpRole role, std::uint32_t number) noexcept {
  return static_cast<std::uint64_t>(role) << 32U | number;
}
constexpr OpRole role_of(std::uint64_t tag) noexcept {
  return static_cast<OpRole>(tag >> 32U);
}

}  // namespace larder::extent
