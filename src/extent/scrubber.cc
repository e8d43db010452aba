// SPDX-License-Identifier: Apache-2.0
#include "extent/scrubber.h"

#include <algorithm>

#include "base/checksum.h"
#include "block/blocking.h"
#include "extent/layout.h"
#include "extent/payload_pieces.h"
#include "extent/record_header.h"
#include "extent/superblock.h"

namespace larder::extent {

// One record whose payload is being read.
struct Scrubber::Job {
  Pin pin;
  std::uint64_t checksum = 0;
  std::uint64_t next = 0;  // bytes of payload that were read
  Checksum64 sum;
};

Scrubber::Scrubber(RecordStore& store, Report report) : store_(store), report_(std::move(report)) {}
Scrubber::~Scrubber() = default;

Result<std::unique_ptr<Scrubber>> Scrubber::create(RecordStore& store, Report report,
                                                   std::size_t piece_bytes) {
  const block::Geometry& g = store.device().geometry();
  const std::size_t alignment = std::max<std::size_t>(g.memory_alignment, 64);
  const std::uint64_t most = std::min<std::uint64_t>(piece_bytes, g.transfer_max);
  const std::uint64_t piece = std::max<std::uint64_t>(most / g.block_bytes, 1) * g.block_bytes;
  std::unique_ptr<Scrubber> out(new Scrubber(store, std::move(report)));
  LARDER_ASSIGN(out->queue_, store.device().open_queue(1));
  LARDER_ASSIGN(out->piece_, block::AlignedBuffer::create(piece, alignment));
  LARDER_ASSIGN(
      out->header_,
      block::AlignedBuffer::create(
          2 * std::max<std::uint64_t>(g.block_bytes, kHeaderCellsMax * kCellBytes), alignment));
  return out;
}

Result<bool> Scrubber::step(std::uint64_t bytes_max) {
  std::uint64_t read = 0;
  do {
    if (!job_) {
      LARDER_ASSIGN(const bool there, begin(read));
      if (!there) return true;
    }
    if (job_) LARDER_TRY(go_on(bytes_max, read));
  } while (read < bytes_max);
  return false;
}

// False: there is no further record, and the next round begins.
Result<bool> Scrubber::begin(std::uint64_t& read) {
  auto pin = store_.next_from(cell_);
  if (!pin) {
    cell_ = 0;
    ++stats_.rounds;
    return false;
  }
  job_ = std::make_unique<Job>();
  job_->pin = std::move(*pin);
  const std::uint32_t cell = job_->pin.id().cell;
  cell_ = cell + 1;
  const Layout& layout = store_.superblock_->layout;
  const std::uint64_t block = layout.block_bytes;
  const std::uint64_t first = cell * kCellBytes / block * block;
  const std::uint64_t end = std::min<std::uint64_t>(
      ((cell + kHeaderCellsMax) * kCellBytes + block - 1) / block * block, layout.table_bytes());
  const auto into = header_.span().first(end - first);
  read += into.size();
  if (auto got = block::read_all(*queue_, layout.table_offset() + first, into); !got) {
    finish(Fault::kUnreadable);
    if (store_.device().health().state == block::HealthState::kFailed) return fail(got.error());
    return true;
  }
  std::vector<std::byte> manifest;
  const auto header =
      decode_header(store_.uuid(), layout, cell, into.subspan(cell * kCellBytes - first), manifest);
  if (!header || header->id() != job_->pin.id()) {
    finish(Fault::kHeader);
    return true;
  }
  job_->checksum = header->payload_checksum;
  return true;
}

Result<void> Scrubber::go_on(std::uint64_t bytes_max, std::uint64_t& read) {
  do {
    const PayloadPiece piece = piece_at(job_->pin.extents(), job_->pin.payload_bytes(), job_->next,
                                        piece_.size(), store_.device().geometry().block_bytes);
    const auto into = piece_.span().first(piece.blocks_bytes);
    read += into.size();
    if (auto got = block::read_all(*queue_, piece.offset, into); !got) {
      finish(Fault::kUnreadable);
      if (store_.device().health().state == block::HealthState::kFailed) return fail(got.error());
      return {};
    }
    stats_.bytes += piece.bytes;
    job_->sum.update(into.first(piece.bytes));
    job_->next += piece.bytes;
    if (job_->next < job_->pin.payload_bytes()) continue;
    const bool good = job_->sum.digest() == job_->checksum;
    if (!good) store_.note_damaged_payload();
    finish(good ? std::nullopt : std::optional<Fault>(Fault::kPayload));
    return {};
  } while (read < bytes_max);
  return {};
}

void Scrubber::finish(std::optional<Fault> fault) {
  const RecordId id = job_->pin.id();
  job_.reset();
  ++stats_.records;
  if (!fault) return;
  ++stats_.bad;
  if (report_) report_(id, *fault);
}

}  // namespace larder::extent
