// SPDX-License-Identifier: Apache-2.0
// What is behind a FaultDevice: cache, device below, and what is in flight on all queues.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <vector>

#include "block/blocking.h"
#include "block/fault_device.h"

namespace larder::block {

constexpr bool writes(OpKind kind) noexcept {
  return kind == OpKind::kWrite || kind == OpKind::kWriteZeroes;
}

// Any thread. One lock around everything, also around the I/O below: order is what this is about,
// and a cut has to see one moment of all queues.
class FaultMedium {
 public:
  struct Pending {
    BlockOp op;
    unsigned polls = 0;  // until it may end
    bool fails = false;
    bool no_space = false;
  };
  // Of one queue; guarded by the lock of the medium.
  struct Lane {
    std::vector<Pending> pending;  // oldest first
    std::deque<BlockDone> ended;
    bool woken = false;
  };

  FaultMedium(std::shared_ptr<DeviceBooks> books, std::unique_ptr<BlockQueue> below,
              const FaultOptions& options);
  ~FaultMedium();

  Result<void> enter(Lane& lane);
  void leave(Lane& lane);
  void take(Lane& lane, const BlockOp& op);
  std::size_t collect(Lane& lane, std::span<BlockDone> into);
  std::size_t collect_by(Lane& lane, std::span<BlockDone> into, env::Nanos deadline);
  bool quiesce(Lane& lane, env::Nanos deadline);
  void wake(Lane& lane);

  Result<void> cut_power(CutKind kind);
  void stall(bool stalled);
  void set_bad(std::uint64_t offset, std::uint64_t bytes);
  void set_full(bool full);
  Result<void> flip_bit(std::uint64_t byte, unsigned bit);
  FaultCounts counts() const;

 private:
  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  // Of memory for I/O below.
  std::size_t alignment() const noexcept {
    return std::max<std::size_t>(below_->geometry().memory_alignment, 64);
  }
  // All of these under the lock.
  bool chance(double probability);
  bool is_bad(const BlockOp& op) const;
  double error_rate(OpKind kind) const;
  void step(Lane& lane);
  std::size_t next_due(Lane& lane);
  std::size_t give(Lane& lane, std::span<BlockDone> into);
  BlockDone carry_out(const Pending& pending);
  Result<void> carry_out_well(const BlockOp& op);
  Result<void> read(const BlockOp& op);
  Result<void> change(const BlockOp& op);
  Result<void> change_in_part(const BlockOp& op);
  Result<void> flush();
  Result<Change> change_of(const BlockOp& op);
  Result<void> put(std::uint64_t offset, std::uint64_t bytes, const std::byte* data);
  Result<void> carry_down();
  Result<void> keep_a_part(std::span<const Change> changes, CutKind kind);
  Result<void> cut(CutKind kind);

  const std::shared_ptr<DeviceBooks> books_;
  const FaultOptions options_;
  mutable std::mutex mutex_;         // guards what follows
  std::condition_variable changed_;  // a wake or a resume
  std::unique_ptr<BlockQueue> below_;
  std::mt19937_64 random_;
  WriteCache cache_;
  std::vector<Lane*> lanes_;
  std::vector<Range> bad_;
  bool full_ = false;
  bool stalled_ = false;
  bool off_ = false;
  FaultCounts counts_;
};

}  // namespace larder::block
