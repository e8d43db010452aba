// SPDX-License-Identifier: Apache-2.0
// Asynchronous reads and writes of any alignment and length, over one IoBackend.
//
// An operation is cut into pieces (piece_plan.h) that go to the backend in turn with those of other
// operations. What may go wrong below ends here: short transfers are resumed, EINTR and EAGAIN
// retried, and a completion that belongs to nothing in flight is counted and ignored.
//
// Files opened with O_DIRECT: reads fetch whole blocks, head and tail through bounce memory. Writes
// go past the page cache in whole File::write_unit()s; a head or tail that covers a unit in part
// is, by File::rewrites_edges(), either written byte for byte through the page cache (files: it
// leaves the exact size, and cannot undo what another queue or process writes beside it), or its
// block is read, changed and written (devices: a cache could be stale where other hosts write,
// too). Two such rewrites of one block take turns within a queue; different queues must not share
// blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fileio/bounce_pool.h"
#include "fileio/file_op.h"
#include "fileio/index_lists.h"
#include "fileio/io_backend.h"
#include "fileio/piece_plan.h"
#include "larder/status.h"

namespace larder::fileio {

struct FileQueueOptions {
  std::size_t ops_max = 1024;  // not yet given back by poll(); 1..65536
  // The most one piece transfers: a power of two, 64 KiB to 1 GiB. Operations of 4 MiB with
  // O_DIRECT at depth 32, as a share of what bare io_uring does with them whole (virtio disk, a
  // busy host of two cores, series of 25 to 30 turns): 256 KiB 0.8 to 1.07, 512 KiB 0.91 to 1.01, 1
  // MiB 0.95 to 1.0, 2 MiB 0.98 to 1.04, 4 MiB 0.98 to 1.03. Smaller ones let others in sooner.
  std::uint32_t piece_bytes = 2U << 20U;
  std::size_t bounces = 8;  // of 256 KiB, for operations whose memory does not suit the file
  env::Nanos close_grace = 10 * env::kSecond;  // that the destructor gives what is in flight
};

// Counts since the start, but for the last two.
struct FileQueueStats {
  std::uint64_t ops = 0;
  std::uint64_t ops_failed = 0;
  std::uint64_t ops_bounced = 0;  // whose memory did not suit the file, so that all was copied
  std::uint64_t bytes_read = 0;   // asked for and delivered
  std::uint64_t bytes_written = 0;
  std::uint64_t bytes_bounced = 0;      // of those, through bounce memory
  std::uint64_t resumed_shorts = 0;     // transfers that moved less than asked
  std::uint64_t retries = 0;            // after EINTR, EAGAIN, and transfers that moved nothing
  std::uint64_t edge_waits = 0;         // times a rewrite waited for another of its block
  std::uint64_t stray_completions = 0;  // stale, duplicate or foreign
  std::uint64_t lost_completions = 0;   // that had not come when the backend was quiet
  std::size_t ops_in_flight = 0;        // submitted and not ended
  std::size_t pieces_in_flight = 0;     // in the backend
};

// One thread at a time, but for wake() and the buffers.
class FileQueue {
 public:
  // kInvalidArgument: the options. kExhausted: no memory.
  static Result<std::unique_ptr<FileQueue>> create(std::unique_ptr<IoBackend> backend,
                                                   const FileQueueOptions& options);
  // As quiesce(), for close_grace; results not polled by then are lost. When the backend cannot be
  // brought to rest, it and the bounce memory are left to it for good, with a line in the log: the
  // callers' memory may then still be touched.
  ~FileQueue();
  FileQueue(const FileQueue&) = delete;
  FileQueue& operator=(const FileQueue&) = delete;

  // Takes an operation, which begins with the next poll(), wait() or start(). Only errors allocate:
  // ask room() first where being full is no surprise.
  //   kBackpressure     ops_max are in the queue: poll() first
  //   kInvalidArgument  no file, one not open for this, no bytes, no memory, range out of bounds
  //   kTooLarge         more than kFileOpBytesMax
  //   kUnavailable      the backend died: make a new queue
  Result<void> submit(const FileOp& op);
  // How many operations it would take now.
  std::size_t room() const noexcept { return healthy() ? free_ops_.count : 0; }
  // Hands to the backend what it will take. One system call.
  void start();
  // Makes progress and fills `into` with operations that have ended, each exactly once. How many.
  std::size_t poll(std::span<FileDone> into);
  // As poll(), but sleeps until there is one, wake() was called, or `deadline` (monotonic; may be
  // kNoDeadline). Does not sleep when the backend is dead and nothing is left to end; when it is
  // dead and not at rest yet, comes back after a moment, since no wake() reaches it any more.
  std::size_t wait(std::span<FileDone> into, env::Nanos deadline);
  // From any thread: the wait() that runs, else the next, returns.
  void wake() noexcept {
    woken_.store(true, std::memory_order_release);
    backend_->wake();
  }

