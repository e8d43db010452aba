// SPDX-License-Identifier: Apache-2.0
// The pieces of a FileQueue: cutting, handing over, and what comes back.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fileio/file_errors.h"
#include "fileio/file_queue.h"

namespace larder::fileio {
namespace {

constexpr unsigned kRetriesMax = 16;
constexpr unsigned kSlotBits = 16;
constexpr std::uint64_t kSlotMask = (std::uint64_t{1} << kSlotBits) - 1;
// One bit less than there is room for: the tag is never the reserved one. At a million pieces a
// second a generation returns after four years.
constexpr std::uint64_t kGenerationMask = (std::uint64_t{1} << (63 - kSlotBits)) - 1;
constexpr std::size_t kSkipsMax = 64;  // operations that wait for others, looked at in one go
constexpr int kReapsMax = 4;           // a backend that only ever makes things up must not hold us

bool is_transient(int error) noexcept {
  return error == EINTR || error == EAGAIN;
}

}  // namespace

bool FileQueue::reading(const Slot& slot) const noexcept {
  return ops_[slot.op].op.kind == FileOpKind::kRead ||
         (slot.piece.way == PieceWay::kRewrite && !slot.writing);
}

// Rewrites are few: a walk over the slots costs less than a table to keep.
bool FileQueue::block_is_held(const Op& op, const Piece& piece) const noexcept {
  if (blocks_held_ == 0) return false;
  return std::any_of(slots_.begin(), slots_.end(), [&](const Slot& other) {
    return other.used && other.holds_block && other.piece.io_offset == piece.io_offset &&
           ops_[other.op].op.file->identity() == op.op.file->identity();
  });
}

bool FileQueue::lease_bounce(Slot& slot) {
  slot.lender = slot.piece.io_bytes <= small_->bytes() ? small_.get() : large_.get();
  slot.bounce = slot.lender->lease();
  return slot.bounce != nullptr;
}

void FileQueue::give_back_bounce(Slot& slot) {
  if (slot.bounce != nullptr) slot.lender->give_back(slot.bounce);
  slot.bounce = nullptr;
}

// Cuts the next piece off an operation into a free slot. False: it has to wait for something that a
// piece in flight holds.
bool FileQueue::cut(std::uint32_t number) {
  Op& op = ops_[number];
  const std::uint32_t index = free_slots_.head;
  Slot& slot = slots_[index];
  const std::uint64_t generation = slot.generation;
  slot = Slot{};
  slot.generation = generation;
  slot.op = number;
  if (op.op.kind != FileOpKind::kFlush) slot.piece = next_piece(op.shape, op.planned);
  const PieceWay way = slot.piece.way;
  if (way == PieceWay::kRewrite && block_is_held(op, slot.piece)) {
    ++stats_.edge_waits;
    return false;
  }
  if ((way == PieceWay::kBounced || way == PieceWay::kRewrite) && !lease_bounce(slot)) return false;
  slot_links_.remove(free_slots_, index);
  slot.used = true;
  slot.holds_block = way == PieceWay::kRewrite;
  blocks_held_ += slot.holds_block ? 1 : 0;
  if (way == PieceWay::kBounced && op.op.kind == FileOpKind::kWrite) {
    // The one copy that memory unfit for the file costs.
    std::memcpy(slot.bounce, op.op.memory + slot.piece.skip, slot.piece.bytes);
  }
  op.planned += slot.piece.bytes;
  ++op.pieces;
  stage(index);
  return true;
}

// Puts what is left of the slot's transfer into the batch.
void FileQueue::stage(std::uint32_t index) {
  Slot& slot = slots_[index];
  const FileOp& op = ops_[slot.op].op;
  slot.generation = (slot.generation + 1) & kGenerationMask;
  slot.asked = slot.piece.io_bytes - slot.at;
  IoOp io;
  io.kind = op.kind == FileOpKind::kFlush ? IoKind::kSync
            : reading(slot)               ? IoKind::kRead
                                          : IoKind::kWrite;
  const bool cached = slot.piece.way == PieceWay::kBuffered || io.kind == IoKind::kSync;
  io.fd = cached ? op.file->buffered_fd() : op.file->fd();
  io.offset = slot.piece.io_offset + slot.at;
  std::byte* base = slot.bounce != nullptr ? slot.bounce : op.memory + slot.piece.skip;
  io.memory = io.kind == IoKind::kSync ? nullptr : base + slot.at;
  io.bytes = slot.asked;
  io.tag = slot.generation << kSlotBits | index;
  batch_.push_back(io);
  slot.in_backend = true;
  ++in_backend_;
}

void FileQueue::stage_again() {
  while (!again_.empty()) {
    const std::uint32_t index = slot_links_.pop_front(again_);
    if (ops_[slots_[index].op].stopped()) {
      drop(index);
    } else {
      stage(index);
    }
  }
}

// One piece of each operation in turn, so that a large one does not keep others waiting.
void FileQueue::stage_new() {
  std::size_t skipped = 0;
  while (!free_slots_.empty() && skipped < std::min(ready_.count, kSkipsMax)) {
    const std::uint32_t number = op_links_.pop_front(ready_);
    Op& op = ops_[number];
    const bool went = cut(number);
    skipped = went ? 0 : skipped + 1;
    if (went && op.planned == op.op.bytes) {
      op.state = OpState::kHandedOut;
    } else {
      op_links_.push_back(ready_, number);
    }
  }
}

void FileQueue::start() {
  if (healthy()) hand_over();
  if (!healthy()) return;
  if (const auto begun = backend_->start(); !begun) break_down(begun.error());
}

void FileQueue::hand_over() {
  batch_.clear();
  stage_again();
  stage_new();
  if (batch_.empty()) return;
  const auto taken = backend_->submit(batch_);
  // After an error any of them may run: all count as in flight until the backend is at rest.
  if (!taken) return break_down(taken.error());
  for (std::size_t i = *taken; i < batch_.size(); ++i) {
    const auto index = static_cast<std::uint32_t>(batch_[i].tag & kSlotMask);
    slots_[index].in_backend = false;
    --in_backend_;
    slot_links_.push_back(again_, index);
  }
}

void FileQueue::reap() {
  for (int round = 0; round < kReapsMax; ++round) {
    const auto got = backend_->poll(done_);
    if (!got) return break_down(got.error());
    for (std::size_t i = 0; i < *got && healthy(); ++i) on_done(done_[i]);
    if (*got < done_.size() || !healthy()) return;
  }
}

void FileQueue::on_done(const IoDone& done) {
  const std::uint64_t index = done.tag & kSlotMask;
  const std::uint64_t generation = done.tag >> kSlotBits;
  if (index >= slots_.size() || !slots_[index].in_backend ||
      slots_[index].generation != generation) {
    ++stats_.stray_completions;
    return;
  }
  Slot& slot = slots_[index];
  if (done.result > static_cast<std::int64_t>(slot.asked)) {
    // Then its other answers cannot be believed either.
    return break_down(Error(Code::kCorrupt, "the backend reports more bytes than were asked for"));
  }
  slot.in_backend = false;
  --in_backend_;
  const auto number = static_cast<std::uint32_t>(index);
  if (done.result < 0) return on_error(number, static_cast<int>(-done.result));
  if (ops_[slot.op].op.kind == FileOpKind::kFlush) {
    ops_[slot.op].flushed = true;
    return drop(number);
  }
  on_bytes(number, static_cast<std::uint32_t>(done.result));
}

void FileQueue::on_error(std::uint32_t index, int error) {
  Slot& slot = slots_[index];
  if (is_transient(error) && slot.retries < kRetriesMax) {
    ++slot.retries;
    ++stats_.retries;
    return again(index);
  }
  stop(slot.op, code_of_errno(error), error, slot.piece.io_offset + slot.at);
  drop(index);
}

void FileQueue::on_bytes(std::uint32_t index, std::uint32_t bytes) {
  Slot& slot = slots_[index];
  const Op& op = ops_[slot.op];
  const std::uint32_t come = slot.at + bytes;
  const bool grew = come > slot.have;
  slot.have = std::max(slot.have, come);
  // A read is done with the caller's bytes, wherever its last block ends.
  const bool read = op.op.kind == FileOpKind::kRead;
  const std::uint32_t goal = read ? slot.piece.lead + slot.piece.bytes : slot.piece.io_bytes;
  if (slot.have >= goal) return on_piece_done(index);
  ++stats_.resumed_shorts;
  if (!grew) return on_no_progress(index, bytes == 0);
  slot.retries = 0;
  // O_DIRECT goes on at a block, so part of one may move twice.
  const bool whole_blocks = slot.piece.way != PieceWay::kBuffered && op.op.file->direct();
  slot.at = whole_blocks ? slot.have - slot.have % op.op.file->offset_alignment() : slot.have;
  again(index);
}

void FileQueue::on_no_progress(std::uint32_t index, bool at_end) {
  Slot& slot = slots_[index];
  if (reading(slot)) {
    // Asking for the size is a system call, on this error path alone.
    const auto size = ops_[slot.op].op.file->size();
    if (at_end || (size && *size <= slot.piece.io_offset + slot.have)) return on_file_end(index);
  }
  if (slot.retries >= kRetriesMax) {
    stop(slot.op, code_of_errno(EIO), EIO, slot.piece.io_offset + slot.have);
    return drop(index);
  }
  ++slot.retries;
  ++stats_.retries;
  again(index);
}

void FileQueue::on_file_end(std::uint32_t index) {
  Slot& slot = slots_[index];
  const Op& op = ops_[slot.op];
  if (op.op.kind == FileOpKind::kWrite) {
    // The block to rewrite lies over the file's end: writing it whole would leave a wrong size. It
    // stays held, so that rewrites of it still wait.
    give_back_bounce(slot);
    slot.piece.way = PieceWay::kBuffered;
    slot.piece.io_offset += slot.piece.lead;
    slot.piece.io_bytes = slot.piece.bytes;
    slot.piece.lead = 0;
    slot.at = slot.have = 0;
    return again(index);
  }
  const auto size = op.op.file->size();
  const std::uint64_t seen = slot.piece.io_offset + slot.have;
  stop(slot.op, Code::kConflict, 0, size ? std::min(*size, seen) : seen);
  drop(index);
}

void FileQueue::on_piece_done(std::uint32_t index) {
  Slot& slot = slots_[index];
  Op& op = ops_[slot.op];
  const Piece& piece = slot.piece;
  const bool read = op.op.kind == FileOpKind::kRead;
  if (piece.way == PieceWay::kRewrite && !slot.writing) {
    std::memcpy(slot.bounce + piece.lead, op.op.memory + piece.skip, piece.bytes);
    slot.writing = true;
    slot.at = slot.have = 0;
    slot.retries = 0;
    return again(index);
  }
  if (piece.way == PieceWay::kBounced && read) {
    // The kernel could not put them there itself.
    std::memcpy(op.op.memory + piece.skip, slot.bounce + piece.lead, piece.bytes);
  }
  if (slot.bounce != nullptr) stats_.bytes_bounced += piece.bytes;
  op.moved += piece.bytes;
  drop(index);
}

void FileQueue::again(std::uint32_t index) {
  if (ops_[slots_[index].op].stopped()) return drop(index);
  slot_links_.push_back(again_, index);
}

void FileQueue::drop(std::uint32_t index) {
  Slot& slot = slots_[index];
  give_back_bounce(slot);
  blocks_held_ -= slot.holds_block ? 1 : 0;
  in_backend_ -= slot.in_backend ? 1 : 0;
  slot.used = slot.in_backend = slot.holds_block = false;
  slot_links_.push_back(free_slots_, index);
  --ops_[slot.op].pieces;
  end_if_done(slot.op);
}

}  // namespace larder::fileio
