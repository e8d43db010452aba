// SPDX-License-Identifier: Apache-2.0
// Where the parts of a payload lie on the device. Internal to extent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "extent/record_store.h"

namespace larder::extent {

// One part that lies in one piece on the device.
struct PayloadPiece {
  std::uint64_t at = 0;            // within the payload
  std::uint64_t offset = 0;        // on the device
  std::uint64_t bytes = 0;         // of payload
  std::uint64_t blocks_bytes = 0;  // the same up to the end of its last block
};

// The piece that begins at `at`, a multiple of the block, of at most `bytes_max`, another multiple.
// `at` is within the payload, which the extents hold.
inline PayloadPiece piece_at(std::span<const Extent> extents, std::uint64_t payload_bytes,
                             std::uint64_t at, std::uint64_t bytes_max,
                             std::uint64_t block_bytes) noexcept {
  std::uint64_t skip = at;
  std::size_t i = 0;
  while (i + 1 < extents.size() && skip >= extents[i].bytes) skip -= extents[i++].bytes;
  PayloadPiece out;
  out.at = at;
  out.offset = extents[i].offset + skip;
  out.bytes = std::min({payload_bytes - at, extents[i].bytes - skip, bytes_max});
  out.blocks_bytes = (out.bytes + block_bytes - 1) / block_bytes * block_bytes;
  return out;
}

}  // namespace larder::extent
