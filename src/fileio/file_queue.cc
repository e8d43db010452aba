// SPDX-License-Identifier: Apache-2.0
// The operations of a FileQueue: from submit() to poll(). Their pieces are in file_queue_pieces.cc.
#include "fileio/file_queue.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "env/clock.h"
#include "fileio/direct_io.h"
#include "obs/log.h"

namespace larder::fileio {
namespace {

constexpr std::size_t kOpsMax = 65536;
constexpr std::size_t kSlotsMax = 65536;  // their number is 16 bits of a tag
constexpr std::uint32_t kPieceMin = 64U << 10U;
constexpr std::uint32_t kPieceMax = 1U << 30U;
constexpr std::uint64_t kOffsetMax = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kSmallBounce = 16U << 10U;  // an edge block, or a whole small read
constexpr std::size_t kLargeBounce = 256U << 10U;
constexpr std::size_t kSmallBouncesMax = 64;
constexpr env::Nanos kBuryStep = 100 * env::kMilli;
static_assert(kLargeBounce >= kDirectAlignmentMax && kPieceMin >= kDirectAlignmentMax);

tl::unexpected<Error> refuse(std::string why) {
  return fail(Code::kInvalidArgument, "file operation: " + std::move(why));
}

}  // namespace

Result<std::unique_ptr<FileQueue>> FileQueue::create(std::unique_ptr<IoBackend> backend,
                                                     const FileQueueOptions& options) {
  const bool sane = backend != nullptr && options.ops_max > 0 && options.ops_max <= kOpsMax &&
                    backend->depth() <= kSlotsMax && options.bounces > 0 &&
                    std::has_single_bit(options.piece_bytes) && options.close_grace >= 0 &&
                    options.piece_bytes >= kPieceMin && options.piece_bytes <= kPieceMax;
  if (!sane) {
    return fail(Code::kInvalidArgument,
                "a file queue needs a backend, 1 to 65536 operations, at least one bounce buffer "
                "and pieces of a power of two from 64 KiB to 1 GiB");
  }
  const std::size_t small_count = std::min(backend->depth(), kSmallBouncesMax);
  LARDER_ASSIGN(auto small, BouncePool::create(kSmallBounce, small_count));
  LARDER_ASSIGN(auto large, BouncePool::create(kLargeBounce, options.bounces));
  return std::unique_ptr<FileQueue>(
      new FileQueue(std::move(backend), options, std::move(small), std::move(large)));
}

FileQueue::FileQueue(std::unique_ptr<IoBackend> backend, const FileQueueOptions& options,
                     std::unique_ptr<BouncePool> small, std::unique_ptr<BouncePool> large)
    : backend_(std::move(backend)),
      options_(options),
      small_(std::move(small)),
      large_(std::move(large)),
      ops_(options.ops_max),
      op_links_(options.ops_max),
      slots_(backend_->depth()),
      slot_links_(backend_->depth()),
      done_(backend_->depth()) {
  batch_.reserve(backend_->depth());
  for (std::uint32_t i = 0; i < ops_.size(); ++i) op_links_.push_back(free_ops_, i);
  for (std::uint32_t i = 0; i < slots_.size(); ++i) slot_links_.push_back(free_slots_, i);
}

FileQueue::~FileQueue() {
  if (quiesce(env::monotonic_now() + options_.close_grace)) return;
  small_->leak();
  large_->leak();
  obs::log(obs::Level::kError, "file_queue_leaked",
           {{"backend", backend_->name()},
            {"operations", stats().ops_in_flight},
            {"reason", "the backend did not come to rest; its memory is left to it"}});
  (void)backend_.release();  // its destructor could wait for ever
}

Result<void> FileQueue::check(const FileOp& op) const {
  if (op.file == nullptr) return refuse("no file is given");
  if (op.kind == FileOpKind::kFlush) return {};
  const bool read = op.kind == FileOpKind::kRead;
  if (read ? !op.file->readable() : !op.file->writable()) {
    return refuse(op.file->path() +
                  (read ? " is not open for reading" : " is not open for writing"));
  }
  if (op.bytes == 0 || op.memory == nullptr) return refuse("no bytes or no memory are given");
  if (op.bytes > kFileOpBytesMax) {
    return fail(Code::kTooLarge, "a file operation moves at most 1 TiB; split it");
  }
  if (op.offset > kOffsetMax - op.bytes) return refuse("its range ends beyond 2^63 bytes");
  return {};
}

PieceShape FileQueue::shape_of(const FileOp& op) const noexcept {
  PieceShape shape;
  if (op.kind == FileOpKind::kFlush) return shape;
  shape.write = op.kind == FileOpKind::kWrite;
  shape.direct = op.file->direct();
  shape.rewrites_edges = op.file->rewrites_edges();
  shape.offset = op.offset;
  shape.bytes = op.bytes;
  shape.memory = reinterpret_cast<std::uintptr_t>(op.memory);
  shape.memory_align = op.file->memory_alignment();
  shape.unit = shape.write ? op.file->write_unit() : op.file->offset_alignment();
  shape.piece_max = options_.piece_bytes;
  shape.bounce_small = kSmallBounce;
  shape.bounce_large = kLargeBounce;
  return shape;
}

Result<void> FileQueue::submit(const FileOp& op) {
  if (!healthy()) return fail(Code::kUnavailable, "the file queue broke: " + broken_);
  LARDER_TRY(check(op));
  if (free_ops_.empty()) {
    return fail(Code::kBackpressure, "the file queue holds " + std::to_string(ops_.size()) +
                                         " operations; take results from it first");
  }
  const std::uint32_t number = op_links_.pop_front(free_ops_);
  Op& taken = ops_[number];
  taken = Op{};
  taken.op = op;
  taken.shape = shape_of(op);
  taken.state = OpState::kReady;
  op_links_.push_back(ready_, number);
  ++stats_.ops;
  ++stats_.ops_in_flight;
  stats_.ops_bounced += memory_fits(taken.shape) ? 0 : 1;
  return {};
}

std::size_t FileQueue::deliver(std::span<FileDone> into) {
  std::size_t count = 0;
  while (count < into.size() && !ended_.empty()) {
    const std::uint32_t number = op_links_.pop_front(ended_);
    Op& op = ops_[number];
    FileDone& done = into[count++];
    done = {op.op.tag,   op.code,    op.sys_errno, op.code == Code::kOk ? op.op.bytes : 0,
            op.position, op.op.kind, op.op.file,   op.op.offset};
    op.state = OpState::kFree;
    op_links_.push_back(free_ops_, number);
  }
  return count;
}

std::size_t FileQueue::poll(std::span<FileDone> into) {
  if (healthy()) reap();
  if (healthy()) start();
  if (!healthy()) bury(0);
  return deliver(into);
}

std::size_t FileQueue::wait(std::span<FileDone> into, env::Nanos deadline) {
  for (;;) {
    // Not poll(): what is handed over here begins with the system call that also waits.
    if (healthy()) reap();
    if (healthy()) hand_over();
    if (healthy() && (!ended_.empty() || into.empty())) start();
    if (!ended_.empty() || into.empty()) return deliver(into);
    if (!healthy()) {
      bury(std::min(deadline, env::monotonic_now() + kBuryStep));
      return deliver(into);
    }
    if (woken_.exchange(false, std::memory_order_acq_rel)) return poll(into);
    const auto got = backend_->wait(done_, deadline);
    if (!got) {
      break_down(got.error());
      continue;
    }
    for (std::size_t i = 0; i < *got && healthy(); ++i) on_done(done_[i]);
    if (*got > 0) continue;
    woken_.store(false, std::memory_order_release);
    return poll(into);
  }
}

void FileQueue::stop(std::uint32_t number, Code code, int sys_errno, std::uint64_t position) {
  Op& op = ops_[number];
  if (op.code != Code::kOk) return;  // the first error is the one to tell
  op.code = code;
  op.sys_errno = sys_errno;
  op.position = position;
  if (op.state == OpState::kReady) {
    op_links_.remove(ready_, number);
    op.state = OpState::kHandedOut;
  }
}

void FileQueue::end_if_done(std::uint32_t number) {
  Op& op = ops_[number];
  if (op.state == OpState::kEnded || op.pieces > 0) return;
  if (!op.whole() && !op.stopped()) return;
  if (!op.whole() && op.code == Code::kOk) op.code = Code::kCancelled;
  if (op.state == OpState::kReady) op_links_.remove(ready_, number);
  op.state = OpState::kEnded;
  op_links_.push_back(ended_, number);
  --stats_.ops_in_flight;
  if (op.code != Code::kOk) {
    ++stats_.ops_failed;
  } else {
    (op.op.kind == FileOpKind::kRead ? stats_.bytes_read : stats_.bytes_written) += op.op.bytes;
  }
}

void FileQueue::cancel_op(std::uint32_t number) {
  Op& op = ops_[number];
  op.cancelled = true;
  if (op.state == OpState::kReady) {
    op_links_.remove(ready_, number);
    op.state = OpState::kHandedOut;
  }
  end_if_done(number);
}

std::size_t FileQueue::cancel(std::uint64_t tag) {
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    if (!ops_[i].runs() || ops_[i].op.tag != tag) continue;
    cancel_op(i);
    ++count;
  }
  return count;
}

