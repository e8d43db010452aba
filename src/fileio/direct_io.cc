// SPDX-License-Identifier: Apache-2.0
#include "fileio/direct_io.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>

namespace larder::fileio {
namespace {

constexpr std::uint32_t kSmall = 512;
constexpr std::uint32_t kLarge = 4096;

std::optional<DirectLimits> usable(std::uint32_t memory, std::uint32_t offset) {
  if (!std::has_single_bit(memory) || !std::has_single_bit(offset)) return std::nullopt;
  if (std::max(memory, offset) > kDirectAlignmentMax) return std::nullopt;
  return DirectLimits{memory, offset};
}

}  // namespace

std::optional<DirectLimits> probe_limits(int fd) {
  alignas(kLarge) std::byte block[kLarge];
  ssize_t got = 0;
  // At 512 of a file: an offset that only small blocks allow.
  do {
    got = ::pread(fd, block + kSmall, kSmall, kSmall);
  } while (got < 0 && errno == EINTR);
  if (got > 0) return DirectLimits{kSmall, kSmall};
  if (got < 0 && errno == EINVAL) {
    do {
      got = ::pread(fd, block, kLarge, 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EINVAL) return std::nullopt;
  }
  return DirectLimits{kLarge, kLarge};
}

std::optional<DirectLimits> direct_limits(int fd, bool is_device) {
  struct statx info {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
      (info.stx_mask & STATX_DIOALIGN) != 0) {
    return usable(info.stx_dio_mem_align, info.stx_dio_offset_align);
  }
  int block = 0;
  if (is_device && ::ioctl(fd, BLKSSZGET, &block) == 0 && block > 0) {
    return usable(static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block));
  }
  return probe_limits(fd);
}

}  // namespace larder::fileio
