// SPDX-License-Identifier: Apache-2.0
// Making an empty store.
#include <algorithm>
#include <cstring>

#include "block/aligned_buffer.h"
#include "block/blocking.h"
#include "extent/layout.h"
#include "extent/record_store.h"
#include "extent/superblock.h"

namespace larder::extent {
namespace {

constexpr std::size_t kZeroBytes = 1U << 20U;

Result<block::AlignedBuffer> zeros(const block::Geometry& g, std::uint64_t bytes) {
  LARDER_ASSIGN(auto memory,
                block::AlignedBuffer::create(bytes, std::max<std::size_t>(g.memory_alignment, 64)));
  std::memset(memory.data(), 0, memory.size());
  return memory;
}

// Whether somebody else's data begins where ours would: a file system, a partition table, a file.
Result<void> check_blank(block::BlockQueue& queue, const std::string& name) {
  const block::Geometry& g = queue.geometry();
  const std::uint64_t bytes =
      std::min<std::uint64_t>(g.bytes(), std::max<std::uint64_t>(g.block_bytes, 128U << 10U));
  LARDER_ASSIGN(auto memory, zeros(g, bytes));
  LARDER_TRY(block::read_all(queue, 0, memory.span()));
  const auto span = memory.span();
  if (std::all_of(span.begin(), span.end(), [](std::byte b) { return b == std::byte{0}; })) {
    return {};
  }
  return fail(Code::kConflict, name +
                                   " is not blank and holds no record store: it may be somebody "
                                   "else's data. If it may go, remove or zero it first");
}

Result<void> check_unused(block::BlockQueue& queue, const std::string& name) {
  LARDER_ASSIGN(const FoundSuperblocks found, read_superblocks(queue));
  for (const SuperblockPage& page : found.pages) {
    if (!page.marked) continue;
    return fail(Code::kAlreadyExists,
                name + " holds a record store" +
                    (page.superblock ? " (" + page.superblock->uuid.to_string() + ")" : "") +
                    "; open it, or remove or zero it first");
  }
  return check_blank(queue, name);
}

Result<void> write_zeros(block::BlockQueue& queue, std::uint64_t offset, std::uint64_t bytes,
                         const block::BlockingOptions& with) {
  const std::uint64_t part =
      std::min<std::uint64_t>({bytes, kZeroBytes, queue.geometry().transfer_max});
  LARDER_ASSIGN(auto memory, zeros(queue.geometry(), part));
  for (std::uint64_t at = 0; at < bytes; at += part) {
    const std::uint64_t now = std::min(part, bytes - at);
    LARDER_TRY(block::write_all(queue, offset + at, memory.span().first(now), with));
  }
  return {};
}

// The table reads as zeros afterwards. A device may say that discarded blocks do, and be asked
// first: it spares a large table's writes. Not in a file: there each first write to a discarded
// block changes the file system's own books, and every flush of headers would wait for its journal.
Result<void> clear(block::BlockQueue& queue, std::uint64_t offset, std::uint64_t bytes,
                   const block::BlockingOptions& with) {
  const block::Geometry& g = queue.geometry();
  const bool quick = queue.identity().kind != "file" && g.discard_bytes > 0 && g.discard_zeroes &&
                     offset % g.discard_bytes == 0 && bytes % g.discard_bytes == 0;
  if (quick && block::discard(queue, offset, bytes, with)) return {};
  return write_zeros(queue, offset, bytes, with);
}

}  // namespace

Result<void> format(block::BlockDevice& device, const FormatOptions& options) {
  LARDER_ASSIGN(const Layout layout, layout_of(device.geometry(), options.record_bytes));
  LARDER_ASSIGN(const auto queue, device.open_queue(1));
  if (!options.force) LARDER_TRY(check_unused(*queue, device.identity().name));
  // The old superblocks go first, so that a formatting that was cut short is not taken for a store.
  const std::uint64_t block = layout.block_bytes;
  const block::BlockingOptions with{.purpose = options.writes};
  LARDER_TRY(write_zeros(*queue, layout.superblock_offset(0), block, with));
  LARDER_TRY(write_zeros(*queue, layout.superblock_offset(1), block, with));
  LARDER_TRY(block::flush(*queue, with));
  LARDER_TRY(clear(*queue, layout.table_offset(), layout.table_bytes(), with));
  LARDER_TRY(block::flush(*queue, with));
  Superblock superblock;
  superblock.uuid = Uuid::random();
  superblock.generation = 1;
  superblock.layout = layout;
  return write_superblocks(*queue, superblock, 1, options.writes);
}

}  // namespace larder::extent
