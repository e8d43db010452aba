// SPDX-License-Identifier: Apache-2.0
// What every copy engine checks before it starts a copy.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "larder/status.h"
#include "larder/transfer_types.h"
#include "platform/copy_engine.h"

namespace larder::platform {

enum class CopyDirection : std::uint8_t {
  kIn = 0,      // host to device
  kOut = 1,     // device to host
  kWithin = 2,  // one device
};
inline constexpr std::size_t kCopyDirectionCount = 3;
std::string_view direction_name(CopyDirection direction) noexcept;  // "in", "out", "within"

struct CopyRoute {
  CopyDirection direction = CopyDirection::kIn;
  int device = 0;
};

// A range can be one at all: not null, not empty, and it ends within the address space.
Result<void> check_range(const void* ptr, std::uint64_t bytes, std::string_view what);

// Both ranges can be ranges and do not overlap. kInvalidArgument.
Result<void> check_copy(const Copy& copy);

// kInvalidArgument: the depth is none.
Result<void> check_copier_options(const CopierOptions& options);

Error copier_full(std::size_t depth);
Error copies_remain(std::size_t in_flight);

// Which way the bytes go, from where a platform found both sides (nothing: not its memory).
// kInvalidArgument: neither side is its memory. kUnsupported: two devices.
Result<CopyRoute> derive_route(const std::optional<Location>& dst,
                               const std::optional<Location>& src, std::string_view platform);

}  // namespace larder::platform
