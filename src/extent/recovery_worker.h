// SPDX-License-Identifier: Apache-2.0
// What one thread of a recovery has for itself. Internal to extent.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "block/blocking.h"
#include "extent/recovery.h"

namespace larder::extent {

class Recovery::Worker {
 public:
  Worker(block::BlockDevice& device, const Layout& layout)
      : device_(device),
        layout_(layout),
        overlap_(std::max<std::uint64_t>(layout.block_bytes, (kHeaderCellsMax - 1) * kCellBytes)) {}

  Result<void> start(std::size_t depth) {
    const std::size_t alignment = std::max<std::size_t>(device_.geometry().memory_alignment, 64);
    const std::size_t stride =
        (ScanPlan::kPieceBytes + overlap_ + alignment - 1) / alignment * alignment;
    LARDER_ASSIGN(memory_, block::AlignedBuffer::create(depth * stride, alignment));
    LARDER_ASSIGN(queue, device_.open_queue(depth));
    for (std::size_t i = 0; i < depth; ++i) {
      buffers.push_back({memory_.span().subspan(i * stride, stride), {}, 0});
      spare.push_back(i);
    }
    return {};
  }
  // A piece with what follows it, for headers that reach over its end.
  std::uint64_t offset_of(std::uint32_t piece) const noexcept {
    return layout_.table_offset() + std::uint64_t{piece} * ScanPlan::kPieceBytes;
  }
  std::uint64_t bytes_of(std::uint32_t piece) const noexcept {
    const std::uint64_t start = std::uint64_t{piece} * ScanPlan::kPieceBytes;
    return std::min<std::uint64_t>(ScanPlan::kPieceBytes + overlap_, layout_.table_bytes() - start);
  }
  // Blocks, one at a time. The queue for that is opened when it is needed first.
  Result<void> read_again(std::uint64_t offset, std::span<std::byte> into) {
    if (!again_) {
      LARDER_ASSIGN(again_, device_.open_queue(1));
    }
    return block::read_all(*again_, offset, into);
  }
  // The cells from `cell` on that a header may have, read once more.
  Result<std::span<const std::byte>> cells_again(std::uint32_t cell) {
    const std::uint64_t block = layout_.block_bytes;
    const std::uint64_t first = cell * kCellBytes / block * block;
    const std::uint64_t end = std::min<std::uint64_t>(
        (cell * kCellBytes + kHeaderCellsMax * kCellBytes + block - 1) / block * block,
        layout_.table_bytes());
    if (small_.size() == 0) {
      LARDER_ASSIGN(small_, block::AlignedBuffer::create(
                                2 * std::max<std::uint64_t>(block, kHeaderCellsMax * kCellBytes),
                                std::max<std::size_t>(device_.geometry().memory_alignment, 64)));
    }
    const auto into = small_.span().first(end - first);
    LARDER_TRY(read_again(layout_.table_offset() + first, into));
    return std::span<const std::byte>(into).subspan(cell * kCellBytes - first);
  }

  std::unique_ptr<block::BlockQueue> queue;
  std::vector<Buffer> buffers;
  std::vector<std::size_t> spare;
  std::vector<std::byte> manifest;
  std::uint32_t unreadable_end = 0;

 private:
  block::BlockDevice& device_;
  const Layout& layout_;
  const std::uint64_t overlap_;
  block::AlignedBuffer memory_;
  block::AlignedBuffer small_;
  std::unique_ptr<block::BlockQueue> again_;
};

}  // namespace larder::extent
