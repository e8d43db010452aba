// SPDX-License-Identifier: Apache-2.0
// Included by stream_copy.cc alone, where stores past the caches are not known.
#pragma once

#include <cstddef>
#include <cstring>

namespace larder::platform {

inline constexpr std::size_t kLineBytes = 64;

inline void stream_lines(std::byte* dst, const std::byte* src, std::size_t lines) noexcept {
  std::memcpy(dst, src, lines * kLineBytes);
}

}  // namespace larder::platform
