// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/remote_queue.h"

#include <algorithm>
#include <cerrno>

namespace larder::nvmf {

RemoteQueue::RemoteQueue(RemoteState& state, const Waker& waker, std::size_t depth)
    : BlockQueue(state.books(), depth), state_of_(state), waker_(waker) {
  free_.reserve(depth);
  for (std::size_t i = depth; i-- > 0;) free_.push_back(static_cast<std::uint32_t>(i));
}

void RemoteQueue::wake() noexcept {
  woken_.store(true, std::memory_order_release);
  waker_.notify();
}

bool RemoteQueue::quiesce(env::Nanos deadline) {
  for (;;) {
    end_waiting(Code::kCancelled);
    advance();
    end_waiting(Code::kCancelled);  // what was to be sent again
    if (idle()) return true;
    if (env::monotonic_now() >= deadline) return false;
    doze(deadline);
  }
}

// ---- operations come

std::uint32_t RemoteQueue::take_number() {
  const std::uint32_t number = free_.back();
  free_.pop_back();
  return number;
}

void RemoteQueue::begin(Op& slot, const block::BlockOp& op) {
  slot.done = {op.tag, Code::kOk, 0, op.kind, op.offset, op.bytes(), op.trace_id};
  slot.pieces = op.pieces;
  slot.purpose = op.purpose;
  slot.total = op.kind == block::OpKind::kFlush ? 1 : slot.done.bytes;
  now_ = slot.begun = env::monotonic_now();
  slot.wait_until = now_ + state_of_.remote().reattach_timeout;
  if (op.kind == block::OpKind::kFlush) slot.writes_before = state_of_.flushes().writes();
}

void RemoteQueue::enqueue(std::uint32_t number) {
  if (std::exchange(op_at(number).waiting, true)) return;
  waiting_.push_back(number);
}

// ---- and end

void RemoteQueue::finish(std::uint32_t number) {
  Op& op = op_at(number);
  block::BlockDone& done = op.done;
  if (done.ok() && block::changes(done.kind)) state_of_.note_write(lost());
  if (done.kind == block::OpKind::kFlush) {
    if (state_of_.flushes().writes_lost()) {
      state_of_.fail_flush();
      done.code = Code::kUnavailable;
    } else if (done.ok()) {
      state_of_.flushes().note_flush(op.writes_before);
    }
  }
  state_of_.counters().took(done.kind, std::max<env::Nanos>(0, now_ - op.begun));
  ended_.push_back(number);
}

std::size_t RemoteQueue::give(std::span<block::BlockDone> into) {
  std::size_t count = 0;
  for (; count < into.size() && !ended_.empty(); ended_.pop_front()) {
    into[count++] = op_at(ended_.front()).done;
    free_.push_back(ended_.front());
  }
  return count;
}

void RemoteQueue::end_waiting(Code code) {
  while (!waiting_.empty()) {
    const std::uint32_t number = waiting_.front();
    waiting_.pop_front();
    Op& op = op_at(number);
    op.waiting = false;
    if (op.done.ok() && op.planned < op.total) op.done.code = code;
    op.planned = op.total;
    if (op.outstanding == 0) finish(number);
  }
}

// ---- the tie was lost

std::optional<env::Nanos> RemoteQueue::newly_wanted() {
  if (waiting_.empty() || wanted_) return std::nullopt;
  if (books().health().failed() || state_of_.remote().reattach == Reattach::kNever) {
    end_waiting(Code::kUnavailable);
    return std::nullopt;
  }
  env::Nanos until = block::kNoDeadline;
  for (const std::uint32_t number : waiting_) until = std::min(until, op_at(number).wait_until);
  wanted_ = true;
  return until;
}

void RemoteQueue::retry_or_end(std::uint32_t number) {
  Op& op = op_at(number);
  const bool again = state_of_.remote().reattach == Reattach::kOnce && op.done.ok() &&
                     !op.retried && !op.too_late && !books().health().failed();
  if (again) {
    op.retried = true;
    op.planned = 0;
    op.reissued = 0;
    state_of_.counters().retried.fetch_add(1, std::memory_order_relaxed);
    return enqueue(number);
  }
  if (op.done.ok()) {
    op.done.code = Code::kUnavailable;
    op.done.sys_errno = op.too_late ? ETIMEDOUT : 0;
  }
  op.planned = op.total;
  if (!op.waiting) finish(number);
}

void RemoteQueue::restart_waits() {
  for (const std::uint32_t number : waiting_) {
    op_at(number).wait_until = now_ + state_of_.remote().reattach_timeout;
  }
}

}  // namespace larder::nvmf
