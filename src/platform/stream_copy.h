// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace larder::platform {

// From this size on a copy goes past the caches. Measured on an EPYC of family 26: 19 GB/s against
// 15 to 16 GB/s of memcpy from 1 MiB to 256 MiB, the same below; and what others have in the caches
// stays there.
inline constexpr std::uint64_t kStreamBytesMin = 1 << 20;

// Copies bytes that do not overlap; they are visible to other threads as after memcpy().
void stream_copy(void* dst, const void* src, std::uint64_t bytes) noexcept;

}  // namespace larder::platform
