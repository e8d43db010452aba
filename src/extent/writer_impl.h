// SPDX-License-Identifier: Apache-2.0
// What RecordWriter is made of. Internal to extent.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "block/aligned_buffer.h"
#include "extent/header_batch.h"
#include "extent/payload_pieces.h"
#include "extent/record_table.h"
#include "extent/record_writer.h"
#include "extent/superblock.h"
#include "extent/wake_flag.h"

namespace larder::extent {

// A put goes through these lists:
//   queued_     not all pieces of its payload were submitted
//   writing_    they were, and have not all ended
//   payloads_   written; waits for a flush (payloads_flushing_: the flush is under way)
//   ready_      payload durable; waits for a batch of headers (then it is in batch_)
//   headers_    header written; waits for a flush (headers_flushing_)
// and a release through
//   (the table's releases) -> batch_ -> tombs_ -> tombs_flushing_
class RecordWriter::Impl {
 public:
  Impl(RecordStore& store, const WriterOptions& options, HeaderBatch batch);
  ~Impl();
  Result<void> start(block::BlockDevice& device);

  Result<void> put(Reservation&& reservation, std::span<const std::byte> payload,
                   const Manifest& manifest, std::uint64_t tag, qos::Purpose purpose);
  Result<void> release(RecordId id, std::uint64_t tag);
  std::size_t poll(std::span<WriteDone> into);
  std::size_t wait(std::span<WriteDone> into, env::Nanos deadline);
  void wake() noexcept;
  void set_window(std::size_t pieces) noexcept;
  bool idle() const;
  std::size_t under_way() const noexcept { return under_way_; }
  std::uint64_t flushes() const noexcept { return flushes_; }

 private:
  struct Put {
    Reservation reservation;
    std::span<const std::byte> payload;
    std::vector<std::byte> manifest;
    std::uint64_t checksum = 0;
    std::uint64_t tag = 0;
    qos::Purpose purpose;
    std::array<Extent, kExtentsMax> extents;
    std::uint32_t extent_count = 0;
    std::uint64_t next = 0;  // bytes of payload that were submitted
    std::size_t in_flight = 0;
    std::optional<Error> error;
    RecordId id;
    std::uint32_t cells = 0;
  };
  struct PieceOp {
    Put* put = nullptr;
    std::array<block::Piece, 2> pieces;
    block::AlignedBuffer bounce;  // made when first needed
  };

  using Puts = std::deque<std::unique_ptr<Put>>;

  std::uint32_t slot_of(const Put& put) const noexcept { return put.reservation.slot_; }
  void pump();
  bool releases_waiting() const;
  void handle(const block::BlockDone& done);
  // Payload.
  void submit_payload();
  void submit_piece(Put& put);
  Result<std::size_t> aim(std::uint32_t number, const Put& put, const PayloadPiece& piece);
  void piece_done(std::uint32_t number, const block::BlockDone& done);
  void settle(Put& put);
  // Headers.
  void maybe_begin_batch();
  bool add_header(Put& put);
  void add_headers();
  void add_tombstones();
  void end_batch();
  void end_header(CellEdit& edit, std::unique_ptr<Put> put);
  void end_tombstone(CellEdit& edit);
  // Flushes.
  bool flush_is_due() const;
  void maybe_flush();
  void flush_done(const block::BlockDone& done);
  void flush_succeeded();
  void flush_failed(const Error& error);
  void report_release(std::uint32_t slot, Result<void> result);
  // Ends. What became of the header decides what becomes of the space.
  enum class Header : std::uint8_t { kNotWritten = 0, kCellsUnusable = 1, kMaybeWritten = 2 };
  void succeed(std::unique_ptr<Put> put);
  void end(std::unique_ptr<Put> put, Error error, Header header);
  std::size_t give(std::span<WriteDone> into);

  RecordStore& store_;
  const WriterOptions options_;
  const Layout layout_;
  std::uint64_t piece_bytes_ = 0;
  std::size_t window_ = 0;
  HeaderBatch batch_;
  std::vector<PieceOp> ops_;
  std::vector<std::uint32_t> free_ops_;
  block::AlignedBuffer tails_;  // a block for each operation
  std::size_t tail_stride_ = 0;
  std::size_t pieces_ = 0;  // in flight
  Puts queued_;
  Puts writing_;
  Puts payloads_, payloads_flushing_;
  Puts ready_;
  Puts in_batch_;
  Puts no_cells_;  // are about to end
  Puts headers_, headers_flushing_;
  std::vector<std::uint32_t> tombs_, tombs_flushing_;              // slots
  std::unordered_map<std::uint32_t, std::uint64_t> release_tags_;  // by slot
  std::deque<WriteDone> ended_;
  std::size_t under_way_ = 0;
  std::uint64_t bytes_under_way_ = 0;
  std::uint64_t payload_bytes_waiting_ = 0;  // of payloads_
  std::size_t unflushed_cells_ = 0;
  std::size_t flushing_cells_ = 0;
  // Cells that were given out and may hold zeros for good, for I/O errors: they count as not
  // flushed.
  std::size_t lost_cells_ = 0;
  std::uint64_t flushes_ = 0;
  bool flushing_ = false;
  bool registered_ = false;  // this is the store's writer
  WakeFlag wake_;
  std::unique_ptr<block::BlockQueue> queue_;  // ends before the memory above
};

}  // namespace larder::extent
