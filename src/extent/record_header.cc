// SPDX-License-Identifier: Apache-2.0
#include "extent/record_header.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes.h"
#include "base/checksum.h"

namespace larder::extent {
namespace {

constexpr std::uint32_t kHeadMagic = 0x4852524C;          // "LRRH"
constexpr std::uint32_t kContinuationMagic = 0x4352524C;  // "LRRC"
constexpr std::uint32_t kTombstoneMagic = 0x5452524C;     // "LRRT"
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kHeadBytes = 40;          // before the body
constexpr std::size_t kContinuationBytes = 16;  // the same of the other cells
constexpr std::size_t kHeadBody = kCellBytes - kHeadBytes;
constexpr std::size_t kContinuationBody = kCellBytes - kContinuationBytes;
constexpr std::size_t kExtentBytes = 16;
constexpr std::size_t kCrcAt = 4;

static_assert(kHeadBody + (kHeaderCellsMax - 1) * kContinuationBody >=
              kExtentsMax * kExtentBytes + kManifestBytesMax);

tl::unexpected<Error> corrupt(std::uint32_t cell, const char* what) {
  return fail(Code::kCorrupt, "header cell " + std::to_string(cell) + ": " + what);
}

std::uint32_t crc_of(const Uuid& uuid, std::uint64_t offset,
                     std::span<const std::byte> cells) noexcept {
  std::array<std::byte, 24> seed{};
  std::memcpy(seed.data(), uuid.bytes.data(), uuid.bytes.size());
  store_le(seed.data() + 16, offset);
  const std::array<std::byte, 4> zeros{};
  std::uint32_t crc = crc32c(seed);
  crc = crc32c(cells.first(kCrcAt), crc);
  crc = crc32c(zeros, crc);
  return crc32c(cells.subspan(kCrcAt + zeros.size()), crc);
}

// Body bytes of cell number `index` of a header.
std::span<std::byte> body_of(std::span<std::byte> cells, std::size_t index) noexcept {
  const std::size_t skip = index == 0 ? kHeadBytes : kContinuationBytes;
  return cells.subspan(index * kCellBytes + skip, kCellBytes - skip);
}
std::span<const std::byte> body_of(std::span<const std::byte> cells, std::size_t index) noexcept {
  const std::size_t skip = index == 0 ? kHeadBytes : kContinuationBytes;
  return cells.subspan(index * kCellBytes + skip, kCellBytes - skip);
}

Result<void> check_continuations(std::uint32_t cell, std::span<const std::byte> cells,
                                 std::uint64_t sequence) {
  for (std::size_t i = 1; i * kCellBytes < cells.size(); ++i) {
    const std::byte* at = cells.data() + i * kCellBytes;
    const bool good = load_le<std::uint32_t>(at) == kContinuationMagic &&
                      load_le<std::uint32_t>(at + 4) == i &&
                      load_le<std::uint64_t>(at + 8) == sequence;
    if (!good) return corrupt(cell, "a cell of another record in it");
  }
  return {};
}

Result<void> check_extents(const Layout& layout, const RecordHeader& h) {
  std::uint64_t sum = 0;
  for (const Extent& e : h.extents) {
    const bool inside = e.bytes > 0 && e.offset >= layout.data_offset &&
                        e.offset % layout.unit() == 0 && e.bytes % layout.unit() == 0 &&
                        e.bytes <= layout.data_bytes &&
                        e.offset - layout.data_offset <= layout.data_bytes - e.bytes;
    if (!inside) return corrupt(h.cell, "an extent outside of the data");
    sum += e.bytes;
    for (const Extent& other : h.extents) {
      if (&other == &e) break;
      if (e.offset < other.offset + other.bytes && other.offset < e.offset + e.bytes) {
        return corrupt(h.cell, "extents that overlap");
      }
    }
  }
  if (h.payload_bytes == 0 || h.payload_bytes > sum ||
      layout.stored_bytes(h.payload_bytes) != sum) {
    return corrupt(h.cell, "extents that do not fit the payload");
  }
  return {};
}

void put_body(std::span<std::byte> cells, std::span<const std::byte> body) {
  for (std::size_t i = 0; !body.empty(); ++i) {
    const auto to = body_of(cells, i);
    const std::size_t part = std::min(to.size(), body.size());
    std::memcpy(to.data(), body.data(), part);
    body = body.subspan(part);
  }
}

}  // namespace

std::uint32_t cells_for(std::size_t extents, std::size_t manifest_bytes) noexcept {
  const std::size_t body = extents * kExtentBytes + manifest_bytes;
  if (body <= kHeadBody) return 1;
  return static_cast<std::uint32_t>(1 +
                                    (body - kHeadBody + kContinuationBody - 1) / kContinuationBody);
}

std::vector<std::byte> encode(const Uuid& uuid, const Layout& layout, const RecordHeader& h) {
  std::vector<std::byte> out(h.cells * kCellBytes);
  std::byte* at = out.data();
  store_le(at, kHeadMagic);
  store_le(at + 8, kVersion);
  store_le(at + 9, static_cast<std::uint8_t>(h.cells));
  store_le(at + 10, static_cast<std::uint8_t>(h.extents.size()));
  store_le(at + 12, static_cast<std::uint16_t>(h.manifest.size()));
  store_le(at + 16, h.sequence);
  store_le(at + 24, h.payload_bytes);
  store_le(at + 32, h.payload_checksum);
  for (std::uint32_t i = 1; i < h.cells; ++i) {
    store_le(at + i * kCellBytes, kContinuationMagic);
    store_le(at + i * kCellBytes + 4, i);
    store_le(at + i * kCellBytes + 8, h.sequence);
  }
  std::vector<std::byte> body(h.extents.size() * kExtentBytes);
  for (std::size_t i = 0; i < h.extents.size(); ++i) {
    store_le(body.data() + i * kExtentBytes, h.extents[i].offset / layout.block_bytes);
    store_le(body.data() + i * kExtentBytes + 8, h.extents[i].bytes / layout.block_bytes);
  }
  body.insert(body.end(), h.manifest.begin(), h.manifest.end());
  put_body(out, body);
  store_le(at + kCrcAt, crc_of(uuid, layout.cell_offset(h.cell), out));
  return out;
}

std::vector<std::byte> encode_tombstone(const Uuid& uuid, const Layout& layout, std::uint32_t cell,
                                        std::uint64_t sequence) {
  std::vector<std::byte> out(kCellBytes);
  store_le(out.data(), kTombstoneMagic);
  store_le(out.data() + 8, kVersion);
  store_le(out.data() + 16, sequence);
  store_le(out.data() + kCrcAt, crc_of(uuid, layout.cell_offset(cell), out));
  return out;
}

CellKind kind_of(std::span<const std::byte> cell) noexcept {
  switch (load_le<std::uint32_t>(cell.data())) {
    case kHeadMagic:
      return CellKind::kHead;
    case kContinuationMagic:
      return CellKind::kContinuation;
    case kTombstoneMagic:
      return CellKind::kTombstone;
    default:
      break;
  }
  for (std::size_t i = 0; i < kCellBytes; i += 8) {
    if (load_le<std::uint64_t>(cell.data() + i) != 0) return CellKind::kGarbage;
  }
  return CellKind::kZero;
}

Result<RecordHeader> decode_header(const Uuid& uuid, const Layout& layout, std::uint32_t cell,
                                   std::span<const std::byte> cells,
                                   std::vector<std::byte>& manifest) {
  if (cells.size() < kCellBytes || cell >= layout.cells) return corrupt(cell, "cut short");
  const std::byte* at = cells.data();
  if (load_le<std::uint32_t>(at) != kHeadMagic) return corrupt(cell, "no header");
  RecordHeader h;
  h.cell = cell;
  h.cells = load_le<std::uint8_t>(at + 9);
  if (h.cells == 0 || h.cells > kHeaderCellsMax || h.cells > layout.cells - cell ||
      h.cells * kCellBytes > cells.size()) {
    return corrupt(cell, "a count of cells that cannot be");
  }
  cells = cells.first(h.cells * kCellBytes);
  if (load_le<std::uint32_t>(at + kCrcAt) != crc_of(uuid, layout.cell_offset(cell), cells)) {
    return corrupt(cell, "its CRC is wrong");
  }
  const auto version = load_le<std::uint8_t>(at + 8);
  if (version > kVersion) {
    return fail(Code::kVersionMismatch, "header cell " + std::to_string(cell) +
                                            " was written by a newer program; use that one");
  }
  const std::size_t extents = load_le<std::uint8_t>(at + 10);
  const std::size_t manifest_bytes = load_le<std::uint16_t>(at + 12);
  h.sequence = load_le<std::uint64_t>(at + 16);
  h.payload_bytes = load_le<std::uint64_t>(at + 24);
  h.payload_checksum = load_le<std::uint64_t>(at + 32);
  const bool counts = version == kVersion && extents >= 1 && extents <= kExtentsMax &&
                      manifest_bytes <= kManifestBytesMax && h.id().generation != 0 &&
                      at[11] == std::byte{0} && load_le<std::uint16_t>(at + 14) == 0 &&
                      cells_for(extents, manifest_bytes) == h.cells;
  if (!counts) return corrupt(cell, "numbers that cannot be");
  LARDER_TRY(check_continuations(cell, cells, h.sequence));
  // The first cell has all extents: 8 * 16 bytes of its body.
  for (std::size_t i = 0; i < extents; ++i) {
    const std::byte* e = at + kHeadBytes + i * kExtentBytes;
    const auto block = load_le<std::uint64_t>(e);
    const auto blocks = load_le<std::uint64_t>(e + 8);
    if (block > layout.device_blocks || blocks > layout.device_blocks) {
      return corrupt(cell, "an extent outside of the device");
    }
    h.extents.push_back({block * layout.block_bytes, blocks * layout.block_bytes});
  }
  LARDER_TRY(check_extents(layout, h));
  manifest.clear();
  std::size_t skip = extents * kExtentBytes;
  for (std::size_t i = 0; i < h.cells; ++i) {
    const auto body = body_of(cells, i).subspan(skip);
    const std::size_t part = std::min(body.size(), manifest_bytes - manifest.size());
    manifest.insert(manifest.end(), body.begin(), body.begin() + static_cast<std::ptrdiff_t>(part));
    skip = 0;
  }
  h.manifest = manifest;
  return h;
}

Result<std::uint64_t> decode_tombstone(const Uuid& uuid, const Layout& layout, std::uint32_t cell,
                                       std::span<const std::byte> bytes) {
  const bool good = bytes.size() >= kCellBytes &&
                    load_le<std::uint32_t>(bytes.data()) == kTombstoneMagic &&
                    load_le<std::uint32_t>(bytes.data() + kCrcAt) ==
                        crc_of(uuid, layout.cell_offset(cell), bytes.first(kCellBytes));
  if (!good) return corrupt(cell, "a rotten tombstone");
  return load_le<std::uint64_t>(bytes.data() + 16);
}

}  // namespace larder::extent