bool FileQueue::drain(env::Nanos deadline) {
  for (;;) {
    poll({});
    if (stats_.ops_in_flight == 0) return true;
    if (!healthy()) return bury(deadline);
    if (env::monotonic_now() >= deadline) return false;
    const auto got = backend_->wait(done_, deadline);
    if (!got) break_down(got.error());
    for (std::size_t i = 0; got && i < *got && healthy(); ++i) on_done(done_[i]);
  }
}

bool FileQueue::quiesce(env::Nanos deadline) {
  for (std::uint32_t i = 0; healthy() && i < ops_.size(); ++i) {
    if (ops_[i].runs()) cancel_op(i);
  }
  if (healthy()) stage_again();  // lets go of what only waited to be handed over once more
  if (!healthy()) return bury(deadline);
  if (!backend_->quiesce(deadline)) return false;
  while (healthy() && in_backend_ > 0) {
    const std::size_t before = in_backend_;
    reap();
    if (in_backend_ == before) break;
  }
  if (!healthy()) return bury(deadline);
  // Nothing runs any more: what has not reported never will, and its memory is safe.
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].used) continue;
    ++stats_.lost_completions;
    stop(slots_[i].op, Code::kUnavailable, 0, slots_[i].piece.io_offset);
    drop(i);
  }
  return true;
}

void FileQueue::break_down(const Error& error) {
  if (healthy()) broken_ = error.message().empty() ? "unknown" : error.message();
}

// The backend is dead. Operations end only when nothing of it can touch their memory any more.
bool FileQueue::bury(env::Nanos deadline) {
  if (buried_) return true;
  if (!backend_->quiesce(deadline)) return false;
  buried_ = true;
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    if (!ops_[i].runs()) continue;
    stop(i, Code::kUnavailable, 0, ops_[i].op.offset);
    end_if_done(i);
  }
  again_ = {};
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].used) drop(i);
  }
  return true;
}

FileQueueStats FileQueue::stats() const noexcept {
  FileQueueStats now = stats_;
  now.pieces_in_flight = in_backend_;
  return now;
}

}  // namespace larder::fileio
