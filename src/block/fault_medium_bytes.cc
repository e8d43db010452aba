// SPDX-License-Identifier: Apache-2.0
// What becomes of the bytes: cache, device below, loss of power.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "block/fault_medium.h"

namespace larder::block {

BlockDone FaultMedium::carry_out(const Pending& pending) {
  const BlockOp& op = pending.op;
  BlockDone done{op.tag, Code::kOk, 0, op.kind, op.offset, op.bytes(), op.trace_id};
  if (off_) {
    done.code = Code::kUnavailable;
    done.sys_errno = ENODEV;
    return done;
  }
  Result<void> result;
  if (!pending.fails) {
    result = carry_out_well(op);
  } else {
    ++counts_.errors;
    done.code = pending.no_space ? Code::kExhausted : Code::kUnavailable;
    done.sys_errno = pending.no_space ? ENOSPC : EIO;
    if (writes(op.kind)) result = change_in_part(op);
    if (op.kind == OpKind::kFlush) {
      result = keep_a_part(cache_.changes(), CutKind::kAny);
      cache_.clear();
    }
  }
  if (!result) done.code = result.error().code();
  return done;
}

Result<void> FaultMedium::carry_out_well(const BlockOp& op) {
  if (op.kind == OpKind::kRead) return read(op);
  if (op.kind != OpKind::kFlush) return change(op);
  if (!chance(options_.lying_flush)) return flush();
  ++counts_.lies;
  return {};
}

Result<void> FaultMedium::read(const BlockOp& op) {
  std::uint64_t offset = op.offset;
  for (const Piece& piece : op.pieces) {
    const std::span<std::byte> memory(piece.data, piece.bytes);
    LARDER_TRY(read_all(*below_, offset, memory));
    cache_.patch(offset, memory);
    offset += piece.bytes;
  }
  if (!chance(options_.misread)) return {};
  const Piece& piece = op.pieces[random_() % op.pieces.size()];
  piece.data[random_() % piece.bytes] ^= static_cast<std::byte>(1U << random_() % 8);
  ++counts_.misread;
  return {};
}

Result<Change> FaultMedium::change_of(const BlockOp& op) {
  Change change;
  change.offset = op.offset;
  change.bytes = op.bytes();
  if (op.kind != OpKind::kWrite) return change;
  LARDER_ASSIGN(change.data, AlignedBuffer::create(change.bytes, alignment()));
  std::byte* to = change.data.data();
  for (const Piece& piece : op.pieces) {
    std::memcpy(to, piece.data, piece.bytes);
    to += piece.bytes;
  }
  return change;
}

Result<void> FaultMedium::change(const BlockOp& op) {
  if (writes(op.kind) && chance(options_.lost_write)) {
    ++counts_.lost;
    return {};
  }
  LARDER_ASSIGN(Change change, change_of(op));
  if (op.kind == OpKind::kWrite && chance(options_.rot)) {
    change.data.data()[random_() % change.bytes] ^= static_cast<std::byte>(1U << random_() % 8);
    ++counts_.rotten;
  }
  cache_.add(std::move(change));
  return cache_.bytes() > options_.cache_bytes_max ? carry_down() : Result<void>();
}

Result<void> FaultMedium::change_in_part(const BlockOp& op) {
  const std::uint32_t sector = below_->geometry().sector_bytes;
  LARDER_ASSIGN(Change change, change_of(op));
  const std::uint64_t sectors = change.bytes / sector;
  const std::uint64_t written = random_() % (sectors + 1);
  if (written == 0) return {};
  counts_.torn += written < sectors ? 1 : 0;
  change.bytes = written * sector;
  cache_.add(std::move(change));
  return {};
}

Result<void> FaultMedium::flush() {
  LARDER_TRY(carry_down());
  return block::flush(*below_);
}

// To the device below: sectors, of which a block may be touched in part. No data: zeros.
Result<void> FaultMedium::put(std::uint64_t offset, std::uint64_t bytes, const std::byte* data) {
  const std::uint64_t block = below_->geometry().block_bytes;
  constexpr std::uint64_t kPart = 1U << 20U;  // a discard may be of the whole device
  const std::uint64_t end = offset + bytes;
  for (std::uint64_t at = offset; at < end;) {
    const std::uint64_t next = std::min(end, (at / kPart + 1) * kPart);
    const std::uint64_t first = at / block * block;
    const std::uint64_t last = (next + block - 1) / block * block;
    LARDER_ASSIGN(auto memory, AlignedBuffer::create(last - first, alignment()));
    if (first != at || last != next) LARDER_TRY(read_all(*below_, first, memory.span()));
    std::byte* to = memory.data() + (at - first);
    if (data != nullptr) {
      std::memcpy(to, data + (at - offset), next - at);
    } else {
      std::memset(to, 0, next - at);
    }
    LARDER_TRY(write_all(*below_, first, memory.span()));
    at = next;
  }
  return {};
}

Result<void> FaultMedium::carry_down() {
  for (const Change& change : cache_.changes()) {
    LARDER_TRY(put(change.offset, change.bytes, change.zeros() ? nullptr : change.data.data()));
  }
  cache_.clear();
  return {};
}

Result<void> FaultMedium::keep_a_part(std::span<const Change> changes, CutKind kind) {
  const std::uint32_t sector = below_->geometry().sector_bytes;
  for (const Survivor& one : survivors_of(changes, sector, kind, random_)) {
    const Change& change = changes[one.change];
    const std::uint64_t skip = one.first * sector;
    LARDER_TRY(put(change.offset + skip, one.count * sector,
                   change.zeros() ? nullptr : change.data.data() + skip));
  }
  return block::flush(*below_);
}

// What is in flight may be on the medium, too, in any order after what has ended.
Result<void> FaultMedium::cut(CutKind kind) {
  std::vector<const BlockOp*> flying;
  for (const Lane* lane : lanes_) {
    for (const Pending& pending : lane->pending) {
      if (changes(pending.op.kind)) flying.push_back(&pending.op);
    }
  }
  std::shuffle(flying.begin(), flying.end(), random_);
  for (const BlockOp* op : flying) {
    LARDER_ASSIGN(Change change, change_of(*op));
    cache_.add(std::move(change));
  }
  const auto kept = keep_a_part(cache_.changes(), kind);
  cache_.clear();
  off_ = true;
  books_->health().fail("the power was cut");
  changed_.notify_all();
  return kept;
}

}  // namespace larder::block
