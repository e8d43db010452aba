// SPDX-License-Identifier: Apache-2.0
// The scan of the header table. Internal to extent; RecordStore::recover() says what it promises.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "block/aligned_buffer.h"
#include "block/block_device.h"
#include "extent/record_header.h"
#include "extent/record_table.h"

namespace larder::extent {

// Hands out pieces of the table, in order, and knows when there is nothing more: when all pieces
// are back and kCellWindow cells of zeros follow the last one that is not. Any thread.
class ScanPlan {
 public:
  static constexpr std::uint32_t kPieceBytes = 64U << 10U;

  // `ahead`: pieces that may be read beyond the cells known to be needed.
  ScanPlan(const Layout& layout, std::size_t ahead);

  enum class Answer : std::uint8_t { kPiece = 0, kWait = 1, kOver = 2 };
  // kWait: only the pieces that are under way can tell; with `may_sleep` it waits for one.
  Answer next(std::uint32_t& piece, bool may_sleep);
  // `end`: the cell after the last one in it that is not zeros; 0: there is none.
  void done(std::uint32_t end);
  void stop(Error error);  // the first one counts
  std::optional<Error> error() const;

  std::uint32_t first_cell(std::uint32_t piece) const noexcept { return piece * cells_a_piece_; }
  std::uint32_t cells_of(std::uint32_t piece) const noexcept;
  std::uint64_t cells_seen() const;
  std::uint32_t end() const;

 private:
  const std::uint32_t cells_;
  const std::uint32_t cells_a_piece_;
  const std::uint32_t pieces_;
  const std::size_t ahead_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::uint32_t next_ = 0;
  std::uint32_t under_way_ = 0;
  std::uint32_t end_ = 0;
  std::optional<Error> error_;
};

class Recovery {
 public:
  Recovery(RecordStore& store, const RecoverOptions& options, const RecordStore::Visit& visit);
  Result<RecoveryReport> run();

 private:
  struct Buffer {
    std::span<std::byte> memory;
    block::Piece piece;
    std::uint32_t number = 0;  // of the piece of the table
  };
  class Worker;

  void work();
  Result<void> scan(Worker& worker);
  void look(Worker& worker, std::uint32_t piece, std::span<const std::byte> cells);
  std::uint32_t look_at(Worker& worker, std::uint32_t cell, std::span<const std::byte> cells);
  std::uint32_t head(Worker& worker, std::uint32_t cell, std::span<const std::byte> cells);
  void found(const RecordHeader& header);
  void damaged(std::uint32_t cell);
  void unreadable(Worker& worker, std::uint32_t piece, std::span<std::byte> memory);
  Result<void> build(RecoveryReport& report);
  Result<std::size_t> drop_overlapping(std::vector<RecordTable::Range>& ranges);
  std::uint64_t sequence_of(std::uint32_t slot);

  RecordStore& store_;
  const RecoverOptions options_;
  const RecordStore::Visit& visit_;
  const Layout layout_;
  ScanPlan plan_;
  std::atomic<std::uint64_t> kept_{0};
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<std::uint64_t> bytes_read_{0};
  std::atomic<std::uint64_t> payload_bytes_{0};
};

}  // namespace larder::extent
