// SPDX-License-Identifier: Apache-2.0
// Writes header cells: reads the blocks they are in, changes the cells, writes the blocks. What
// shares a block is written again as it was, which a torn write cannot harm: a cell is a sector.
// Internal to extent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "block/aligned_buffer.h"
#include "block/block_device.h"
#include "extent/layout.h"
#include "larder/status.h"

namespace larder::extent {

// Bytes for the cells from `cell` on.
struct CellEdit {
  std::uint32_t cell = 0;
  std::vector<std::byte> bytes;
  std::uint32_t slot = 0;  // of the record
  void* put = nullptr;     // of the writer; null: it is a tombstone
  // When the batch is over:
  Result<void> result;
  bool maybe_written = false;  // of one that failed
};

// One thread. Its operations go to a queue of the caller, which hands their ends back.
class HeaderBatch {
 public:
  static constexpr std::size_t kBlocksMax = 64;

  // kExhausted: no memory.
  static Result<HeaderBatch> create(const Layout& layout, const block::Geometry& geometry);

  bool empty() const noexcept { return edits_.empty(); }
  bool running() const noexcept { return phase_ != Phase::kIdle; }
  bool done() const noexcept { return phase_ == Phase::kDone; }
  std::size_t cells() const noexcept { return cells_; }
  bool has_room(std::uint32_t cell, std::uint32_t cells) const noexcept;
  // Of any one header: at most two blocks, or five where a block is a cell.
  bool has_room_anywhere() const noexcept { return blocks_.size() + 5 <= kBlocksMax; }
  // There is room, and it does not run.
  void add(CellEdit edit);
  // Blocks that hold no cell below `written_end` are zeros, and not read. `tag_base` + the number
  // of a block comes back in the results.
  void begin(block::BlockQueue& queue, std::uint32_t written_end, std::uint64_t tag_base,
             const qos::Purpose& purpose);
  void on_done(block::BlockQueue& queue, const block::BlockDone& done);
  // Of one that is done; it can be filled again.
  std::vector<CellEdit> take();

 private:
  enum class Phase : std::uint8_t { kIdle = 0, kReading = 1, kWriting = 2, kDone = 3 };
  struct Block {
    std::uint64_t number = 0;  // within the table
    block::Piece piece;
    Result<void> result;
    bool wrote = false;  // a write of it was begun
    bool wanted = true;
  };

  HeaderBatch(const Layout& layout, block::AlignedBuffer memory)
      : layout_(layout), stride_(memory.size() / kBlocksMax), memory_(std::move(memory)) {}
  std::uint64_t block_of(std::uint32_t cell) const noexcept {
    return cell * kCellBytes / layout_.block_bytes;
  }
  std::size_t index_of(std::uint64_t number) const noexcept;
  void submit(block::BlockQueue& queue, std::size_t index, block::OpKind kind);
  void write(block::BlockQueue& queue);
  void apply(CellEdit& edit);
  void judge(CellEdit& edit) const;

  Layout layout_;
  std::size_t stride_;  // of the blocks in memory_
  block::AlignedBuffer memory_;
  std::vector<CellEdit> edits_;
  std::vector<Block> blocks_;
  std::size_t cells_ = 0;
  std::size_t in_flight_ = 0;
  std::uint64_t tag_base_ = 0;
  qos::Purpose purpose_;
  Phase phase_ = Phase::kIdle;
};

}  // namespace larder::extent
