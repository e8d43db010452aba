// SPDX-License-Identifier: Apache-2.0
// How a queue waits, and what it does when its connection is lost.
#include <algorithm>
#include <cerrno>

#include "env/thread.h"
#include "nvmf/host/queue_impl.h"

namespace larder::nvmf {
namespace {

// A waiter polls this long before it sleeps, as the peer protocol does.
constexpr env::Nanos kSpin = 100 * env::kMicro;
constexpr int kPollsPerYield = 32;
// Where others want the core, a yield costs a time slice of theirs; who sleeps instead is woken
// before them. So after such a yield nobody spins for this long.
constexpr env::Nanos kCrowded = 50 * env::kMilli;
constexpr env::Nanos kSlice = 500 * env::kMicro;  // less was an interrupt, or one with little to do
constexpr env::Nanos kCheckEvery = 20 * env::kMilli;  // deadlines of commands

}  // namespace

void NvmeQueue::start() {
  attend_connection();
  if (connection_.pair == nullptr) return;
  issue();
  static_cast<void>(connection_.pair->flush());
}

void NvmeQueue::wake() noexcept {
  woken_.store(true, std::memory_order_release);
  link_->waker().notify();
}

// Everything that can be done without waiting.
void NvmeQueue::advance() {
  attend_connection();
  if (connection_.pair == nullptr) return;
  issue();
  if (connection_.pair->session().in_flight() == 0) return;
  const auto moved = connection_.pair->pump();
  reap();  // also what had ended before the connection broke
  if (!moved) return lose(moved.error().message());
  if (!waiting_.empty()) {
    issue();
    static_cast<void>(connection_.pair->flush());
  }
  now_ = env::monotonic_now();
  if (now_ - checked_ > kCheckEvery) check_deadlines(now_);
}

std::size_t NvmeQueue::collect(std::span<block::BlockDone> into) {
  if (ended_.size() < into.size() && !idle()) advance();
  return give(into);
}

std::size_t NvmeQueue::collect_by(std::span<block::BlockDone> into, env::Nanos deadline) {
  for (;;) {
    if (ended_.empty()) advance();
    if (!ended_.empty()) return give(into);
    if (woken_.exchange(false, std::memory_order_acq_rel)) return 0;
    if (idle() || env::monotonic_now() >= deadline) return 0;
    if (spin(deadline)) continue;
    doze(deadline);
  }
}

void NvmeQueue::doze(env::Nanos deadline) {
  const bool connected = connection_.pair != nullptr;
  const short events = static_cast<short>(
      env::kReadable | (connected && connection_.pair->blocked() ? env::kWritable : 0));
  sleep_on(connected ? connection_.pair->descriptor() : -1, events, link_->waker().descriptor(),
           next_due(deadline));
  link_->waker().drain();
}

// True: something is there to look at.
bool NvmeQueue::spin(env::Nanos deadline) {
  if (connection_.pair == nullptr || now_ < crowded_until_) return false;
  const env::SpinTicket ticket;
  const env::Nanos end = std::min(deadline, env::monotonic_now() + kSpin);
  for (int polls = 1; ticket.granted() && env::monotonic_now() < end; ++polls) {
    advance();
    const bool news =
        !ended_.empty() || connection_.pair == nullptr || woken_.load(std::memory_order_relaxed);
    if (news) return true;
    if (polls % kPollsPerYield != 0) continue;
    const env::Nanos before = env::monotonic_now();
    if (!env::yield_core()) continue;
    const env::Nanos after = env::monotonic_now();
    if (after - before > kSlice) crowded_until_ = after + kCrowded;
    break;
  }
  return false;
}

env::Nanos NvmeQueue::next_due(env::Nanos deadline) const {
  if (connection_.pair != nullptr) {
    const env::Nanos oldest = connection_.pair->session().oldest();
    if (oldest != block::kNoDeadline) {
      deadline = std::min(deadline, oldest + state_->options().io_timeout + kCheckEvery);
    }
  }
  return deadline;  // without a connection the background thread keeps the time
}

bool NvmeQueue::quiesce(env::Nanos deadline) {
  for (;;) {
    end_waiting(Code::kCancelled);
    advance();
    end_waiting(Code::kCancelled);  // what was to be sent again
    if (idle()) return true;
    if (env::monotonic_now() >= deadline) return false;
    doze(deadline);
  }
}

// ---- connections

void NvmeQueue::attend_connection() {
  if (connection_.pair != nullptr) {
    const bool gone = connection_.association->lost.load() || !connection_.pair->open();
    if (!gone) return;
    reap();
    drop();
  }
  if (auto news = link_->take()) accept(std::move(*news));
  if (connection_.pair != nullptr || waiting_.empty() || wanted_) return;
  if (books().health().failed() || state_->options().reattach == Reattach::kNever) {
    return end_waiting(Code::kUnavailable);
  }
  env::Nanos until = block::kNoDeadline;
  for (const std::uint32_t number : waiting_) until = std::min(until, ops_[number].wait_until);
  wanted_ = true;
  link_->want(until);
  state_->tell();
}

void NvmeQueue::accept(QueueLink::News news) {
  wanted_ = false;
  if (!news) return end_waiting(Code::kUnavailable);
  if (news->association->lost.load()) return;  // it is asked for again
  connection_ = std::move(*news);
  digest_errors_ = 0;
  now_ = checked_ = env::monotonic_now();
}

void NvmeQueue::check_deadlines(env::Nanos now) {
  checked_ = now;
  bool late = false;
  connection_.pair->session().visit_older(now - state_->options().io_timeout,
                                          [&](const Request& request) {
                                            late = true;
                                            ops_[request.owner].too_late = true;
                                          });
  if (late) lose("the target does not end a command in time");
}

// This connection is over, and with it the association.
void NvmeQueue::lose(const std::string& reason) {
  if (connection_.pair == nullptr) return;
  state_->lose(*connection_.association, reason);
  drop();
  attend_connection();
}

// Closes first: after that nothing touches memory of the operations that were in flight.
void NvmeQueue::drop() {
  if (connection_.pair->open()) {
    connection_.pair->close();
  }
  std::vector<std::uint32_t> hit;
  connection_.pair->session().abandon([&](const Request& request) {
    const auto number = static_cast<std::uint32_t>(request.owner);
    if (--ops_[number].outstanding == 0) hit.push_back(number);
  });
  connection_.pair.reset();
  now_ = env::monotonic_now();
  for (const std::uint32_t number : hit) retry_or_end(number);
  for (const std::uint32_t number : waiting_) {
    ops_[number].wait_until = now_ + state_->options().reattach_timeout;
  }
}

void NvmeQueue::retry_or_end(std::uint32_t number) {
  Op& op = ops_[number];
  const bool again = state_->options().reattach == Reattach::kOnce && op.done.ok() && !op.retried &&
                     !op.too_late && !books().health().failed();
  if (again) {
    op.retried = true;
    op.planned = 0;
    op.reissued = 0;
    op.range_piece = {};
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
