// SPDX-License-Identifier: Apache-2.0
// One FileQueue as a BlockQueue. Every piece of memory is an operation of the file queue, whose tag
// is the number of the slot that keeps the block operation until the last of them has ended.
#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>

#include "block/file_device.h"
#include "block/file_device_state.h"
#include "fileio/file_errors.h"

namespace larder::block {
namespace {

constexpr std::size_t kBatch = 64;  // results taken from the file queue in one go

class FileBlockQueue final : public BlockQueue {
 public:
  FileBlockQueue(std::shared_ptr<DeviceBooks> books, std::shared_ptr<FileDeviceState> state,
                 std::unique_ptr<fileio::FileQueue> queue, std::size_t depth)
      : BlockQueue(std::move(books), depth),
        state_(std::move(state)),
        queue_(std::move(queue)),
        slots_(depth) {
    for (std::uint32_t i = 0; i < depth; ++i) free_.push_back(i);
  }
  ~FileBlockQueue() override { state_->leave(queue_.get()); }

  Result<void> enter() { return state_->enter(queue_.get()); }

  void start() override { queue_->start(); }
  void wake() noexcept override { queue_->wake(); }
  bool quiesce(env::Nanos deadline) override {
    const bool quiet = queue_->quiesce(deadline);
    reap();
    return quiet;
  }

 protected:
  Result<void> take(const BlockOp& op) override;
  std::size_t collect(std::span<BlockDone> into) override {
    reap();
    return give(into);
  }
  std::size_t collect_by(std::span<BlockDone> into, env::Nanos deadline) override;

 private:
  struct Slot {
    BlockDone done;
    std::uint32_t parts = 0;  // that have not ended
  };

  Result<void> begin(std::uint32_t number, const BlockOp& op);
  Result<void> move(std::uint32_t number, fileio::FileOpKind kind, std::uint64_t offset,
                    const Piece& piece);
  void discard(std::uint32_t number);
  Result<void> write_zeroes(std::uint32_t number);
  void settle(std::uint32_t number, int error);
  void end(std::uint32_t number);
  void reap();
  void note(std::span<const fileio::FileDone> done);
  std::size_t give(std::span<BlockDone> into);

