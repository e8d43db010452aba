// SPDX-License-Identifier: Apache-2.0
#include "extent/recovery_worker.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "extent/superblock.h"

namespace larder::extent {
namespace {

bool all_zero(std::span<const std::byte> bytes) noexcept {
  // Compared with itself, shifted by one.
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

Recovery::Recovery(RecordStore& store, const RecoverOptions& options,
                   const RecordStore::Visit& visit)
    : store_(store),
      options_(options),
      visit_(visit),
      layout_(store.superblock_->layout),
      plan_(layout_, options.queues * options.depth) {}

void Recovery::work() {
  Worker worker(store_.device(), layout_);
  auto result = worker.start(options_.depth);
  if (result) result = scan(worker);
  if (!result) plan_.stop(result.error());
  while (worker.queue && !worker.queue->quiesce(env::monotonic_now() + env::kSecond)) {
  }
}

Result<void> Recovery::scan(Worker& worker) {
  for (;;) {
    if (options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed)) {
      return fail(Code::kCancelled, "the recovery was stopped");
    }
    std::uint32_t piece = 0;
    auto answer = ScanPlan::Answer::kWait;
    while (!worker.spare.empty() && (answer = plan_.next(piece, worker.queue->in_flight() == 0)) ==
                                        ScanPlan::Answer::kPiece) {
      const std::size_t index = worker.spare.back();
      worker.spare.pop_back();
      Buffer& buffer = worker.buffers[index];
      buffer.number = piece;
      buffer.piece = {buffer.memory.data(), worker.bytes_of(piece)};
      LARDER_TRY(worker.queue->submit(
          block::BlockOp::read(worker.offset_of(piece), {&buffer.piece, 1}, index)));
    }
    if (worker.queue->in_flight() == 0) return {};  // over
    block::BlockDone done;
    if (worker.queue->wait({&done, 1}, block::kNoDeadline) == 0) continue;
    Buffer& buffer = worker.buffers[done.tag];
    const auto bytes = buffer.memory.first(buffer.piece.bytes);
    bytes_read_.fetch_add(bytes.size(), std::memory_order_relaxed);
    worker.unreadable_end = 0;
    if (!done.ok()) {
      if (store_.device().health().state == block::HealthState::kFailed) {
        return fail(block::describe(store_.device().identity(), done));
      }
      unreadable(worker, buffer.number, bytes);
    }
    look(worker, buffer.number, bytes);
    worker.spare.push_back(done.tag);
  }
}

// Block by block, so that one bad one costs no more than itself.
void Recovery::unreadable(Worker& worker, std::uint32_t piece, std::span<std::byte> memory) {
  const std::uint64_t block = layout_.block_bytes;
  const auto per_block = static_cast<std::uint32_t>(block / kCellBytes);
  for (std::uint64_t at = 0; at < memory.size(); at += block) {
    const auto part = memory.subspan(at, block);
    if (worker.read_again(worker.offset_of(piece) + at, part)) continue;
    std::memset(part.data(), 0, part.size());
    if (at >= ScanPlan::kPieceBytes) continue;  // the next piece will find it
    const auto cell = plan_.first_cell(piece) + static_cast<std::uint32_t>(at / kCellBytes);
    const std::uint32_t count = std::min(per_block, layout_.cells - cell);
    worker.unreadable_end = cell + count;
    const std::lock_guard lock(store_.mutex_);
    store_.table_->adopt_unreadable(cell, count);
  }
}

void Recovery::look(Worker& worker, std::uint32_t piece, std::span<const std::byte> bytes) {
  const std::uint32_t first = plan_.first_cell(piece);
  const std::uint32_t count = plan_.cells_of(piece);
  std::uint32_t end = worker.unreadable_end;
  if (!all_zero(bytes.first(count * kCellBytes))) {
    for (std::uint32_t i = 0; i < count;) {
      const auto cells = bytes.subspan(i * kCellBytes);
      if (kind_of(cells.first(kCellBytes)) == CellKind::kZero) {
        ++i;
        continue;
      }
      i += look_at(worker, first + i, cells);
      end = std::max(end, first + i);
    }
  }
  plan_.done(end);
}

// How many cells it is.
std::uint32_t Recovery::look_at(Worker& worker, std::uint32_t cell,
                                std::span<const std::byte> cells) {
  if (kind_of(cells.first(kCellBytes)) == CellKind::kContinuation) return 1;
  std::uint32_t count = head(worker, cell, cells);
  if (count == 0) {
    // What was read wrong once may be right the next time.
    const auto again = worker.cells_again(cell);
    if (again) count = head(worker, cell, *again);
  }
  if (count > 0) return count;
  damaged(cell);
  return 1;
}

// A header or a tombstone: how many cells it has. 0: neither.
std::uint32_t Recovery::head(Worker& worker, std::uint32_t cell, std::span<const std::byte> cells) {
  const Uuid& uuid = store_.uuid();
  if (kind_of(cells.first(kCellBytes)) == CellKind::kTombstone) {
    const auto sequence = decode_tombstone(uuid, layout_, cell, cells);
    if (!sequence) return 0;
    const std::lock_guard lock(store_.mutex_);
    store_.table_->note_written(cell + 1, *sequence);
    return 1;
  }
  const auto header = decode_header(uuid, layout_, cell, cells, worker.manifest);
  if (header) {
    found(*header);
    return header->cells;
  }
  if (header.error().code() == Code::kVersionMismatch) plan_.stop(header.error());
  return 0;
}

void Recovery::damaged(std::uint32_t cell) {
  const std::lock_guard lock(store_.mutex_);
  store_.table_->adopt_damaged(cell);
}

void Recovery::found(const RecordHeader& header) {
  const auto manifest = decode(header.manifest);
  if (!manifest && manifest.error().code() == Code::kVersionMismatch) {
    plan_.stop(manifest.error());
    return;
  }
  std::uint32_t slot = RecordTable::kNone;
  {
    const std::lock_guard lock(store_.mutex_);
    slot = store_.table_->adopt(header);
    if (slot == RecordTable::kNone) return;
    if (!manifest) store_.table_->note_damaged();
  }
  auto verdict = RecordStore::Verdict::kDrop;
  if (manifest) {
    try {
      verdict = visit_({header.id(), *manifest, layout_.stored_bytes(header.payload_bytes)});
    } catch (const std::exception& e) {
      plan_.stop({Code::kInternal, std::string("visiting a record: ") + e.what()});
      return;
    }
  }
  if (verdict == RecordStore::Verdict::kDrop) {
    store_.release(header.id());
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  kept_.fetch_add(1, std::memory_order_relaxed);
  payload_bytes_.fetch_add(header.payload_bytes, std::memory_order_relaxed);
}

Result<RecoveryReport> Recovery::run() {
  const StoreStats before = store_.stats();
  const env::Nanos start = env::monotonic_now();
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < options_.queues; ++i) threads.emplace_back([this] { work(); });
  work();
  for (std::thread& thread : threads) thread.join();
  if (auto error = plan_.error()) return fail(std::move(*error));
  RecoveryReport report;
  const env::Nanos scanned = env::monotonic_now();
  report.scan_nanos = scanned - start;
  LARDER_TRY(build(report));
  report.build_nanos = env::monotonic_now() - scanned;
  const StoreStats after = store_.stats();
  report.records = kept_.load() - report.overlapping;
  report.dropped = dropped_.load();
  report.damaged = after.damaged_headers - before.damaged_headers;
  report.unreadable = after.bad_cells - before.bad_cells;
  report.payload_bytes = payload_bytes_.load();
  report.bytes_read = bytes_read_.load();
  report.cells = plan_.cells_seen();
  return report;
}

Result<RecoveryReport> RecordStore::recover(const RecoverOptions& options, const Visit& visit) {
  if (options.queues < 1 || options.queues > 64 || options.depth < 1 || options.depth > 64) {
    return fail(Code::kInvalidArgument, "recovery has 1 to 64 queues of a depth of 1 to 64");
  }
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || recovering_ || table_->built()) {
      return fail(Code::kInvalidArgument, "the record store is recovered, or being recovered");
    }
    recovering_ = true;
  }
  auto report = Recovery(*this, options, visit).run();
  const std::lock_guard lock(mutex_);
  recovering_ = false;
  if (wake_) wake_();
  return report;
}

}  // namespace larder::extent
