// SPDX-License-Identifier: Apache-2.0
// What a disk may hold: superblock, header cells, tombstones and manifests. What is accepted can
// be, and is written again as the same bytes. The CRC is put right first where the input asks for
// that, so that what is behind it is reached.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"
#include "extent/record_header.h"
#include "extent/superblock.h"
#include "tests/fuzz/fuzz_input.h"

using larder::fuzz::bytes_of;
using larder::fuzz::FuzzInput;
using larder::fuzz::require;
namespace extent = larder::extent;

namespace {

void superblock(FuzzInput& input, bool mend) {
  std::array<std::byte, extent::kSuperblockBytes> page{};
  const std::string_view bytes = input.take(page.size());
  if (!bytes.empty()) std::memcpy(page.data(), bytes.data(), bytes.size());
  if (mend) {
    std::memset(page.data() + 12, 0, 4);
    larder::store_le(page.data() + 12, larder::crc32c(page));
  }
  for (const std::size_t copy : {0U, 1U}) {
    const auto got = extent::decode_superblock(page, copy);
    if (!got.superblock) continue;
    require(extent::check(got.superblock->layout).has_value(), "the layout can be");
    require(extent::encode(*got.superblock, copy) == page, "a superblock is written as it was");
  }
}

void manifest(std::span<const std::byte> bytes) {
  const auto got = extent::decode(bytes);
  if (!got) return;
  const auto again = extent::encode(*got);
  require(again.has_value(), "a manifest that was read can be written");
  require(std::ranges::equal(*again, bytes), "as it was");
}

void header(FuzzInput& input, bool mend) {
  const auto layout = extent::layout_of({.blocks = 4096}, 4096);
  require(layout.has_value(), "a layout");
  extent::Uuid uuid;
  uuid.bytes[3] = std::byte{9};
  const auto cell = static_cast<std::uint32_t>(input.below_or(layout->cells - 1));
  std::vector<std::byte> cells(extent::kHeaderCellsMax * extent::kCellBytes);
  const std::string_view bytes = input.take(cells.size());
  if (!bytes.empty()) std::memcpy(cells.data(), bytes.data(), bytes.size());
  const auto count = std::clamp<std::size_t>(std::to_integer<std::size_t>(cells[9]), 1, 5);
  if (mend) {
    std::array<std::byte, 24> seed{};
    std::memcpy(seed.data(), uuid.bytes.data(), uuid.bytes.size());
    larder::store_le(seed.data() + 16, layout->cell_offset(cell));
    std::memset(cells.data() + 4, 0, 4);
    const std::size_t whole = extent::kind_of(cells) == extent::CellKind::kTombstone ? 1 : count;
    const auto part = std::span(cells).first(whole * extent::kCellBytes);
    larder::store_le(cells.data() + 4, larder::crc32c(part, larder::crc32c(seed)));
  }
  std::vector<std::byte> body;
  const auto got = extent::decode_header(uuid, *layout, cell, cells, body);
  if (got) {
    require(got->cells == count && got->manifest.size() <= extent::kManifestBytesMax, "bounds");
    std::uint64_t sum = 0;
    for (const auto& e : got->extents) {
      require(e.offset >= layout->data_offset &&
                  e.offset + e.bytes <= layout->data_offset + layout->data_bytes,
              "extents are within the data");
      sum += e.bytes;
    }
    require(sum == layout->stored_bytes(got->payload_bytes), "and hold the payload");
    manifest(got->manifest);
  }
  (void)extent::decode_tombstone(uuid, *layout, cell, cells);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  const std::uint8_t what = input.byte();
  const bool mend = (what & 0x80U) != 0;
  switch (what % 3) {
    case 0:
      superblock(input, mend);
      break;
    case 1:
      header(input, mend);
      break;
    default:
      manifest(bytes_of(input.rest()));
  }
  return 0;
}
