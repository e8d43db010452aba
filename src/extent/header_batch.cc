// SPDX-License-Identifier: Apache-2.0
#include "extent/header_batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace larder::extent {

Result<HeaderBatch> HeaderBatch::create(const Layout& layout, const block::Geometry& geometry) {
  const std::size_t alignment = std::max<std::size_t>(geometry.memory_alignment, 64);
  const std::size_t stride = std::max<std::size_t>(layout.block_bytes, alignment);
  LARDER_ASSIGN(auto memory, block::AlignedBuffer::create(kBlocksMax * stride, alignment));
  return HeaderBatch(layout, std::move(memory));
}

std::size_t HeaderBatch::index_of(std::uint64_t number) const noexcept {
  std::size_t i = 0;
  while (i < blocks_.size() && blocks_[i].number != number) ++i;
  return i;
}

bool HeaderBatch::has_room(std::uint32_t cell, std::uint32_t cells) const noexcept {
  std::size_t more = 0;
  for (std::uint64_t b = block_of(cell); b <= block_of(cell + cells - 1); ++b) {
    more += index_of(b) == blocks_.size() ? 1 : 0;
  }
  return blocks_.size() + more <= kBlocksMax;
}

void HeaderBatch::add(CellEdit edit) {
  const auto cells = static_cast<std::uint32_t>(edit.bytes.size() / kCellBytes);
  for (std::uint64_t b = block_of(edit.cell); b <= block_of(edit.cell + cells - 1); ++b) {
    if (index_of(b) < blocks_.size()) continue;
    std::byte* memory = memory_.data() + blocks_.size() * stride_;
    blocks_.push_back({b, {memory, layout_.block_bytes}, {}, false, false});
  }
  cells_ += cells;
  edits_.push_back(std::move(edit));
}

// Ends the operation at once where the device refuses it.
void HeaderBatch::submit(block::BlockQueue& queue, std::size_t index, block::OpKind kind) {
  Block& block = blocks_[index];
  block::BlockOp op;
  op.kind = kind;
  op.offset = layout_.table_offset() + block.number * layout_.block_bytes;
  op.pieces = {&block.piece, 1};
  op.tag = tag_base_ + index;
  op.purpose = purpose_;
  block.result = queue.submit(op);
  if (!block.result) return;
  block.wrote = kind == block::OpKind::kWrite;
  ++in_flight_;
}

void HeaderBatch::begin(block::BlockQueue& queue, std::uint32_t written_end, std::uint64_t tag_base,
                        const qos::Purpose& purpose) {
  phase_ = Phase::kReading;
  tag_base_ = tag_base;
  purpose_ = purpose;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].number * layout_.block_bytes >= written_end * kCellBytes) {
      std::memset(blocks_[i].piece.data, 0, blocks_[i].piece.bytes);
    } else {
      submit(queue, i, block::OpKind::kRead);
    }
  }
  if (in_flight_ == 0) write(queue);
}

void HeaderBatch::apply(CellEdit& edit) {
  const std::uint64_t from = edit.cell * kCellBytes;
  for (std::uint64_t at = 0; at < edit.bytes.size(); at += kCellBytes) {
    const std::uint64_t offset = from + at;
    Block& block = blocks_[index_of(offset / layout_.block_bytes)];
    std::memcpy(block.piece.data + offset % layout_.block_bytes, edit.bytes.data() + at,
                kCellBytes);
    block.wanted = true;
  }
}

void HeaderBatch::judge(CellEdit& edit) const {
  const std::uint64_t last =
      block_of(static_cast<std::uint32_t>(edit.cell + edit.bytes.size() / kCellBytes - 1));
  for (std::uint64_t b = block_of(edit.cell); b <= last; ++b) {
    const Block& block = blocks_[index_of(b)];
    if (!block.result && edit.result) edit.result = block.result;
    edit.maybe_written |= block.wrote;
  }
}

// A block that could not be read is not written: that would erase what it holds besides.
void HeaderBatch::write(block::BlockQueue& queue) {
  phase_ = Phase::kWriting;
  for (CellEdit& edit : edits_) {
    judge(edit);
    if (edit.result) apply(edit);
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].wanted && blocks_[i].result) submit(queue, i, block::OpKind::kWrite);
  }
  if (in_flight_ == 0) phase_ = Phase::kDone;
}

void HeaderBatch::on_done(block::BlockQueue& queue, const block::BlockDone& done) {
  --in_flight_;
  Block& block = blocks_[done.tag - tag_base_];
  if (!done.ok()) block.result = fail(block::describe(queue.identity(), done));
  if (in_flight_ > 0) return;
  if (phase_ == Phase::kReading) {
    write(queue);
  } else {
    phase_ = Phase::kDone;
  }
}

std::vector<CellEdit> HeaderBatch::take() {
  for (CellEdit& edit : edits_) {
    if (edit.result) judge(edit);
  }
  std::vector<CellEdit> out = std::move(edits_);
  edits_.clear();
  blocks_.clear();
  cells_ = 0;
  phase_ = Phase::kIdle;
  return out;
}

}  // namespace larder::extent
