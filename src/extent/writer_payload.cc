// SPDX-License-Identifier: Apache-2.0
// The writer's payloads: cut into pieces, and into the queue as the window allows.
#include <algorithm>
#include <cstring>

#include "extent/writer_impl.h"
#include "extent/writer_tags.h"

namespace larder::extent {
void RecordWriter::Impl::submit_payload() {
  while (!queued_.empty() && pieces_ < window_ && !free_ops_.empty()) {
    Put& put = *queued_.front();
    if (!put.error) submit_piece(put);
    if (!put.error && put.next < put.payload.size()) continue;
    writing_.push_back(std::move(queued_.front()));
    queued_.pop_front();
    if (put.in_flight == 0) settle(put);
  }
}

// What the operation writes from: the caller's memory where it is aligned, but for a last part of a
// block; else a copy.
Result<std::size_t> RecordWriter::Impl::aim(std::uint32_t number, const Put& put,
                                            const PayloadPiece& piece) {
  PieceOp& op = ops_[number];
  const std::byte* from = put.payload.data() + piece.at;
  const std::size_t alignment = std::max<std::size_t>(queue_->geometry().memory_alignment, 1);
  if (reinterpret_cast<std::uintptr_t>(from) % alignment != 0) {
    if (op.bounce.size() == 0) {
      LARDER_ASSIGN(op.bounce, block::AlignedBuffer::create(piece_bytes_,
                                                            std::max<std::size_t>(alignment, 64)));
    }
    std::memcpy(op.bounce.data(), from, piece.bytes);
    std::memset(op.bounce.data() + piece.bytes, 0, piece.blocks_bytes - piece.bytes);
    op.pieces[0] = {op.bounce.data(), piece.blocks_bytes};
    return 1;
  }
  const std::size_t body = piece.bytes / layout_.block_bytes * layout_.block_bytes;
  std::size_t count = 0;
  if (body > 0) op.pieces[count++] = block::Piece::from({from, body});
  if (body == piece.bytes) return count;
  std::byte* tail = tails_.data() + number * tail_stride_;
  std::memcpy(tail, from + body, piece.bytes - body);
  std::memset(tail + (piece.bytes - body), 0, layout_.block_bytes - (piece.bytes - body));
  op.pieces[count++] = {tail, layout_.block_bytes};
  return count;
}

void RecordWriter::Impl::submit_piece(Put& put) {
  const std::uint32_t number = free_ops_.back();
  const PayloadPiece piece = piece_at({put.extents.data(), put.extent_count}, put.payload.size(),
                                      put.next, piece_bytes_, layout_.block_bytes);
  const auto count = aim(number, put, piece);
  if (!count) {
    put.error = count.error();
    return;
  }
  auto op = block::BlockOp::write(piece.offset, {ops_[number].pieces.data(), *count},
                                  tag_of(OpRole::kPayload, number));
  op.purpose = put.purpose;
  if (auto taken = queue_->submit(op); !taken) {
    put.error = taken.error();
    return;
  }
  ops_[number].put = &put;
  free_ops_.pop_back();
  put.next += piece.bytes;
  ++put.in_flight;
  ++pieces_;
}

void RecordWriter::Impl::piece_done(std::uint32_t number, const block::BlockDone& done) {
  Put& put = *ops_[number].put;
  free_ops_.push_back(number);
  --put.in_flight;
  --pieces_;
  if (!done.ok() && !put.error) put.error = block::describe(queue_->identity(), done);
  const bool whole = put.error || put.next == put.payload.size();
  if (whole && put.in_flight == 0) settle(put);
}

// Of one in writing_ with nothing in flight. One that failed half-way is moved there later.
void RecordWriter::Impl::settle(Put& put) {
  const auto at = std::find_if(writing_.begin(), writing_.end(),
                               [&](const auto& other) { return other.get() == &put; });
  if (at == writing_.end()) return;
  auto mine = std::move(*at);
  writing_.erase(at);
  if (put.error) {
    Error error = *put.error;
    end(std::move(mine), std::move(error), Header::kNotWritten);
    return;
  }
  payload_bytes_waiting_ += put.payload.size();
  payloads_.push_back(std::move(mine));
}

}  // namespace larder::extent
