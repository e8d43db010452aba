// SPDX-License-Identifier: Apache-2.0
// What is in flight, and when it ends. What becomes of the bytes is in fault_medium_bytes.cc.
#include "block/fault_medium.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace larder::block {

FaultMedium::FaultMedium(std::shared_ptr<DeviceBooks> books, std::unique_ptr<BlockQueue> below,
                         const FaultOptions& options)
    : books_(std::move(books)),
      options_(options),
      below_(std::move(below)),
      random_(options.seed) {}

FaultMedium::~FaultMedium() {
  if (!off_) (void)carry_down();
}

bool FaultMedium::chance(double probability) {
  if (probability <= 0) return false;
  return static_cast<double>(random_() >> 11U) * 0x1.0p-53 < probability;
}

double FaultMedium::error_rate(OpKind kind) const {
  const double rates[] = {options_.read_error, options_.write_error, options_.flush_error,
                          options_.discard_error, options_.write_error};
  return rates[static_cast<std::size_t>(kind)];
}

bool FaultMedium::is_bad(const BlockOp& op) const {
  if (op.kind == OpKind::kFlush || op.kind == OpKind::kDiscard) return false;
  const std::uint64_t end = op.offset + op.bytes();
  return std::any_of(bad_.begin(), bad_.end(), [&](const Range& bad) {
    return op.offset < bad.offset + bad.bytes && bad.offset < end;
  });
}

Result<void> FaultMedium::enter(Lane& lane) {
  const std::lock_guard lock(mutex_);
  if (lanes_.size() >= kQueuesMax) {
    return fail(Code::kExhausted, "the block device has its most queues open; share some");
  }
  lanes_.push_back(&lane);
  return {};
}

// What was held back still moves its bytes, as it would in hardware.
void FaultMedium::leave(Lane& lane) {
  const std::lock_guard lock(mutex_);
  for (const Pending& pending : lane.pending) carry_out(pending);
  lane.pending.clear();
  std::erase(lanes_, &lane);
}

void FaultMedium::take(Lane& lane, const BlockOp& op) {
  const std::lock_guard lock(mutex_);
  Pending pending{op};
  pending.no_space = full_ && writes(op.kind);
  pending.fails = chance(error_rate(op.kind)) || is_bad(op) || pending.no_space;
  if (chance(options_.late)) {
    pending.polls = 1 + static_cast<unsigned>(random_() % std::max(options_.late_polls_max, 1U));
    ++counts_.late;
  }
  lane.pending.push_back(pending);
  if (op.kind == OpKind::kRead) return;
  if (++counts_.changes == options_.cut_at) (void)cut(options_.cut_kind);
}

// The number of one that may end; as many as there are: none.
std::size_t FaultMedium::next_due(Lane& lane) {
  std::vector<std::size_t> due;
  for (std::size_t i = 0; i < lane.pending.size(); ++i) {
    if (lane.pending[i].polls == 0 || off_) due.push_back(i);
  }
  if (due.empty()) return lane.pending.size();
  if (due.size() == 1 || !chance(options_.reorder)) return due.front();
  ++counts_.reordered;
  return due[1 + random_() % (due.size() - 1)];
}

void FaultMedium::step(Lane& lane) {
  if (stalled_ && !off_) return;
  for (Pending& pending : lane.pending) pending.polls -= pending.polls > 0 ? 1 : 0;
  for (;;) {
    const std::size_t index = next_due(lane);
    if (index == lane.pending.size()) return;
    lane.ended.push_back(carry_out(lane.pending[index]));
    lane.pending.erase(lane.pending.begin() + static_cast<std::ptrdiff_t>(index));
  }
}

std::size_t FaultMedium::give(Lane& lane, std::span<BlockDone> into) {
  std::size_t count = 0;
  for (; count < into.size() && !lane.ended.empty(); lane.ended.pop_front()) {
    into[count++] = lane.ended.front();
  }
  return count;
}

std::size_t FaultMedium::collect(Lane& lane, std::span<BlockDone> into) {
  const std::lock_guard lock(mutex_);
  step(lane);
  return give(lane, into);
}

std::size_t FaultMedium::collect_by(Lane& lane, std::span<BlockDone> into, env::Nanos deadline) {
  std::unique_lock lock(mutex_);
  for (;;) {
    step(lane);
    const std::size_t count = give(lane, into);
    if (count > 0 || lane.woken || env::monotonic_now() >= deadline) {
      lane.woken = false;
      return count;
    }
    if (!stalled_ || off_) continue;  // it ends after some more polls
    const env::Nanos left = std::min(deadline - env::monotonic_now(), env::kSecond);
    changed_.wait_for(lock, std::chrono::nanoseconds(std::max<env::Nanos>(left, 0)),
                      [&] { return lane.woken || !stalled_ || off_; });
  }
}

bool FaultMedium::quiesce(Lane& lane, env::Nanos deadline) {
  std::unique_lock lock(mutex_);
  while (stalled_ && !off_ && !lane.pending.empty()) {
    const env::Nanos left = std::min(deadline - env::monotonic_now(), env::kSecond);
    if (left <= 0) return false;
    changed_.wait_for(lock, std::chrono::nanoseconds(left), [&] { return !stalled_ || off_; });
  }
  while (!lane.pending.empty()) step(lane);
  return true;
}

void FaultMedium::wake(Lane& lane) {
  const std::lock_guard lock(mutex_);
  lane.woken = true;
  changed_.notify_all();
}

void FaultMedium::stall(bool stalled) {
  const std::lock_guard lock(mutex_);
  stalled_ = stalled;
  changed_.notify_all();
}

void FaultMedium::set_bad(std::uint64_t offset, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  bad_.push_back({offset, bytes});
}

void FaultMedium::set_full(bool full) {
  const std::lock_guard lock(mutex_);
  full_ = full;
}

FaultCounts FaultMedium::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

Result<void> FaultMedium::cut_power(CutKind kind) {
  const std::lock_guard lock(mutex_);
  return off_ ? Result<void>() : cut(kind);
}

Result<void> FaultMedium::flip_bit(std::uint64_t byte, unsigned bit) {
  const std::lock_guard lock(mutex_);
  const Geometry& geometry = below_->geometry();
  if (byte >= geometry.bytes() || bit > 7) {
    return fail(Code::kInvalidArgument, "there is no such bit on the block device");
  }
  if (off_) return fail(Code::kUnavailable, "the power is off; use the device below");
  LARDER_TRY(carry_down());
  const std::uint64_t start = byte / geometry.block_bytes * geometry.block_bytes;
  LARDER_ASSIGN(auto block, AlignedBuffer::create(geometry.block_bytes, alignment()));
  LARDER_TRY(read_all(*below_, start, block.span()));
  block.data()[byte - start] ^= static_cast<std::byte>(1U << bit);
  ++counts_.rotten;
  return write_all(*below_, start, block.span());
}

}  // namespace larder::block
