// SPDX-License-Identifier: Apache-2.0
// What a block device is made of, and what its queues take and give back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "env/clock.h"
#include "larder/status.h"
#include "qos/managed.h"

namespace larder::block {

inline constexpr env::Nanos kNoDeadline = std::numeric_limits<env::Nanos>::max();
inline constexpr std::size_t kDepthMax = 1024;   // operations of one queue
inline constexpr std::size_t kPiecesMax = 64;    // of one operation
inline constexpr std::size_t kQueuesMax = 1024;  // of one device
inline constexpr std::uint32_t kBlockBytesMax = 64U << 10U;

// Fixed while a device is open. Sizes in bytes; those of blocks and alignments are powers of two.
struct Geometry {
  // Offsets, and the length of every piece of memory, are multiples of this.
  std::uint32_t block_bytes = 4096;
  // Every piece of memory begins at a multiple of this.
  std::uint32_t memory_alignment = 4096;
  // What a loss of power cannot tear: after it, each of these units, counted from the start of the
  // device, holds what one write put there, whole. Divides block_bytes; may be less.
  std::uint32_t sector_bytes = 512;
  std::uint64_t blocks = 0;
  std::uint64_t transfer_max = 0;   // the most one read or write moves
  std::uint32_t optimal_bytes = 0;  // transfers from here on are as fast as any
  std::uint32_t discard_bytes = 0;  // what is freed comes in these; 0: the device cannot discard
  std::uint64_t zeroes_max = 0;     // the most one write of zeroes covers; 0: it has none
  bool discard_zeroes = false;      // discarded blocks read as zeros until they are written
  bool volatile_cache = true;       // false: a write that has completed is durable without a flush

  std::uint64_t bytes() const noexcept { return blocks * block_bytes; }
};

// What can be known of a device from outside; what must be certain is written on it.
struct Identity {
  std::string kind;  // "memory", "file", "disk", ...
  std::string name;  // for people: its path, say
  // The same for the same medium as long as it is there, different for others at the same time.
  std::string id;
};

enum class OpKind : std::uint8_t {
  kRead = 0,
  kWrite = 1,
  // Every write, write of zeroes and discard that had completed (been given back by poll() or
  // wait(), on any queue of the device) when this was submitted is durable when this has completed.
  kFlush = 2,
  // The blocks are no longer needed. Reads of them return zeros (Geometry::discard_zeroes), else
  // zeros or what they held; never what belongs to others.
  kDiscard = 3,
  // A write of zeros, in all that a write is: the range reads as zeros afterwards, is durable after
  // a flush, and may need space. Only no memory is moved.
  kWriteZeroes = 4,
};
inline constexpr std::size_t kOpKindCount = 5;

// Whether it leaves other bytes than were there, which a flush then makes durable.
constexpr bool changes(OpKind kind) noexcept {
  return kind == OpKind::kWrite || kind == OpKind::kDiscard || kind == OpKind::kWriteZeroes;
}

// Memory that is read into or written from.
struct Piece {
  std::byte* data = nullptr;  // of a write only read from
  std::size_t bytes = 0;

  static Piece from(std::span<const std::byte> memory) noexcept {
    // Reads and writes share one struct down to the kernel, which keeps its promise.
    return {const_cast<std::byte*>(memory.data()), memory.size()};
  }
};

// One operation. The list of pieces and their memory stay as they are until it has ended.
struct BlockOp {
  OpKind kind = OpKind::kRead;
  std::uint64_t offset = 0;       // bytes from the start of the device; of a flush 0
  std::span<const Piece> pieces;  // of reads and writes: 1 to kPiecesMax, in order
  std::uint64_t range_bytes = 0;  // of discards and writes of zeroes
  std::uint64_t tag = 0;          // comes back in BlockDone; need not be unique
  qos::Purpose purpose;           // why the bytes move
  std::uint64_t trace_id = 0;

  static BlockOp read(std::uint64_t offset, std::span<const Piece> into,
                      std::uint64_t tag = 0) noexcept {
    return {OpKind::kRead, offset, into, 0, tag, {}, 0};
  }
  static BlockOp write(std::uint64_t offset, std::span<const Piece> from,
                       std::uint64_t tag = 0) noexcept {
    return {OpKind::kWrite, offset, from, 0, tag, {}, 0};
  }
  static BlockOp flush(std::uint64_t tag = 0) noexcept {
    return {OpKind::kFlush, 0, {}, 0, tag, {}, 0};
  }
  static BlockOp discard(std::uint64_t offset, std::uint64_t bytes,
                         std::uint64_t tag = 0) noexcept {
    return {OpKind::kDiscard, offset, {}, bytes, tag, {}, 0};
  }
  static BlockOp write_zeroes(std::uint64_t offset, std::uint64_t bytes,
                              std::uint64_t tag = 0) noexcept {
    return {OpKind::kWriteZeroes, offset, {}, bytes, tag, {}, 0};
  }
  // What it moves, discards or zeroes.
  std::uint64_t bytes() const noexcept;
};

// The end of one operation: nothing touches its memory any more.
struct BlockDone {
  std::uint64_t tag = 0;
  // kOk: all of it. Else any part may have been moved, and of a write each sector holds old or new:
  //   kUnavailable  the device fails, or has failed
  //   kExhausted    there is no space behind it (a file that was not reserved)
  //   kConflict     what is behind it was changed by others: truncated, say
  //   kCancelled    quiesce() stopped it
  //   kUnsupported  of discards and writes of zeroes: what is behind it has none after all, as
  //                 remote targets find out late; a device may do so though its geometry says else
  Code code = Code::kOk;
  int sys_errno = 0;  // 0: none is known
  OpKind kind = OpKind::kRead;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // that were asked for
  std::uint64_t trace_id = 0;

  bool ok() const noexcept { return code == Code::kOk; }
};

// "read", "write", "flush", "discard", "write_zeroes"; "unknown" for numbers that are none of
// these.
const char* op_name(OpKind kind) noexcept;

// Whether a device of this geometry takes the operation; nothing has moved when it does not.
//   kInvalidArgument  the kind, alignment of offset, lengths or memory, no pieces or too many, a
//                     piece without memory, a range beyond the end
//   kTooLarge         more than transfer_max, or zeroes_max
//   kUnsupported      a discard or a write of zeroes, and the device has none
Result<void> check(const Geometry& geometry, const BlockOp& op);

// Whether the numbers make sense together; for who builds a device. kInvalidArgument.
Result<void> check(const Geometry& geometry);

}  // namespace larder::block
