// SPDX-License-Identifier: Apache-2.0
// How a queue waits, and what it does when the controller is lost.
#include <algorithm>

#include "env/thread.h"
#include "nvmf/spdk/queue.h"

namespace larder::nvmf {
namespace {

constexpr env::Nanos kSpin = 1 * env::kMilli;  // then it naps between looks
constexpr env::Nanos kNap = 50 * env::kMicro;  // the driver wakes nobody
constexpr int kPollsPerYield = 32;

}  // namespace

void SpdkQueue::start() {
  attend_channel();
  if (!open_) return;
  issue();
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
    doze(deadline);
  }
}

// Without a channel the device's thread says when there is news.
void SpdkQueue::doze(env::Nanos deadline) {
  const env::Nanos until = open_ ? std::min(deadline, env::monotonic_now() + kNap) : deadline;
  sleep_on(-1, 0, channel_->waker().descriptor(), until);
  channel_->waker().drain();
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
  if (open_) return;
  const auto until = newly_wanted();
  if (!until) return;
  channel_->want(*until);
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
  for (const std::uint32_t number : std::exchange(cut_, {})) {
    ops_[number].cut = false;
    retry_or_end(number);
  }
  restart_waits();
}

}  // namespace larder::nvmf
