// SPDX-License-Identifier: Apache-2.0
// The writer's headers and flushes.
#include <algorithm>

#include "extent/writer_impl.h"
#include "extent/writer_tags.h"

namespace larder::extent {
namespace {

// So many cells lost to I/O errors, and the table takes no more headers: recovery could stop at
// their zeros before it has seen everything.
constexpr std::size_t kLostCellsMax = kCellWindow / 2;

template <class List>
void move_all(List& from, List& to) {
  for (auto& item : from) to.push_back(std::move(item));
  from.clear();
}

}  // namespace

void RecordWriter::Impl::handle(const block::BlockDone& done) {
  switch (role_of(done.tag)) {
    case OpRole::kPayload:
      piece_done(static_cast<std::uint32_t>(done.tag), done);
      break;
    case OpRole::kTable:
      batch_.on_done(*queue_, done);
      if (batch_.done()) end_batch();
      break;
    case OpRole::kFlush:
      flush_done(done);
      break;
  }
}

void RecordWriter::Impl::maybe_begin_batch() {
  if (batch_.running()) return;
  // Blocks of the table have headers of many, and tombstones, which nobody asked for by a put.
  const qos::Purpose purpose = ready_.empty() ? store_.options_.writes : ready_.front()->purpose;
  std::uint32_t written_end = 0;
  {
    const std::lock_guard lock(store_.mutex_);
    written_end = store_.table_->cells_end();
    add_tombstones();
    if (lost_cells_ < kLostCellsMax) add_headers();
  }
  if (lost_cells_ >= kLostCellsMax) {
    Puts refused;
    move_all(ready_, refused);
    for (auto& put : refused) {
      end(std::move(put),
          {Code::kUnavailable,
           "too many header cells of the device cannot be "
           "written; replace it"},
          Header::kNotWritten);
    }
  }
  for (auto& put : no_cells_) {
    Error error = *put->error;
    end(std::move(put), std::move(error), Header::kNotWritten);
  }
  no_cells_.clear();
  if (batch_.empty()) return;
  batch_.begin(*queue_, written_end, tag_of(OpRole::kTable, 0), purpose);
  if (batch_.done()) end_batch();
}

// Under the store's lock, as add_headers().
void RecordWriter::Impl::add_tombstones() {
  RecordTable& table = *store_.table_;
  while (table.has_releases()) {
    const std::uint32_t slot = table.peek_release();
    const std::uint32_t cell = table.id(slot).cell;
    if (!batch_.has_room(cell, 1)) return;
    table.pop_release();
    CellEdit edit;
    edit.cell = cell;
    edit.slot = slot;
    edit.bytes = encode_tombstone(store_.uuid(), layout_, cell, table.last_sequence());
    batch_.add(std::move(edit));
  }
}

void RecordWriter::Impl::add_headers() {
  while (!ready_.empty()) {
    Put& put = *ready_.front();
    const std::size_t cells = unflushed_cells_ + lost_cells_ + batch_.cells() + put.cells;
    // Where it will go is known only once it is there, so room for any place is asked for.
    if (cells > kCellWindow || !batch_.has_room_anywhere()) return;
    if (add_header(put)) {
      in_batch_.push_back(std::move(ready_.front()));
    } else {
      put.error = Error(Code::kExhausted,
                        "the header cells of the device ran out; release records, or format with "
                        "smaller record_bytes");
      no_cells_.push_back(std::move(ready_.front()));
    }
    ready_.pop_front();
  }
}

bool RecordWriter::Impl::add_header(Put& put) {
  RecordHeader header;
  if (!store_.table_->name(slot_of(put), put.cells, header.sequence)) return false;
  put.id = store_.table_->id(slot_of(put));
  header.cell = put.id.cell;
  header.cells = put.cells;
  header.payload_bytes = put.payload.size();
  header.payload_checksum = put.checksum;
  header.extents.assign(put.extents.begin(), put.extents.begin() + put.extent_count);
  header.manifest = put.manifest;
  CellEdit edit;
  edit.cell = header.cell;
  edit.slot = slot_of(put);
  edit.put = &put;
  edit.bytes = encode(store_.uuid(), layout_, header);
  batch_.add(std::move(edit));
  return true;
}

void RecordWriter::Impl::end_batch() {
  Puts puts;
  move_all(in_batch_, puts);
  for (CellEdit& edit : batch_.take()) {
    if (edit.put == nullptr) {
      end_tombstone(edit);
      continue;
    }
    // In the order in which they were added.
    end_header(edit, std::move(puts.front()));
    puts.pop_front();
  }
}

void RecordWriter::Impl::end_header(CellEdit& edit, std::unique_ptr<Put> put) {
  if (edit.result) {
    unflushed_cells_ += put->cells;
    headers_.push_back(std::move(put));
    return;
  }
  lost_cells_ += put->cells;
  end(std::move(put), edit.result.error(),
      edit.maybe_written ? Header::kMaybeWritten : Header::kCellsUnusable);
}

void RecordWriter::Impl::end_tombstone(CellEdit& edit) {
  if (edit.result) {
    tombs_.push_back(edit.slot);
    return;
  }
  {
    const std::lock_guard lock(store_.mutex_);
    store_.table_->stick(edit.slot);
  }
  report_release(edit.slot, edit.result);
}

// While there is more to come a flush waits for a decent group; without, it goes at once.
bool RecordWriter::Impl::flush_is_due() const {
  const std::size_t count = payloads_.size() + headers_.size() + tombs_.size();
  if (flushing_ || batch_.running() || count == 0) return false;
  const bool more = pieces_ > 0 || !queued_.empty();
  return !more || count >= options_.group_records || payload_bytes_waiting_ >= options_.group_bytes;
}

void RecordWriter::Impl::maybe_flush() {
  if (!flush_is_due()) return;
  move_all(payloads_, payloads_flushing_);
  move_all(headers_, headers_flushing_);
  move_all(tombs_, tombs_flushing_);
  payload_bytes_waiting_ = 0;
  flushing_cells_ = unflushed_cells_;
  block::BlockOp flush = block::BlockOp::flush(tag_of(OpRole::kFlush, 0));
  flush.purpose = store_.options_.writes;
  const auto taken = queue_->submit(flush);
  if (!taken) {
    flush_failed(taken.error());
    return;
  }
  flushing_ = true;
  ++flushes_;
}

void RecordWriter::Impl::flush_done(const block::BlockDone& done) {
  flushing_ = false;
  if (!done.ok()) {
    flush_failed(block::describe(queue_->identity(), done));
    return;
  }
  unflushed_cells_ -= flushing_cells_;
  move_all(payloads_flushing_, ready_);
  for (auto& put : headers_flushing_) succeed(std::move(put));
  headers_flushing_.clear();
  for (const std::uint32_t slot : tombs_flushing_) report_release(slot, {});
  const std::lock_guard lock(store_.mutex_);
  for (const std::uint32_t slot : tombs_flushing_) store_.table_->finish_release(slot);
  tombs_flushing_.clear();
}

// For good: the device has failed.
void RecordWriter::Impl::flush_failed(const Error& error) {
  for (auto& put : payloads_flushing_) end(std::move(put), error, Header::kNotWritten);
  payloads_flushing_.clear();
  for (auto& put : headers_flushing_) end(std::move(put), error, Header::kMaybeWritten);
  headers_flushing_.clear();
  for (const std::uint32_t slot : tombs_flushing_) {
    {
      const std::lock_guard lock(store_.mutex_);
      store_.table_->stick(slot);
    }
    report_release(slot, fail(error));
  }
  tombs_flushing_.clear();
}

void RecordWriter::Impl::report_release(std::uint32_t slot, Result<void> result) {
  const auto at = release_tags_.find(slot);
  if (at == release_tags_.end()) return;
  WriteDone done;
  done.tag = at->second;
  done.is_release = true;
  done.result = std::move(result);
  {
    const std::lock_guard lock(store_.mutex_);
    done.id = store_.table_->id(slot);
  }
  release_tags_.erase(at);
  ended_.push_back(std::move(done));
}

void RecordWriter::Impl::succeed(std::unique_ptr<Put> put) {
  {
    const std::lock_guard lock(store_.mutex_);
    store_.table_->commit(slot_of(*put));
  }
  put->reservation.store_ = nullptr;
  --under_way_;
  bytes_under_way_ -= put->payload.size();
  ended_.push_back({put->tag, false, put->id, {}});
}

void RecordWriter::Impl::end(std::unique_ptr<Put> put, Error error, Header header) {
  if (header != Header::kNotWritten) {
    const std::lock_guard lock(store_.mutex_);
    if (header == Header::kMaybeWritten) store_.table_->give_up(slot_of(*put));
    if (header == Header::kCellsUnusable) store_.table_->give_back_but_cells(slot_of(*put));
    put->reservation.store_ = nullptr;
  }
  --under_way_;
  bytes_under_way_ -= put->payload.size();
  ended_.push_back({put->tag, false, {}, fail(std::move(error))});
}

}  // namespace larder::extent
