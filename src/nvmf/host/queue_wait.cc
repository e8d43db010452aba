// SPDX-License-Identifier: Apache-2.0
// How a queue waits, and what it does when its connection is lost.
#include <algorithm>

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

}  // namespace

void NvmeQueue::start() {
  attend_connection();
  if (connection_.pair == nullptr) return;
  issue();
  static_cast<void>(connection_.pair->flush());
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
  // What was issued now, or is sent again, must not wait for the next look: there may be a sleep
  // before it.
  issue();
  if (!connection_.pair->blocked() && connection_.pair->session().has_outgoing()) {
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

// ---- connections

void NvmeQueue::attend_connection() {
  if (connection_.pair != nullptr) {
    const bool gone = connection_.association->lost.load() || !connection_.pair->open();
    if (!gone) return;
    reap();
    drop();
  }
  if (auto news = link_->take()) accept(std::move(*news));
  if (connection_.pair != nullptr) return;
  const auto until = newly_wanted();
  if (!until) return;
  link_->want(*until);
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
  for (const std::uint32_t number : hit) {
    ops_[number].range_piece = {};
    retry_or_end(number);
  }
  restart_waits();
}

}  // namespace larder::nvmf
