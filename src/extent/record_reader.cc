// SPDX-License-Identifier: Apache-2.0
#include "extent/record_reader.h"

#include <algorithm>
#include <cstring>

#include "extent/reader_impl.h"

namespace larder::extent {
namespace {

constexpr std::size_t kPieceBytesMax = 16U << 20U;
constexpr std::size_t kDoneBatch = 64;

Result<void> check(const ReaderOptions& o, std::uint64_t block_bytes) {
  const bool good = o.depth >= 1 && o.depth <= 512 && o.piece_bytes >= block_bytes &&
                    o.piece_bytes <= kPieceBytesMax && o.records_max >= 1 && o.records_max <= 65536;
  if (good) return {};
  return fail(Code::kInvalidArgument,
              "a record reader has a depth of 1 to 512, pieces from a block to 16 MiB, and 1 to "
              "65536 records under way");
}

}  // namespace

RecordReader::Impl::Impl(RecordStore& store, const ReaderOptions& options)
    : store_(store),
      options_(options),
      block_bytes_(store.device().geometry().block_bytes),
      ops_(options.depth) {
  for (std::uint32_t i = 0; i < ops_.size(); ++i) free_ops_.push_back(i);
  const std::uint64_t most =
      std::min<std::uint64_t>(options.piece_bytes, store.device().geometry().transfer_max);
  piece_bytes_ = most / block_bytes_ * block_bytes_;
}

Result<void> RecordReader::Impl::start(block::BlockDevice& device) {
  const std::size_t alignment = std::max<std::size_t>(device.geometry().memory_alignment, 64);
  tail_stride_ = std::max<std::size_t>(block_bytes_, alignment);
  LARDER_ASSIGN(tails_, block::AlignedBuffer::create(ops_.size() * tail_stride_, alignment));
  LARDER_ASSIGN(queue_, device.open_queue(options_.depth));
  return {};
}

RecordReader::Impl::~Impl() {
  while (queue_ && !queue_->quiesce(env::monotonic_now() + env::kSecond)) {
  }
}

Result<void> RecordReader::Impl::read(Pin&& pin, std::span<std::byte> into, std::uint64_t checksum,
                                      std::uint64_t tag, qos::Purpose purpose) {
  if (!pin || pin.store() != &store_ || into.size() < pin.payload_bytes()) {
    return fail(Code::kInvalidArgument,
                "a record is read with a pin of its store, into room for all of its payload");
  }
  if (under_way() >= options_.records_max) {
    return fail(Code::kBackpressure, "enough records are being read; wait for some");
  }
  auto read = std::make_unique<Read>();
  read->pin = std::move(pin);
  read->into = into;
  read->checksum = checksum;
  read->tag = tag;
  read->purpose = purpose;
  reads_.push_back(std::move(read));
  submit_all();
  return {};
}

// What the operation reads into: the caller's memory where it is aligned and has the room; else a
// copy is made when it has ended.
Result<std::size_t> RecordReader::Impl::aim(std::uint32_t number, Read& read,
                                            const PayloadPiece& piece) {
  PieceOp& op = ops_[number];
  std::byte* to = read.into.data() + piece.at;
  const std::size_t alignment = std::max<std::size_t>(queue_->geometry().memory_alignment, 1);
  op.from = nullptr;
  if (reinterpret_cast<std::uintptr_t>(to) % alignment != 0) {
    if (op.bounce.size() == 0) {
      LARDER_ASSIGN(op.bounce, block::AlignedBuffer::create(piece_bytes_,
                                                            std::max<std::size_t>(alignment, 64)));
    }
    op.from = op.bounce.data();
    op.to = {to, piece.bytes};
    op.pieces[0] = {op.bounce.data(), piece.blocks_bytes};
    return 1;
  }
  if (read.into.size() - piece.at >= piece.blocks_bytes) {
    op.pieces[0] = {to, piece.blocks_bytes};
    return 1;
  }
  const std::size_t body = piece.bytes / block_bytes_ * block_bytes_;
  std::byte* tail = tails_.data() + number * tail_stride_;
  std::size_t count = 0;
  if (body > 0) op.pieces[count++] = {to, body};
  op.pieces[count++] = {tail, block_bytes_};
  op.from = tail;
  op.to = {to + body, piece.bytes - body};
  return count;
}

void RecordReader::Impl::submit_piece(Read& read) {
  const std::uint32_t number = free_ops_.back();
  const PayloadPiece piece =
      piece_at(read.pin.extents(), read.pin.payload_bytes(), read.next, piece_bytes_, block_bytes_);
  const auto count = aim(number, read, piece);
  if (!count) {
    read.error = count.error();
    return;
  }
  auto op = block::BlockOp::read(piece.offset, {ops_[number].pieces.data(), *count}, number);
  op.purpose = read.purpose;
  if (auto taken = queue_->submit(op); !taken) {
    read.error = taken.error();
    return;
  }
  free_ops_.pop_back();
  read.parts.push_back({piece.at, piece.bytes, false});
  ops_[number].read = &read;
  ops_[number].part = &read.parts.back();
  read.next += piece.bytes;
  ++read.in_flight;
}

void RecordReader::Impl::submit_all() {
  for (; unsent_ < reads_.size(); ++unsent_) {
    Read& read = *reads_[unsent_];
    while (!read.submitted() && !free_ops_.empty()) submit_piece(read);
    if (!read.submitted()) break;
  }
  queue_->start();
}

void RecordReader::Impl::piece_done(const block::BlockDone& done) {
  const auto number = static_cast<std::uint32_t>(done.tag);
  PieceOp& op = ops_[number];
  free_ops_.push_back(number);
  --op.read->in_flight;
  if (!done.ok()) {
    if (!op.read->error) op.read->error = block::describe(queue_->identity(), done);
    return;
  }
  if (op.from != nullptr) std::memcpy(op.to.data(), op.from, op.to.size());
  op.part->there = true;
}

void RecordReader::Impl::collect(std::span<const block::BlockDone> done) {
  for (const block::BlockDone& one : done) piece_done(one);
}

// A piece of the oldest read that has one; then the caller looks at the device again, so that it is
// never without work for long.
bool RecordReader::Impl::hash_one() {
  for (auto& read : reads_) {
    if (read->error || read->parts.empty() || !read->parts.front().there) continue;
    const Part part = read->parts.front();
    read->parts.pop_front();
    const auto bytes = std::span<const std::byte>(read->into).subspan(part.at, part.bytes);
    if (part.bytes == read->pin.payload_bytes()) {
      read->sum.update_whole(bytes);
    } else {
      read->sum.update(bytes);
    }
    return true;
  }
  return false;
}

void RecordReader::Impl::end_those_done() {
  for (std::size_t i = 0; i < reads_.size();) {
    Read& read = *reads_[i];
    if (!read.submitted() || read.in_flight > 0 || (!read.error && !read.parts.empty())) {
      ++i;
      continue;
    }
    ReadDone done;
    done.tag = read.tag;
    if (!read.error && read.sum.digest() != read.checksum) {
      store_.note_damaged_payload();
      read.error = Error(Code::kCorrupt, "the payload of a record on " + queue_->identity().name +
                                             " does not have its checksum");
    }
    if (read.error) {
      done.result = fail(*read.error);
    } else {
      done.bytes = read.pin.payload_bytes();
    }
    ended_.push_back(std::move(done));
    reads_.erase(reads_.begin() + static_cast<std::ptrdiff_t>(i));
    if (i < unsent_) --unsent_;
  }
}

void RecordReader::Impl::pump() {
  std::array<block::BlockDone, kDoneBatch> done;
  do {
    collect({done.data(), queue_->poll(done)});
    submit_all();
  } while (hash_one());
  end_those_done();
}

std::size_t RecordReader::Impl::give(std::span<ReadDone> into) {
  std::size_t count = 0;
  for (; count < into.size() && !ended_.empty(); ended_.pop_front()) {
    into[count++] = std::move(ended_.front());
  }
  return count;
}

std::size_t RecordReader::Impl::poll(std::span<ReadDone> into) {
  pump();
  return give(into);
}

std::size_t RecordReader::Impl::wait(std::span<ReadDone> into, env::Nanos deadline) {
  std::array<block::BlockDone, kDoneBatch> done;
  for (;;) {
    pump();
    if (!ended_.empty() || into.empty()) return give(into);
    if (wake_.take() || env::monotonic_now() >= deadline) return 0;
    if (queue_->in_flight() == 0) {
      wake_.wait(deadline);
    } else {
      collect({done.data(), queue_->wait(done, deadline)});
    }
  }
}

void RecordReader::Impl::wake() noexcept {
  wake_.raise(true);
  queue_->wake();
}

RecordReader::RecordReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RecordReader::~RecordReader() = default;

Result<std::unique_ptr<RecordReader>> RecordReader::create(RecordStore& store,
                                                           const ReaderOptions& options) {
  LARDER_TRY(check(options, store.device().geometry().block_bytes));
  auto impl = std::make_unique<Impl>(store, options);
  LARDER_TRY(impl->start(store.device()));
  return std::unique_ptr<RecordReader>(new RecordReader(std::move(impl)));
}

Result<void> RecordReader::read(Pin&& pin, std::span<std::byte> into, std::uint64_t checksum,
                                std::uint64_t tag, qos::Purpose purpose) {
  return impl_->read(std::move(pin), into, checksum, tag, purpose);
}
std::size_t RecordReader::poll(std::span<ReadDone> into) {
  return impl_->poll(into);
}
std::size_t RecordReader::wait(std::span<ReadDone> into, env::Nanos deadline) {
  return impl_->wait(into, deadline);
}
void RecordReader::wake() noexcept {
  impl_->wake();
}
std::size_t RecordReader::under_way() const noexcept {
  return impl_->under_way();
}

}  // namespace larder::extent
