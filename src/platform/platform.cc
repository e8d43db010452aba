// SPDX-License-Identifier: Apache-2.0
#include "platform/platform.h"

#include <fmt/format.h>

namespace larder::platform {

Result<std::uint64_t> allocation_bytes(std::uint64_t bytes, std::uint64_t limit,
                                       const Location& where) {
  if (bytes == 0) return fail(Code::kInvalidArgument, "an allocation of no bytes");
  const std::uint64_t whole = limit / kPageBytes * kPageBytes;
  if (bytes <= whole) return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  return fail(Code::kTooLarge, fmt::format("allocation of {} bytes: {} gives {} at most", bytes,
                                           format_location(where), whole));
}

Result<void> check_index(int index, int count, std::string_view platform) {
  if (index >= 0 && index < count) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("{} has no device {}: there are {}", platform, index, count));
}

}  // namespace larder::platform