  // Stops the operations with this tag: nothing more of them goes to the backend, and they end when
  // what is there has ended; kCancelled, unless all had been done. How many. Walks all operations.
  std::size_t cancel(std::uint64_t tag);
  // Works until everything submitted has ended, at most until `deadline`. False: not everything.
  // Results stay for poll().
  bool drain(env::Nanos deadline);
  // Cancels everything and waits for what runs, until `deadline`. True: all has ended, nothing can
  // touch any memory; operations whose completions never came end with kUnavailable. False: what is
  // in flight goes on, and ends as usual. The queue can be used afterwards.
  bool quiesce(env::Nanos deadline);

  bool healthy() const noexcept { return broken_.empty(); }  // false: the backend died
  FileQueueStats stats() const noexcept;
  const IoBackend& backend() const noexcept { return *backend_; }
  // See IoBackend. Any thread.
  bool add_buffer(std::span<std::byte> memory) noexcept { return backend_->add_buffer(memory); }
  void remove_buffer(std::span<std::byte> memory) noexcept { backend_->remove_buffer(memory); }

 private:
  enum class OpState : std::uint8_t { kFree, kReady, kHandedOut, kEnded };
  struct Op {
    FileOp op;
    PieceShape shape;
    OpState state = OpState::kFree;
    bool cancelled = false;
    bool flushed = false;
    std::uint32_t pieces = 0;   // in slots
    std::uint64_t planned = 0;  // bytes cut into pieces
    std::uint64_t moved = 0;    // bytes of pieces that are done
    Code code = Code::kOk;
    int sys_errno = 0;
    std::uint64_t position = 0;

    bool stopped() const noexcept { return cancelled || code != Code::kOk; }
    bool runs() const noexcept { return state == OpState::kReady || state == OpState::kHandedOut; }
    bool whole() const noexcept {
      return op.kind == FileOpKind::kFlush ? flushed : moved == op.bytes;
    }
  };
  // A piece on its way. Its tag in the backend is {generation, number of the slot}; each hand-over
  // has a generation of its own, so an old completion cannot pass for a new one.
  struct Slot {
    Piece piece;
    std::uint64_t generation = 0;
    std::uint32_t op = 0;
    std::uint32_t at = 0;     // in the transfer: where the I/O that runs began
    std::uint32_t have = 0;   // how far the transfer has come
    std::uint32_t asked = 0;  // bytes of the I/O that runs
    unsigned retries = 0;     // since it last moved on
    std::byte* bounce = nullptr;
    BouncePool* lender = nullptr;  // of `bounce`
    bool used = false;
    bool in_backend = false;
    bool holds_block = false;  // others that rewrite the same block wait
    bool writing = false;      // a rewrite in its second half
  };
  using List = IndexLists::List;

  FileQueue(std::unique_ptr<IoBackend> backend, const FileQueueOptions& options,
            std::unique_ptr<BouncePool> small, std::unique_ptr<BouncePool> large);

  Result<void> check(const FileOp& op) const;
  PieceShape shape_of(const FileOp& op) const noexcept;
  std::size_t deliver(std::span<FileDone> into);
  void stop(std::uint32_t number, Code code, int sys_errno, std::uint64_t position);
  void cancel_op(std::uint32_t number);
  void end_if_done(std::uint32_t number);
  void break_down(const Error& error);
  bool bury(env::Nanos deadline);

  bool cut(std::uint32_t number);
  bool block_is_held(const Op& op, const Piece& piece) const noexcept;
  bool lease_bounce(Slot& slot);
  void give_back_bounce(Slot& slot);
  void stage(std::uint32_t index);
  void stage_again();
  void stage_new();
  void hand_over();
  void reap();
  void on_done(const IoDone& done);
  void on_error(std::uint32_t index, int error);
  void on_bytes(std::uint32_t index, std::uint32_t bytes);
  void on_no_progress(std::uint32_t index, bool at_end);
  void on_file_end(std::uint32_t index);
  void on_piece_done(std::uint32_t index);
  void again(std::uint32_t index);
  void drop(std::uint32_t index);
  bool reading(const Slot& slot) const noexcept;

  std::unique_ptr<IoBackend> backend_;
  const FileQueueOptions options_;
  std::unique_ptr<BouncePool> small_;
  std::unique_ptr<BouncePool> large_;
  std::vector<Op> ops_;
  IndexLists op_links_;
  List free_ops_;
  List ready_;  // not wholly cut yet; in turn
  List ended_;  // for poll()
  std::vector<Slot> slots_;
  IndexLists slot_links_;
  List free_slots_;
  List again_;  // to be handed over (once more)
  std::vector<IoOp> batch_;
  std::vector<IoDone> done_;
  std::size_t blocks_held_ = 0;
  std::size_t in_backend_ = 0;
  // The backend's own word for it is gone once its wait() has returned, perhaps with completions
  // that end nothing.
  std::atomic<bool> woken_{false};
  std::string broken_;  // why the backend is dead
  bool buried_ = false;
  FileQueueStats stats_;
};

}  // namespace larder::fileio
