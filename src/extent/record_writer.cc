// SPDX-License-Identifier: Apache-2.0
// What a caller sees of the writer; what moves is in writer_payload.cc and writer_headers.cc.
#include "extent/record_writer.h"

#include <algorithm>
#include <bit>

#include "base/checksum.h"
#include "extent/writer_impl.h"

namespace larder::extent {
namespace {

constexpr std::size_t kPieceBytesMax = 16U << 20U;
constexpr std::size_t kDoneBatch = 64;

Result<void> check(const WriterOptions& o, std::uint64_t block_bytes) {
  const bool good = o.depth >= 1 && o.depth <= 512 && o.piece_bytes >= block_bytes &&
                    o.piece_bytes <= kPieceBytesMax && o.records_max >= 1 && o.records_max <= 65536;
  if (good) return {};
  return fail(Code::kInvalidArgument,
              "a record writer has a depth of 1 to 512, pieces from a block to 16 MiB, and 1 to "
              "65536 records under way");
}

}  // namespace

RecordWriter::Impl::Impl(RecordStore& store, const WriterOptions& options, HeaderBatch batch)
    : store_(store),
      options_(options),
      layout_(store.superblock_->layout),
      window_(options.depth),
      batch_(std::move(batch)),
      ops_(options.depth) {
  for (std::uint32_t i = 0; i < ops_.size(); ++i) free_ops_.push_back(i);
  const std::uint64_t most =
      std::min<std::uint64_t>(options.piece_bytes, store.device().geometry().transfer_max);
  piece_bytes_ = most / layout_.block_bytes * layout_.block_bytes;
}

Result<void> RecordWriter::Impl::start(block::BlockDevice& device) {
  const std::size_t alignment = std::max<std::size_t>(device.geometry().memory_alignment, 64);
  tail_stride_ = std::max<std::size_t>(layout_.block_bytes, alignment);
  LARDER_ASSIGN(tails_, block::AlignedBuffer::create(ops_.size() * tail_stride_, alignment));
  LARDER_ASSIGN(queue_, device.open_queue(options_.depth + HeaderBatch::kBlocksMax + 1));
  const std::lock_guard lock(store_.mutex_);
  if (store_.wake_ || store_.closed_) {
    return fail(Code::kConflict, "the record store has a writer, or is closed");
  }
  // Called with the store's lock held, so that it does not outlive the writer; it takes none but
  // the flag's.
  store_.wake_ = [this] {
    wake_.raise(false);
    queue_->wake();
  };
  registered_ = true;
  return {};
}

RecordWriter::Impl::~Impl() {
  if (!registered_) return;
  {
    const std::lock_guard lock(store_.mutex_);
    store_.wake_ = nullptr;
  }
  while (!queue_->quiesce(env::monotonic_now() + env::kSecond)) {
  }
  // Of what was not done nobody can say whether its header is there: it is given up, not given
  // back, so that its space stays out of use until a writer or a recovery has made sure.
  const std::lock_guard lock(store_.mutex_);
  for (Puts* list : {&in_batch_, &headers_, &headers_flushing_}) {
    for (auto& put : *list) {
      store_.table_->give_up(slot_of(*put));
      put->reservation.store_ = nullptr;
    }
  }
  for (const CellEdit& edit : batch_.take()) {
    if (edit.put == nullptr) tombs_.push_back(edit.slot);
  }
  for (const auto* list : {&tombs_, &tombs_flushing_}) {
    for (const std::uint32_t slot : *list) store_.table_->requeue(slot);
  }
}

Result<void> RecordWriter::Impl::put(Reservation&& reservation, std::span<const std::byte> payload,
                                     const Manifest& manifest, std::uint64_t tag,
                                     qos::Purpose purpose) {
  if (reservation.store_ != &store_ || payload.size() != reservation.payload_bytes()) {
    return fail(Code::kInvalidArgument,
                "a payload is put into a reservation of its own length, of the same store");
  }
  const bool full = under_way_ >= options_.records_max ||
                    (under_way_ > 0 && bytes_under_way_ + payload.size() > options_.bytes_max);
  if (full) return fail(Code::kBackpressure, "enough records are being written; wait for some");
  auto put = std::make_unique<Put>();
  Manifest own = manifest;
  own.device = store_.uuid();
  LARDER_ASSIGN(put->manifest, encode(own));
  put->checksum = manifest.length == payload.size() ? manifest.checksum : checksum64(payload);
  put->payload = payload;
  put->tag = tag;
  put->purpose = purpose;
  {
    const std::lock_guard lock(store_.mutex_);
    put->extent_count = store_.table_->extents(reservation.slot_, put->extents);
  }
  put->cells = cells_for(put->extent_count, put->manifest.size());
  put->reservation = std::move(reservation);
  ++under_way_;
  bytes_under_way_ += payload.size();
  queued_.push_back(std::move(put));
  pump();
  return {};
}

Result<void> RecordWriter::Impl::release(RecordId id, std::uint64_t tag) {
  const std::lock_guard lock(store_.mutex_);
  const std::uint32_t slot = store_.closed_ ? RecordTable::kNone : store_.table_->find(id);
  if (slot == RecordTable::kNone) return fail(Code::kNotFound, "no such record on the device");
  release_tags_[slot] = tag;
  store_.table_->release(slot);
  return {};
}

std::size_t RecordWriter::Impl::give(std::span<WriteDone> into) {
  std::size_t count = 0;
  for (; count < into.size() && !ended_.empty(); ended_.pop_front()) {
    into[count++] = std::move(ended_.front());
  }
  return count;
}

void RecordWriter::Impl::pump() {
  std::array<block::BlockDone, kDoneBatch> done;
  for (std::size_t count = done.size(); count == done.size();) {
    count = queue_->poll(done);
    for (std::size_t i = 0; i < count; ++i) handle(done[i]);
  }
  submit_payload();
  // First what is due, so that an endless row of batches does not put it off.
  maybe_flush();
  maybe_begin_batch();
  queue_->start();
}

std::size_t RecordWriter::Impl::poll(std::span<WriteDone> into) {
  pump();
  return give(into);
}

std::size_t RecordWriter::Impl::wait(std::span<WriteDone> into, env::Nanos deadline) {
  std::array<block::BlockDone, kDoneBatch> done;
  const bool was_idle = idle();
  for (;;) {
    pump();
    if (!ended_.empty() || into.empty()) return give(into);
    if (!was_idle && idle()) return 0;
    if (wake_.take() || env::monotonic_now() >= deadline) return 0;
    if (queue_->in_flight() == 0) {
      // A release that came since pump() raised the flag that take() lowered: look before sleeping.
      if (!releases_waiting()) wake_.wait(deadline);
      continue;
    }
    const std::size_t count = queue_->wait(done, deadline);
    for (std::size_t i = 0; i < count; ++i) handle(done[i]);
  }
}

void RecordWriter::Impl::wake() noexcept {
  wake_.raise(true);
  queue_->wake();
}

void RecordWriter::Impl::set_window(std::size_t pieces) noexcept {
  window_ = std::clamp<std::size_t>(pieces, 1, options_.depth);
}

bool RecordWriter::Impl::releases_waiting() const {
  const std::lock_guard lock(store_.mutex_);
  return store_.table_->has_releases();
}

bool RecordWriter::Impl::idle() const {
  return under_way_ == 0 && ended_.empty() && !flushing_ && !batch_.running() && tombs_.empty() &&
         queue_->in_flight() == 0 && !releases_waiting();
}

RecordWriter::RecordWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RecordWriter::~RecordWriter() = default;

Result<std::unique_ptr<RecordWriter>> RecordWriter::create(RecordStore& store,
                                                           const WriterOptions& options) {
  if (store.read_only()) {
    return fail(Code::kPermissionDenied, "the record store was opened for reading only");
  }
  LARDER_TRY(check(options, store.device().geometry().block_bytes));
  LARDER_ASSIGN(auto batch,
                HeaderBatch::create(store.superblock_->layout, store.device().geometry()));
  auto impl = std::make_unique<Impl>(store, options, std::move(batch));
  LARDER_TRY(impl->start(store.device()));
  return std::unique_ptr<RecordWriter>(new RecordWriter(std::move(impl)));
}

Result<void> RecordWriter::put(Reservation&& reservation, std::span<const std::byte> payload,
                               const Manifest& manifest, std::uint64_t tag, qos::Purpose purpose) {
  return impl_->put(std::move(reservation), payload, manifest, tag, purpose);
}
Result<void> RecordWriter::release(RecordId id, std::uint64_t tag) {
  return impl_->release(id, tag);
}
std::size_t RecordWriter::poll(std::span<WriteDone> into) {
  return impl_->poll(into);
}
std::size_t RecordWriter::wait(std::span<WriteDone> into, env::Nanos deadline) {
  return impl_->wait(into, deadline);
}
void RecordWriter::wake() noexcept {
  impl_->wake();
}
void RecordWriter::set_window(std::size_t pieces) noexcept {
  impl_->set_window(pieces);
}
bool RecordWriter::idle() const {
  return impl_->idle();
}
std::size_t RecordWriter::under_way() const noexcept {
  return impl_->under_way();
}
std::uint64_t RecordWriter::flushes() const noexcept {
  return impl_->flushes();
}

}  // namespace larder::extent