  std::shared_ptr<FileDeviceState> state_;
  std::unique_ptr<fileio::FileQueue> queue_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::deque<std::uint32_t> ended_;  // for poll(); at most depth
  std::array<fileio::FileDone, kBatch> batch_;
};

Result<void> FileBlockQueue::take(const BlockOp& op) {
  const std::uint32_t number = free_.back();
  slots_[number] = {{op.tag, Code::kOk, 0, op.kind, op.offset, op.bytes(), op.trace_id}, 0};
  if (op.kind == OpKind::kDiscard) {
    discard(number);
  } else if (op.kind == OpKind::kWriteZeroes) {
    LARDER_TRY(write_zeroes(number));
  } else {
    LARDER_TRY(begin(number, op));
  }
  free_.pop_back();
  return {};
}

Result<void> FileBlockQueue::begin(std::uint32_t number, const BlockOp& op) {
  Slot& slot = slots_[number];
  if (op.kind == OpKind::kFlush) {
    LARDER_TRY(queue_->submit(fileio::FileOp::flush(state_->file(), number)));
    slot.parts = 1;
    return {};
  }
  const auto kind =
      op.kind == OpKind::kRead ? fileio::FileOpKind::kRead : fileio::FileOpKind::kWrite;
  std::uint64_t offset = op.offset;
  for (const Piece& piece : op.pieces) {
    LARDER_TRY(move(number, kind, offset, piece));
    if (!slot.done.ok()) break;
    offset += piece.bytes;
  }
  return {};
}

// An error only of the first part. Should the file queue break later, then what it has of the
// operation must end before the operation may.
Result<void> FileBlockQueue::move(std::uint32_t number, fileio::FileOpKind kind,
                                  std::uint64_t offset, const Piece& piece) {
  Slot& slot = slots_[number];
  const auto taken =
      queue_->submit({kind, &state_->file(), offset, piece.data, piece.bytes, number});
  if (!taken && slot.parts == 0) return fail(taken.error());
  if (taken) {
    ++slot.parts;
  } else {
    slot.done.code = Code::kUnavailable;
  }
  return {};
}

// The file core has no such operation. It is rare, and quick where it only changes extents.
void FileBlockQueue::discard(std::uint32_t number) {
  const BlockDone& done = slots_[number].done;
  settle(number, state_->discard(done.offset, done.bytes));
}

Result<void> FileBlockQueue::write_zeroes(std::uint32_t number) {
  static_assert(FileDevice::kZeroesMax <= kPiecesMax << 20U);
  Slot& slot = slots_[number];
  const int error = state_->zero(slot.done.offset, slot.done.bytes);
  if (error != EOPNOTSUPP) {
    settle(number, error);
    return {};
  }
  const std::span<std::byte> from = zeroes();
  for (std::uint64_t at = 0; at < slot.done.bytes && slot.done.ok(); at += from.size()) {
    const std::size_t part = std::min<std::uint64_t>(from.size(), slot.done.bytes - at);
    LARDER_TRY(
        move(number, fileio::FileOpKind::kWrite, slot.done.offset + at, {from.data(), part}));
  }
  return {};
}

void FileBlockQueue::settle(std::uint32_t number, int error) {
  BlockDone& done = slots_[number].done;
  if (error != 0) {
    done.code = error == EOPNOTSUPP ? Code::kUnsupported : fileio::code_of_errno(error);
    done.sys_errno = error;
  }
  end(number);
}

void FileBlockQueue::end(std::uint32_t number) {
  ended_.push_back(number);
}

void FileBlockQueue::reap() {
  for (std::size_t count = kBatch; count == kBatch;) {
    count = queue_->poll(batch_);
    note({batch_.data(), count});
  }
}

void FileBlockQueue::note(std::span<const fileio::FileDone> done) {
  for (const fileio::FileDone& one : done) {
    const auto number = static_cast<std::uint32_t>(one.tag);
    Slot& slot = slots_[number];
    // A real error says more than that the rest was stopped.
    const bool tells = !one.ok() && (slot.done.ok() || slot.done.code == Code::kCancelled);
    if (tells) {
      slot.done.code = one.code;
      slot.done.sys_errno = one.sys_errno;
    }
    const bool lost = !one.ok() && one.code != Code::kCancelled;
    if (lost && slot.done.kind == OpKind::kFlush) state_->note_flush_failed();
    if (--slot.parts == 0) end(number);
  }
}

std::size_t FileBlockQueue::give(std::span<BlockDone> into) {
  std::size_t count = 0;
  for (; count < into.size() && !ended_.empty(); ended_.pop_front()) {
    BlockDone& done = into[count++] = slots_[ended_.front()].done;
    // It may have missed what one of another device over this file lost.
    if (done.kind == OpKind::kFlush && done.ok() && state_->flush_failed()) {
      done.code = Code::kUnavailable;
      done.sys_errno = EIO;
    }
    free_.push_back(ended_.front());
  }
  return count;
}

std::size_t FileBlockQueue::collect_by(std::span<BlockDone> into, env::Nanos deadline) {
  for (;;) {
    if (!ended_.empty()) return collect(into);
    const std::size_t count = queue_->wait(batch_, deadline);
    note({batch_.data(), count});
    if (count == 0) return give(into);
  }
}

}  // namespace

Result<std::unique_ptr<BlockQueue>> make_file_queue(std::shared_ptr<DeviceBooks> books,
                                                    std::shared_ptr<FileDeviceState> state,
                                                    std::unique_ptr<fileio::IoBackend> backend,
                                                    std::size_t depth) {
  fileio::FileQueueOptions options;
  options.ops_max = depth * kPiecesMax;
  options.bounces = 1;  // what is aligned needs none
  LARDER_ASSIGN(auto files, fileio::FileQueue::create(std::move(backend), options));
  auto queue =
      std::make_unique<FileBlockQueue>(std::move(books), std::move(state), std::move(files), depth);
  LARDER_TRY(queue->enter());
  return std::unique_ptr<BlockQueue>(std::move(queue));
}

}  // namespace larder::block
