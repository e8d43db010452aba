// SPDX-License-Identifier: Apache-2.0
// The header of a record: one to five cells of the table. It counts only when its CRC, which is
// seeded with the device's uuid and the header's place, is right over all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "extent/layout.h"
#include "extent/manifest.h"
#include "extent/record_id.h"
#include "extent/record_store.h"
#include "extent/uuid.h"
#include "larder/status.h"

namespace larder::extent {

inline constexpr std::size_t kHeaderCellsMax = 5;

struct RecordHeader {
  std::uint32_t cell = 0;  // the first
  std::uint32_t cells = 1;
  std::uint64_t sequence = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t payload_checksum = 0;  // XXH3-64
  std::vector<Extent> extents;
  std::span<const std::byte> manifest;  // encoded; within what was decoded or will be encoded

  RecordId id() const noexcept { return {cell, static_cast<std::uint32_t>(sequence & 0xFFFFFFU)}; }
};

// Cells for that many extents and bytes of manifest.
std::uint32_t cells_for(std::size_t extents, std::size_t manifest_bytes) noexcept;

// header.cells * kCellBytes bytes. The header is valid.
std::vector<std::byte> encode(const Uuid& uuid, const Layout& layout, const RecordHeader& header);

// One cell that says: what was here is gone. `sequence`: the highest that the store has given out.
std::vector<std::byte> encode_tombstone(const Uuid& uuid, const Layout& layout, std::uint32_t cell,
                                        std::uint64_t sequence);

enum class CellKind : std::uint8_t {
  kZero = 0,  // never written
  kHead = 1,
  kContinuation = 2,
  kTombstone = 3,
  kGarbage = 4,
};
// By how it begins; nothing is verified.
CellKind kind_of(std::span<const std::byte> cell) noexcept;

// `cells`: from the first cell of the header, at least that one, to as many as there are. The
// manifest, of which only the length is looked at, is put together in `manifest`.
//   kCorrupt          torn, rotten, or from another place or device
//   kVersionMismatch  whole, and of a newer program
Result<RecordHeader> decode_header(const Uuid& uuid, const Layout& layout, std::uint32_t cell,
                                   std::span<const std::byte> cells,
                                   std::vector<std::byte>& manifest);
// The sequence in it. kCorrupt.
Result<std::uint64_t> decode_tombstone(const Uuid& uuid, const Layout& layout, std::uint32_t cell,
                                       std::span<const std::byte> bytes);

}  // namespace larder::extent
