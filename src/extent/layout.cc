// SPDX-License-Identifier: Apache-2.0
#include "extent/layout.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/offset_allocator.h"

namespace larder::extent {
namespace {

constexpr std::uint64_t kDataAlignment = 1U << 20U;
constexpr std::uint64_t kAlignDataFrom = 64U << 20U;  // bytes of the device; below, it would waste
constexpr std::uint64_t kRecordBytesMax = 1U << 30U;

std::uint64_t round_up(std::uint64_t value, std::uint64_t step) noexcept {
  return (value + step - 1) / step * step;
}

}  // namespace

Result<Layout> layout_of(const block::Geometry& g, std::uint64_t record_bytes) {
  if (record_bytes < g.block_bytes || record_bytes > kRecordBytesMax) {
    return fail(Code::kInvalidArgument, "record_bytes is from the device's block of " +
                                            std::to_string(g.block_bytes) + " to " +
                                            std::to_string(kRecordBytesMax) + ", not " +
                                            std::to_string(record_bytes));
  }
  if (g.sector_bytes < kCellBytes || g.bytes() > OffsetAllocator::kCapacityMax) {
    return fail(Code::kUnsupported,
                "a record store needs sectors of 512 bytes or more and at most 64 TiB");
  }
  Layout out{g.block_bytes, g.blocks, 0, 0, 0};
  const std::uint64_t per_block = g.block_bytes / kCellBytes;
  const std::uint64_t cells = std::min<std::uint64_t>(g.bytes() / record_bytes, kCellsMax - 1024);
  out.cells = static_cast<std::uint32_t>(round_up(std::max<std::uint64_t>(cells, 8), per_block));
  const std::uint64_t align = g.bytes() >= kAlignDataFrom ? kDataAlignment : out.unit();
  out.data_offset = round_up(out.table_offset() + out.table_bytes(), std::max(align, out.unit()));
  const std::uint64_t end = out.superblock_offset(1);
  if (g.blocks < 4 || out.data_offset + out.unit() > end) {
    return fail(Code::kInvalidArgument, "a device of " + std::to_string(g.bytes()) +
                                            " bytes is too small for a record store");
  }
  out.data_bytes = (end - out.data_offset) / out.unit() * out.unit();
  return out;
}

Result<void> check(const Layout& l) {
  const bool numbers = std::has_single_bit(l.block_bytes) && l.block_bytes >= kCellBytes &&
                       l.block_bytes <= block::kBlockBytesMax && l.device_blocks >= 4 &&
                       l.device_blocks <= OffsetAllocator::kCapacityMax / l.block_bytes &&
                       l.cells > 0 && l.cells <= kCellsMax && l.table_bytes() % l.block_bytes == 0;
  const bool order = numbers && l.data_offset % l.unit() == 0 &&
                     l.data_offset >= l.table_offset() + l.table_bytes() &&
                     l.data_offset < l.superblock_offset(1) && l.data_bytes > 0 &&
                     l.data_bytes % l.unit() == 0 &&
                     l.data_bytes <= l.superblock_offset(1) - l.data_offset;
  if (order) return {};
  return fail(Code::kCorrupt, "a superblock describes no possible device");
}

}  // namespace larder::extent
