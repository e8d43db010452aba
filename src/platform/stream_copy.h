// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace larder::platform {

// From this size on a copy goes past the caches. What others have there stays, and it is no slower:
// against memcpy() on an EPYC of family 26 (CPU time, GB/s, 1 to 16 MiB) with stores of 32 bytes 26
// to 20 into 64 MiB that are used in turn, 18.5 to 17.5 into 512 MiB. With stores of 16 bytes it
// was only 15.5 in the latter case.
inline constexpr std::uint64_t kStreamBytesMin = 1 << 20;

// Copies bytes that do not overlap; they are visible to other threads as after memcpy().
void stream_copy(void* dst, const void* src, std::uint64_t bytes) noexcept;

}  // namespace larder::platform
