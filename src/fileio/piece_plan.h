// SPDX-License-Identifier: Apache-2.0
// How an operation of any alignment and length is cut into pieces that the kernel takes. Pure
// arithmetic: no I/O, no memory.
#pragma once

#include <cstdint>

namespace larder::fileio {

// How a piece travels.
enum class PieceWay : std::uint8_t {
  kStraight = 0,  // between the file and the caller's memory
  kBounced = 1,   // between the file and bounce memory, in whole blocks; the CPU copies
  kBuffered = 2,  // a write through the page cache, from the caller's memory, byte for byte
  kRewrite = 3,   // a write of part of one block: read it, change it in bounce memory, write it
};

// What the plan depends on. All sizes in bytes.
struct PieceShape {
  bool write = false;
  bool direct = false;             // without it every piece goes straight
  bool rewrites_edges = false;     // else edges of writes are kBuffered
  std::uint64_t offset = 0;        // in the file
  std::uint64_t bytes = 0;         // at least 1
  std::uintptr_t memory = 0;       // address
  std::uint32_t memory_align = 1;  // powers of two; at most `unit`
  std::uint32_t unit = 1;          // of offsets and lengths: File::offset_alignment() of a read,
                                   // write_unit() of a write
  std::uint32_t piece_max = 0;     // a multiple of unit
  std::uint32_t bounce_small = 0;  // the two sizes of bounce memory: multiples of unit
  std::uint32_t bounce_large = 0;
};

// Bytes [skip, skip + bytes) of the caller's range, moved by a transfer of io_bytes at io_offset,
// which begins `lead` bytes before them. Unless bounced, lead is 0 and io_bytes = bytes.
struct Piece {
  PieceWay way = PieceWay::kStraight;
  std::uint64_t skip = 0;
  std::uint32_t bytes = 0;
  std::uint64_t io_offset = 0;
  std::uint32_t io_bytes = 0;
  std::uint32_t lead = 0;
};

// Whether direct transfers of the middle can use the caller's memory. If not, all is bounced.
bool memory_fits(const PieceShape& shape) noexcept;

// The piece after the first `planned` bytes; planned < shape.bytes. Pieces follow each other
// without gap or overlap, so a plan is done when their bytes add up.
Piece next_piece(const PieceShape& shape, std::uint64_t planned) noexcept;

}  // namespace larder::fileio
