// SPDX-License-Identifier: Apache-2.0
// A block device: an array of blocks with several queues into it. Local files and disks, memory,
// a wrapper with faults; a remote NVMe namespace is one more.
//
// The rules, for every implementation (tests/conformance/block_device_suite.h):
//   - What goes in is aligned (Geometry); what is not is refused before anything moves.
//   - Operations in flight have no order, not even on one queue. Of two that meet, each block gets
//     one or the other; who wants an order waits for the first to end.
//   - A write that has ended is seen by every read submitted afterwards, on any queue. It is
//     durable after a flush submitted afterwards has ended well (or at once without a volatile
//     cache).
//   - Power lost before that leaves of each sector the old or the new, independently of others.
//   - A flush that failed fails the device (HealthBook).
//   - When an operation has been given back, nothing touches its memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "block/block_types.h"
#include "block/health.h"
#include "larder/status.h"

namespace larder::block {

// Counts of a device since it was opened.
struct BlockStats {
  struct Line {
    std::uint64_t ops = 0;    // ended well
    std::uint64_t bytes = 0;  // of those
    std::uint64_t errors = 0;
  };
  std::array<Line, kOpKindCount> kinds;  // by OpKind
  std::uint64_t high_bytes = 0;          // taken with that class, reads and writes
  std::uint64_t low_bytes = 0;
};

// What a device shares with its queues, which may outlive it. Any thread.
class DeviceBooks {
 public:
  DeviceBooks(const Geometry& geometry, Identity identity, const HealthLimits& limits)
      : geometry_(geometry), identity_(std::move(identity)), health_(limits) {}

  const Geometry& geometry() const noexcept { return geometry_; }
  const Identity& identity() const noexcept { return identity_; }
  HealthBook& health() noexcept { return health_; }
  void note_taken(const BlockOp& op) noexcept;
  void note_done(BlockDone& done);
  BlockStats stats() const noexcept;

 private:
  struct Line {
    std::atomic<std::uint64_t> ops{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> errors{0};
  };
  const Geometry geometry_;
  const Identity identity_;
  HealthBook health_;
  std::array<Line, kOpKindCount> lines_;
  std::atomic<std::uint64_t> high_bytes_{0};
  std::atomic<std::uint64_t> low_bytes_{0};
};

// One thread at a time, but for wake(). Destroying it cancels what is in flight and waits for that;
// results not taken by then are lost. A device whose operations do not end within seconds even so
// says in its header what becomes of their memory.
class BlockQueue {
 public:
  virtual ~BlockQueue() = default;
  BlockQueue(const BlockQueue&) = delete;
  BlockQueue& operator=(const BlockQueue&) = delete;

  // Takes an operation; it begins now or with the next start(), poll() or wait(). A discard
  // or a write of zeroes may block for as long as the device takes for it. Nothing was taken on an
  // error:
  //   as check()     the operation is wrong
  //   kBackpressure  depth() are in the queue: poll() first
  //   kUnavailable   the device has failed, or the queue broke
  Result<void> submit(const BlockOp& op);
  // Begins what was submitted, for those who do not poll or wait next.
  virtual void start() = 0;
  // Fills `into` with what has ended, each exactly once; never blocks. How many.
  std::size_t poll(std::span<BlockDone> into);
  // As poll(), but sleeps until there is one, wake() was called, or `deadline` (monotonic; may be
  // kNoDeadline). Does not sleep when nothing is in flight.
  std::size_t wait(std::span<BlockDone> into, env::Nanos deadline);
  // From any thread: the wait() that runs, else the next, returns. Wakes may merge.
  virtual void wake() noexcept = 0;
  // Cancels what has not begun and waits for what has, until `deadline`. True: all has ended,
  // nothing touches any memory; results stay for poll(). False: something may still run. The queue
  // can be used afterwards.
  virtual bool quiesce(env::Nanos deadline) = 0;

  std::size_t depth() const noexcept { return depth_; }
  std::size_t in_flight() const noexcept { return in_flight_; }  // taken, not yet given back
  const Geometry& geometry() const noexcept { return books_->geometry(); }
  const Identity& identity() const noexcept { return books_->identity(); }

 protected:
  BlockQueue(std::shared_ptr<DeviceBooks> books, std::size_t depth)
      : books_(std::move(books)), depth_(depth) {}

  // Of an operation that passed every check, with room for it. Errors: nothing was taken.
  virtual Result<void> take(const BlockOp& op) = 0;
  virtual std::size_t collect(std::span<BlockDone> into) = 0;
  virtual std::size_t collect_by(std::span<BlockDone> into, env::Nanos deadline) = 0;
  DeviceBooks& books() noexcept { return *books_; }

 private:
  std::size_t give(std::span<BlockDone> into, std::size_t count);

  std::shared_ptr<DeviceBooks> books_;
  const std::size_t depth_;
  std::size_t in_flight_ = 0;
};

// What must still be found on a device that was lost and attached anew, beyond what it says of
// itself.
struct Witness {
  std::vector<std::uint64_t> offsets;  // of blocks, whole ones
  // Gets them, in order; any thread. An error says what is there instead. Empty: nothing is asked.
  std::function<Result<void>(std::span<const std::byte> blocks)> judge;
};

// Any thread.
class BlockDevice {
 public:
  virtual ~BlockDevice() = default;
  BlockDevice(const BlockDevice&) = delete;
  BlockDevice& operator=(const BlockDevice&) = delete;

  // What it takes to be used stays until its last queue is gone, the lock on it, too.
  // kInvalidArgument: depth is 1 to kDepthMax. kExhausted: kQueuesMax are open, or no memory or
  // descriptors. kUnavailable: the device has failed.
  Result<std::unique_ptr<BlockQueue>> open_queue(std::size_t depth);

  // Optional: memory that many operations will use is pinned once, for the queues that are open and
  // those to come; not overlapping. False: no queue has any use for it, or the kernel refuses;
  // everything works as without. Whether or not, it is known until remove_buffer().
  virtual bool add_buffer(std::span<std::byte> memory) = 0;
  // Exactly what was added. No operation in flight may use it.
  virtual void remove_buffer(std::span<std::byte> memory) = 0;

  // From now on; an empty one ends it. A device that is attached anew by itself asks before an
  // operation goes on; an error is the device's end. For others it has no meaning.
  virtual void set_witness(Witness witness) {}

  const Geometry& geometry() const noexcept { return books_->geometry(); }
  const Identity& identity() const noexcept { return books_->identity(); }
  Health health() const { return books_->health().now(); }
  BlockStats stats() const noexcept { return books_->stats(); }

 protected:
  explicit BlockDevice(std::shared_ptr<DeviceBooks> books) : books_(std::move(books)) {}
  virtual Result<std::unique_ptr<BlockQueue>> make_queue(std::size_t depth) = 0;
  const std::shared_ptr<DeviceBooks>& books() const noexcept { return books_; }

 private:
  std::shared_ptr<DeviceBooks> books_;
};

// The error in words, with the device's name and what to do. Not for kOk.
Error describe(const Identity& identity, const BlockDone& done);

}  // namespace larder::block
