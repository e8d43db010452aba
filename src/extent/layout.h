// SPDX-License-Identifier: Apache-2.0
// Where things are on a device:
//   [superblock A: block 0][header table][data][superblock B: last block]
#pragma once

#include <cstddef>
#include <cstdint>

#include "block/block_types.h"
#include "larder/status.h"

namespace larder::extent {

inline constexpr std::uint64_t kCellBytes = 512;  // what a loss of power does not tear
inline constexpr std::uint32_t kCellsMax = 1U << 31U;
inline constexpr std::uint64_t kSpaceUnit = 4096;  // of payloads, at least
// Header cells that were written and not flushed, at most; and how many cells of zeros recovery
// must see before it believes that there is nothing more. See docs/formats/extent.md, "The end of
// the table".
inline constexpr std::uint32_t kCellWindow = 1024;

struct Layout {
  std::uint32_t block_bytes = 0;
  std::uint64_t device_blocks = 0;
  std::uint32_t cells = 0;
  std::uint64_t data_offset = 0;  // bytes from the start of the device, as all that follow
  std::uint64_t data_bytes = 0;

  std::uint64_t device_bytes() const noexcept { return device_blocks * block_bytes; }
  std::uint64_t superblock_offset(std::size_t copy) const noexcept {
    return copy == 0 ? 0 : device_bytes() - block_bytes;
  }
  std::uint64_t table_offset() const noexcept { return block_bytes; }
  std::uint64_t table_bytes() const noexcept { return cells * kCellBytes; }
  std::uint64_t cell_offset(std::uint64_t cell) const noexcept {
    return table_offset() + cell * kCellBytes;
  }
  // Space is given out in these.
  std::uint64_t unit() const noexcept {
    return block_bytes > kSpaceUnit ? block_bytes : kSpaceUnit;
  }
  std::uint64_t stored_bytes(std::uint64_t payload_bytes) const noexcept {
    return (payload_bytes + unit() - 1) / unit() * unit();
  }
  bool operator==(const Layout&) const = default;
};

// kInvalidArgument: too small, record_bytes. kUnsupported: sectors below a cell; too large.
Result<Layout> layout_of(const block::Geometry& geometry, std::uint64_t record_bytes);
// Of a layout that was read: kCorrupt when it is none that a device can have.
Result<void> check(const Layout& layout);

}  // namespace larder::extent
