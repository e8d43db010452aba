// SPDX-License-Identifier: Apache-2.0
// What O_DIRECT asks of offsets, lengths and memory on one file.
#pragma once

#include <cstdint>
#include <optional>

namespace larder::fileio {

struct DirectLimits {
  std::uint32_t memory_alignment = 0;  // bytes; a power of two
  std::uint32_t offset_alignment = 0;  // bytes, of offsets and lengths; a power of two
};

// Larger blocks than this are not worth it: such a file is used through the page cache.
inline constexpr std::uint32_t kDirectAlignmentMax = 64U << 10U;

// Asks the kernel (statx, from 6.1 on), else the device, else probe_limits(). `fd` was opened with
// O_DIRECT. Empty: the file takes no direct I/O after all.
std::optional<DirectLimits> direct_limits(int fd, bool is_device);

// By trying: reads of 512 and of 4096 bytes at the start. Where that tells nothing, as with an
// empty file, 4096, which satisfies every smaller block as well. Empty: neither size is taken.
std::optional<DirectLimits> probe_limits(int fd);

}  // namespace larder::fileio
