// SPDX-License-Identifier: Apache-2.0
// What RecordReader is made of. Internal to extent.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/checksum.h"
#include "block/aligned_buffer.h"
#include "extent/payload_pieces.h"
#include "extent/record_reader.h"
#include "extent/wake_flag.h"

namespace larder::extent {

class RecordReader::Impl {
 public:
  Impl(RecordStore& store, const ReaderOptions& options);
  ~Impl();
  Result<void> start(block::BlockDevice& device);

  Result<void> read(Pin&& pin, std::span<std::byte> into, std::uint64_t checksum, std::uint64_t tag,
                    qos::Purpose purpose);
  std::size_t poll(std::span<ReadDone> into);
  std::size_t wait(std::span<ReadDone> into, env::Nanos deadline);
  void wake() noexcept;
  std::size_t under_way() const noexcept { return reads_.size() + ended_.size(); }

 private:
  struct Part {
    std::uint64_t at = 0;  // within the payload
    std::uint64_t bytes = 0;
    bool there = false;
  };
  struct Read {
    Pin pin;
    std::span<std::byte> into;
    std::uint64_t checksum = 0;
    std::uint64_t tag = 0;
    qos::Purpose purpose;
    std::uint64_t next = 0;  // bytes that were submitted
    std::size_t in_flight = 0;
    std::deque<Part> parts;  // submitted and not hashed, in order
    std::optional<Error> error;
    Checksum64 sum;

    bool submitted() const noexcept { return error || next == pin.payload_bytes(); }
  };
  struct PieceOp {
    Read* read = nullptr;
    Part* part = nullptr;
    std::array<block::Piece, 2> pieces;
    std::span<std::byte> to;          // where a copy goes
    const std::byte* from = nullptr;  // null: nothing is to be copied
    block::AlignedBuffer bounce;      // made when first needed
  };

  void pump();
  void collect(std::span<const block::BlockDone> done);
  void submit_all();
  void submit_piece(Read& read);
  Result<std::size_t> aim(std::uint32_t number, Read& read, const PayloadPiece& piece);
  void piece_done(const block::BlockDone& done);
  bool hash_one();
  void end_those_done();
  std::size_t give(std::span<ReadDone> into);

  RecordStore& store_;
  const ReaderOptions options_;
  const std::uint64_t block_bytes_;
  std::uint64_t piece_bytes_ = 0;
  std::vector<PieceOp> ops_;
  std::vector<std::uint32_t> free_ops_;
  block::AlignedBuffer tails_;
  std::size_t tail_stride_ = 0;
  std::deque<std::unique_ptr<Read>> reads_;  // oldest first
  std::size_t unsent_ = 0;                   // the first of them that is not wholly submitted
  std::deque<ReadDone> ended_;
  WakeFlag wake_;
  std::unique_ptr<block::BlockQueue> queue_;  // ends before the memory above
};

}  // namespace larder::extent
