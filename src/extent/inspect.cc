// SPDX-License-Identifier: Apache-2.0
#include "extent/inspect.h"

#include <algorithm>

#include "base/checksum.h"
#include "block/aligned_buffer.h"
#include "block/blocking.h"
#include "env/clock.h"
#include "extent/payload_pieces.h"
#include "extent/record_header.h"
#include "extent/superblock.h"

namespace larder::extent {
namespace {

constexpr std::uint64_t kReadBytes = 1U << 20U;

SuperblockReport report_of(const FoundSuperblocks& found, std::size_t copy) {
  const SuperblockPage& page = found.pages[copy];
  SuperblockReport out;
  out.offset = found.offsets[copy];
  out.version = page.version;
  if (!page.superblock) {
    out.error = page.superblock.error().message();
    return out;
  }
  const Superblock& s = *page.superblock;
  out.uuid = s.uuid;
  out.generation = s.generation;
  out.clean = s.clean;
  out.epoch = s.epoch;
  out.owner = s.owner;
  out.device_bytes = s.layout.device_bytes();
  out.block_bytes = s.layout.block_bytes;
  out.cells = s.layout.cells;
  out.data_offset = s.layout.data_offset;
  out.data_bytes = s.layout.data_bytes;
  return out;
}

// Walks the table in order, as one that has time: the blocks one after the other.
class Walk {
 public:
  Walk(block::BlockQueue& queue, const Superblock& superblock, const InspectOptions& options,
       InspectReport& report)
      : queue_(queue),
        uuid_(superblock.uuid),
        layout_(superblock.layout),
        options_(options),
        report_(report) {}

  Result<void> run() {
    const std::size_t alignment = std::max<std::size_t>(queue_.geometry().memory_alignment, 64);
    const std::uint64_t overlap =
        std::max<std::uint64_t>(layout_.block_bytes, kHeaderCellsMax * kCellBytes);
    LARDER_ASSIGN(memory_, block::AlignedBuffer::create(kReadBytes + overlap, alignment));
    LARDER_ASSIGN(payload_, block::AlignedBuffer::create(kReadBytes, alignment));
    const env::Nanos start = env::monotonic_now();
    for (std::uint64_t at = 0; at < layout_.table_bytes() && !over(at); at += kReadBytes) {
      const auto bytes =
          memory_.span().first(std::min(kReadBytes + overlap, layout_.table_bytes() - at));
      LARDER_TRY(block::read_all(queue_, layout_.table_offset() + at, bytes));
      report_.bytes_read += bytes.size();
      LARDER_TRY(look(at, bytes));
    }
    report_.scan_nanos = env::monotonic_now() - start;
    count_overlaps();
    return {};
  }

 private:
  bool over(std::uint64_t at) const noexcept {
    return stopped_ || at >= (std::uint64_t{end_} + kCellWindow) * kCellBytes;
  }

  Result<void> look(std::uint64_t at, std::span<const std::byte> bytes) {
    const std::uint64_t own = std::min<std::uint64_t>(kReadBytes, bytes.size());
    for (std::uint64_t i = 0; i < own && !stopped_;) {
      const auto cell = static_cast<std::uint32_t>((at + i) / kCellBytes);
      const CellKind kind = kind_of(bytes.subspan(i, kCellBytes));
      std::uint32_t count = 1;
      if (kind == CellKind::kHead) {
        LARDER_ASSIGN(count, record(cell, bytes.subspan(i)));
      } else if (kind == CellKind::kTombstone &&
                 decode_tombstone(uuid_, layout_, cell, bytes.subspan(i))) {
        ++report_.tombstones;
      } else if (kind == CellKind::kTombstone || kind == CellKind::kGarbage) {
        damage(cell, "neither a header nor a tombstone");
      }
      if (kind != CellKind::kZero) end_ = std::max(end_, cell + count);
      i += count * kCellBytes;
      report_.cells_seen = std::max<std::uint64_t>(report_.cells_seen, cell + count);
    }
    return {};
  }

  void damage(std::uint32_t cell, const std::string& what) {
    ++report_.damaged_headers;
    if (options_.damage) options_.damage(cell, what);
  }

  Result<std::uint32_t> record(std::uint32_t cell, std::span<const std::byte> cells) {
    const auto header = decode_header(uuid_, layout_, cell, cells, manifest_);
    if (!header) {
      damage(cell, header.error().message());
      return 1U;
    }
    auto manifest = decode(header->manifest);
    if (!manifest) {
      damage(cell, manifest.error().message());
      return header->cells;
    }
    RecordInfo info{header->id(),
                    header->sequence,
                    header->cells,
                    header->payload_bytes,
                    header->payload_checksum,
                    header->extents,
                    std::move(*manifest),
                    {}};
    ++report_.records;
    report_.payload_bytes += info.payload_bytes;
    report_.stored_bytes += layout_.stored_bytes(info.payload_bytes);
    for (const Extent& extent : info.extents) used_.push_back(extent);
    if (options_.verify_payloads) LARDER_TRY(verify(info));
    if (options_.record && !options_.record(info)) stopped_ = true;
    return header->cells;
  }

  Result<void> verify(RecordInfo& info) {
    Checksum64 sum;
    for (std::uint64_t at = 0; at < info.payload_bytes;) {
      const PayloadPiece piece =
          piece_at(info.extents, info.payload_bytes, at, payload_.size(), layout_.block_bytes);
      const auto into = payload_.span().first(piece.blocks_bytes);
      const auto read = block::read_all(queue_, piece.offset, into);
      if (!read && queue_.in_flight() > 0) return fail(read.error());
      if (!read) {
        info.payload_good = false;
        ++report_.damaged_payloads;
        return {};
      }
      sum.update(into.first(piece.bytes));
      at += piece.bytes;
    }
    info.payload_good = sum.digest() == info.checksum;
    report_.damaged_payloads += *info.payload_good ? 0 : 1;
    return {};
  }

  void count_overlaps() {
    std::sort(used_.begin(), used_.end(),
              [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
    for (std::size_t i = 1; i < used_.size(); ++i) {
      if (used_[i - 1].offset + used_[i - 1].bytes > used_[i].offset) ++report_.overlapping;
    }
  }

  block::BlockQueue& queue_;
  const Uuid uuid_;
  const Layout layout_;
  const InspectOptions& options_;
  InspectReport& report_;
  block::AlignedBuffer memory_;
  block::AlignedBuffer payload_;
  std::vector<std::byte> manifest_;
  std::vector<Extent> used_;
  std::uint32_t end_ = 0;
  bool stopped_ = false;
};

}  // namespace

bool InspectReport::good() const noexcept {
  const bool pages = std::all_of(superblocks.begin(), superblocks.end(),
                                 [](const SuperblockReport& s) { return s.error.empty(); });
  return pages && damaged_headers == 0 && damaged_payloads == 0 && overlapping == 0;
}

Result<void> inspect(block::BlockDevice& device, const InspectOptions& options,
                     InspectReport& report) {
  LARDER_ASSIGN(const auto queue, device.open_queue(1));
  LARDER_ASSIGN(const FoundSuperblocks found, read_superblocks(*queue));
  report = {};
  for (std::size_t copy = 0; copy < 2; ++copy) {
    report.superblocks.push_back(report_of(found, copy));
  }
  std::uint64_t damaged = 0;
  LARDER_ASSIGN(const Superblock chosen,
                choose(found, device.geometry(), device.identity().name, damaged));
  return Walk(*queue, chosen, options, report).run();
}

}  // namespace larder::extent
