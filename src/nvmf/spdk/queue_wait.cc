// SPDX-License-Identifier: Apache-2.0
// How a queue waits, and what it does when the controller is lost.
#include <algorithm>
#include <cerrno>

#include "env/thread.h"
#include "nvmf/spdk/queue.h"

namespace larder::nvmf {
namespace {

constexpr env::Nanos kSpin = 1 * env::kMilli;         // then it naps between looks
constexpr env::Nanos kNap = 50 * env::kMicro;         // the driver wakes nobody
constexpr env::Nanos kCheckEvery = 20 * env::kMilli;  // deadlines of commands
constexpr int kPollsPerYield = 32;

}  // namespace

void SpdkQueue::start() {
  attend_channel();
  if (!open_) return;
  issue();
}

void SpdkQueue::wake() noexcept {
  woken_.store(true, std::memory_order_release);
  channel_->waker().notify();
}

// Everything that can be done without waiting.
void SpdkQueue::advance() {
  attend_channel();
  if (!open_) return;
  issue();
  if (channel_->in_flight() == 0) return;
  const auto moved = channel_->poll();
  reap();
  if (!moved) return lose(moved.error().message());
  if (!cut_.empty()) return lose("the driver gave up a command");
  if (!waiting_.empty()) issue();
  now_ = env::monotonic_now();
  if (now_ - checked_ > kCheckEvery) check_deadlines(now_);
}

std::size_t SpdkQueue::collect(std::span<block::BlockDone> into) {
  if (ended_.size() < into.size() && !idle()) advance();
  return give(into);
}

std::size_t SpdkQueue::collect_by(std::span<block::BlockDone> into, env::Nanos deadline) {
  const env::SpinTicket ticket;
  const env::Nanos spin_until = env::monotonic_now() + kSpin;
  for (int polls = 1;; ++polls) {
    if (ended_.empty()) advance();
    if (!ended_.empty()) return give(into);
    if (woken_.exchange(false, std::memory_order_acq_rel)) return 0;
    const env::Nanos now = env::monotonic_now();
    if (idle() || now >= deadline) return 0;
    const bool spins = open_ && ticket.granted() && now < spin_until;
    if (spins && (polls % kPollsPerYield != 0 || !env::yield_core())) continue;
    pause(deadline);
  }
}

// Without a channel the device's thread says when there is news.
void SpdkQueue::pause(env::Nanos deadline) {
  const env::Nanos until = open_ ? std::min(deadline, env::monotonic_now() + kNap) : deadline;
  sleep_on(-1, 0, channel_->waker().descriptor(), until);
  channel_->waker().drain();
}

bool SpdkQueue::quiesce(env::Nanos deadline) {
  for (;;) {
    end_waiting(Code::kCancelled);
    advance();
    end_waiting(Code::kCancelled);  // what was to be sent again
    if (idle()) return true;
    if (env::monotonic_now() >= deadline) return false;
    pause(deadline);
  }
}

// ---- the controller

void SpdkQueue::attend_channel() {
  if (open_ && (lost_->load() || !channel_->is_open())) drop();
  if (auto news = channel_->take_news()) {
    wanted_ = false;
    if (!*news) return end_waiting(Code::kUnavailable);
    open_ = true;
    lost_ = channel_->lost();
    now_ = checked_ = env::monotonic_now();
  }
  if (open_ || waiting_.empty() || wanted_) return;
  if (books().health().failed() || state_->options().remote.reattach == Reattach::kNever) {
    return end_waiting(Code::kUnavailable);
  }
  env::Nanos until = block::kNoDeadline;
  for (const std::uint32_t number : waiting_) until = std::min(until, ops_[number].wait_until);
  wanted_ = true;
  channel_->want(until);
  state_->tell();
}

void SpdkQueue::check_deadlines(env::Nanos now) {
  checked_ = now;
  const auto late = channel_->sent_before(now - state_->options().remote.io_timeout);
  if (late.empty()) return;
  for (const std::uint64_t number : late) ops_[number].too_late = true;
  lose("the target does not end a command in time");
}

void SpdkQueue::lose(const std::string& reason) {
  if (!open_) return;
  state_->lose(*lost_, reason);
  drop();
  attend_channel();
}

// Closes first: after that nothing touches memory of the operations that were in flight.
void SpdkQueue::drop() {
  channel_->close();
  open_ = false;
  reap();
  now_ = env::monotonic_now();
  for (const std::uint32_t number : std::exchange(cut_, {})) retry_or_end(number);
  for (const std::uint32_t number : waiting_) {
    ops_[number].wait_until = now_ + state_->options().remote.reattach_timeout;
  }
}

void SpdkQueue::retry_or_end(std::uint32_t number) {
  Op& op = ops_[number];
  op.cut = false;
  const bool again = state_->options().remote.reattach == Reattach::kOnce && op.done.ok() &&
                     !op.retried && !op.too_late && !books().health().failed();
  if (again) {
    op.retried = true;
    op.planned = 0;
    op.reissued = 0;
    state_->counters().retried.fetch_add(1, std::memory_order_relaxed);
    return enqueue(number);
  }
  if (op.done.ok()) {
    op.done.code = Code::kUnavailable;
    op.done.sys_errno = op.too_late ? ETIMEDOUT : 0;
  }
  op.planned = op.total;
  if (!op.waiting) finish(number);
}

}  // namespace larder::nvmf
