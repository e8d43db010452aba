// SPDX-License-Identifier: Apache-2.0
#include "platform/copy_route.h"

#include <fmt/format.h>

#include <array>

#include "platform/location.h"

namespace larder::platform {

std::string_view direction_name(CopyDirection direction) noexcept {
  constexpr std::array<std::string_view, kCopyDirectionCount> kNames = {"in", "out", "within"};
  const auto index = static_cast<std::size_t>(direction);
  return index < kNames.size() ? kNames[index] : "unknown";
}

Result<void> check_range(const void* ptr, std::uint64_t bytes, std::string_view what) {
  if (ptr == nullptr) return fail(Code::kInvalidArgument, fmt::format("{} is null", what));
  if (bytes == 0) return fail(Code::kInvalidArgument, fmt::format("{} has no bytes", what));
  if (bytes > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(ptr)) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} of {} bytes runs past the end of the address space", what, bytes));
  }
  return {};
}

Result<void> check_copy(const Copy& copy) {
  LARDER_TRY(check_range(copy.dst, copy.bytes, "destination of the copy"));
  LARDER_TRY(check_range(copy.src, copy.bytes, "source of the copy"));
  const auto dst = reinterpret_cast<std::uintptr_t>(copy.dst);
  const auto src = reinterpret_cast<std::uintptr_t>(copy.src);
  if (dst < src + copy.bytes && src < dst + copy.bytes) {
    return fail(Code::kInvalidArgument,
                fmt::format("source and destination of a copy of {} bytes overlap", copy.bytes));
  }
  return {};
}

Result<void> check_copier_options(const CopierOptions& options) {
  if (options.depth >= 1 && options.depth <= kCopierDepthMax) return {};
  return fail(Code::kInvalidArgument, fmt::format("depth of a copy engine is {}: must be 1 to {}",
                                                  options.depth, kCopierDepthMax));
}

Error copier_full(std::size_t depth) {
  return {Code::kBackpressure,
          fmt::format("the copy engine holds {} copies, its depth: fetch results first", depth)};
}

Error copies_remain(std::size_t in_flight) {
  return {Code::kDeadlineExceeded,
          fmt::format("{} copies may still touch their memory", in_flight)};
}

Result<CopyRoute> derive_route(const std::optional<Location>& dst,
                               const std::optional<Location>& src, std::string_view platform) {
  if (!dst && !src) {
    return fail(Code::kInvalidArgument,
                fmt::format("neither side of the copy is memory of {}", platform));
  }
  if (!src) return CopyRoute{CopyDirection::kIn, dst->index};
  if (!dst) return CopyRoute{CopyDirection::kOut, src->index};
  if (dst->index == src->index) return CopyRoute{CopyDirection::kWithin, dst->index};
  return fail(Code::kUnsupported,
              fmt::format("{} does not copy from {} to {}: go through host memory", platform,
                          format_location(*src), format_location(*dst)));
}

}  // namespace larder::platform
