// SPDX-License-Identifier: Apache-2.0
#include "block/block_types.h"

#include <bit>

namespace larder::block {
namespace {

tl::unexpected<Error> refuse(const BlockOp& op, const std::string& why) {
  return fail(Code::kInvalidArgument, std::string("block ") + op_name(op.kind) + " at byte " +
                                          std::to_string(op.offset) + ": " + why);
}

bool is_multiple(std::uint64_t value, std::uint32_t power_of_two) noexcept {
  return (value & (power_of_two - 1)) == 0;
}

Result<void> check_range(const Geometry& geometry, const BlockOp& op, std::uint64_t bytes) {
  const std::string unit = std::to_string(geometry.block_bytes);
  if (!is_multiple(op.offset, geometry.block_bytes)) {
    return refuse(op, "the offset is no multiple of the block of " + unit + " bytes");
  }
  if (bytes == 0 || !is_multiple(bytes, geometry.block_bytes)) {
    return refuse(op, "the length is no multiple of the block of " + unit + " bytes, or zero");
  }
  if (op.offset > geometry.bytes() || bytes > geometry.bytes() - op.offset) {
    return refuse(op, std::to_string(bytes) + " bytes reach beyond the end of the device at " +
                          std::to_string(geometry.bytes()));
  }
  return {};
}

Result<void> check_pieces(const Geometry& geometry, const BlockOp& op) {
  if (op.pieces.empty() || op.pieces.size() > kPiecesMax) {
    return refuse(op, "it needs 1 to " + std::to_string(kPiecesMax) + " pieces of memory");
  }
  std::uint64_t sum = 0;
  for (const Piece& piece : op.pieces) {
    const auto address = reinterpret_cast<std::uintptr_t>(piece.data);
    if (piece.data == nullptr || piece.bytes == 0) return refuse(op, "a piece without memory");
    if (!is_multiple(address, geometry.memory_alignment)) {
      return refuse(op, "memory does not begin at a multiple of " +
                            std::to_string(geometry.memory_alignment));
    }
    if (!is_multiple(piece.bytes, geometry.block_bytes)) {
      return refuse(op, "a piece is no multiple of the block of " +
                            std::to_string(geometry.block_bytes) + " bytes");
    }
    if (piece.bytes > geometry.transfer_max - sum) {
      return fail(Code::kTooLarge, "a block device moves at most " +
                                       std::to_string(geometry.transfer_max) +
                                       " bytes at once; split it");
    }
    sum += piece.bytes;
  }
  return check_range(geometry, op, sum);
}

Result<void> check_zeroes(const Geometry& geometry, const BlockOp& op) {
  if (geometry.zeroes_max == 0) {
    return fail(Code::kUnsupported,
                "this block device writes no zeroes by itself; write them from memory");
  }
  if (op.range_bytes <= geometry.zeroes_max) return {};
  return fail(Code::kTooLarge, "a block device writes zeroes to at most " +
                                   std::to_string(geometry.zeroes_max) +
                                   " bytes at once; split it");
}

}  // namespace

std::uint64_t BlockOp::bytes() const noexcept {
  if (kind == OpKind::kDiscard || kind == OpKind::kWriteZeroes) return range_bytes;
  std::uint64_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.bytes;
  return sum;
}

const char* op_name(OpKind kind) noexcept {
  switch (kind) {
    case OpKind::kRead:
      return "read";
    case OpKind::kWrite:
      return "write";
    case OpKind::kFlush:
      return "flush";
    case OpKind::kDiscard:
      return "discard";
    case OpKind::kWriteZeroes:
      return "write_zeroes";
  }
  return "unknown";
}

Result<void> check(const Geometry& geometry, const BlockOp& op) {
  const bool moves = op.kind == OpKind::kRead || op.kind == OpKind::kWrite;
  if (!moves && !op.pieces.empty()) return refuse(op, "it takes no memory");
  const bool ranged = op.kind == OpKind::kDiscard || op.kind == OpKind::kWriteZeroes;
  if (!ranged && op.range_bytes != 0) {
    return refuse(op, "range_bytes is for discards and writes of zeroes");
  }
  switch (op.kind) {
    case OpKind::kRead:
    case OpKind::kWrite:
      return check_pieces(geometry, op);
    case OpKind::kFlush:
      if (op.offset != 0) return refuse(op, "a flush is of the whole device, at offset 0");
      return {};
    case OpKind::kDiscard:
      if (geometry.discard_bytes == 0) {
        return fail(Code::kUnsupported, "this block device cannot discard; overwrite instead");
      }
      return check_range(geometry, op, op.range_bytes);
    case OpKind::kWriteZeroes:
      LARDER_TRY(check_zeroes(geometry, op));
      return check_range(geometry, op, op.range_bytes);
  }
  return refuse(op, "no such kind of operation");
}

Result<void> check(const Geometry& g) {
  const bool powers = std::has_single_bit(g.block_bytes) && std::has_single_bit(g.sector_bytes) &&
                      std::has_single_bit(g.memory_alignment);
  const bool sizes = powers && g.block_bytes >= 512 && g.block_bytes <= kBlockBytesMax &&
                     g.sector_bytes <= g.block_bytes && g.memory_alignment <= kBlockBytesMax &&
                     g.transfer_max >= g.block_bytes && g.blocks > 0 &&
                     is_multiple(g.transfer_max, g.block_bytes) &&
                     is_multiple(g.transfer_max, g.memory_alignment) &&
                     is_multiple(g.zeroes_max, g.block_bytes) &&
                     g.blocks <= std::numeric_limits<std::int64_t>::max() / g.block_bytes;
  if (sizes) return {};
  return fail(
      Code::kInvalidArgument,
      "a block device needs blocks of 512 to 65536 bytes, sectors no larger than them, an "
      "alignment of at most 65536 (all powers of two), transfers and zeroes in whole blocks, and "
      "at least one block within 2^63 bytes");
}

}  // namespace larder::block
