// SPDX-License-Identifier: Apache-2.0
#include "transfer/write_lane.h"

#include <algorithm>
#include <chrono>

#include "env/thread.h"

namespace larder::transfer {
namespace {

constexpr std::chrono::microseconds kGrace{1000};
constexpr int kLooksBeforeDoze = 20;

}  // namespace

WriteLane::~WriteLane() {
  std::deque<std::unique_ptr<TcpCall>> left;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    left.swap(queue_);
    unattended_ = 0;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  const Error error(Code::kCancelled, "the engine is shutting down");
  for (auto& call : left) TcpCall::fail_all(std::move(call), error);
}

void WriteLane::add(std::unique_ptr<TcpCall> call) {
  const std::lock_guard lock(mutex_);
  const bool hurry = !call->attended() || dozing_;
  if (!call->attended()) ++unattended_;
  queue_.push_back(std::move(call));
  waiting_.store(true, std::memory_order_relaxed);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  if (!sending_ && hurry) changed_.notify_one();
}

// Under the lock.
std::unique_ptr<TcpCall> WriteLane::take() {
  if (queue_.empty() || sending_) return nullptr;
  auto call = std::move(queue_.front());
  queue_.pop_front();
  waiting_.store(!queue_.empty(), std::memory_order_relaxed);
  if (!call->attended()) --unattended_;
  sending_ = true;
  return call;
}

bool WriteLane::help() {
  if (!waiting_.load(std::memory_order_relaxed)) return false;
  std::unique_ptr<TcpCall> call;
  {
    const std::lock_guard lock(mutex_);
    call = take();
  }
  if (call == nullptr) return false;
  send_(std::move(call));
  const std::lock_guard lock(mutex_);
  sending_ = false;
  ++sends_;
  if (unattended_ > 0 || stopping_) changed_.notify_one();
  return true;
}

// Until there is a call for the lane's own thread to send; false: the lane is closed.
bool WriteLane::wait_for_call(std::unique_lock<std::mutex>& lock) {
  const auto own = [this] { return stopping_ || (unattended_ > 0 && !sending_); };
  for (int idle_looks = 0; !own();) {
    const unsigned sends = sends_;
    if (idle_looks == kLooksBeforeDoze) {
      dozing_ = true;
      changed_.wait(lock, [&] { return own() || !queue_.empty(); });
      dozing_ = false;
      idle_looks = 0;
    }
    if (changed_.wait_for(lock, kGrace, own)) break;
    idle_looks = sends == sends_ ? idle_looks + 1 : 0;
    if (!queue_.empty() && !sending_ && sends == sends_) break;
  }
  return !stopping_;
}

void WriteLane::run() {
  env::set_thread_name("larder-send");
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (!wait_for_call(lock)) return;
    }
    help();
  }
}

void WriteLane::cancel(PieceToken token) {
  std::unique_ptr<TcpCall> found;
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::find_if(queue_.begin(), queue_.end(), [&](const auto& call) {
      return call->pieces() == 1 && call->holds(token);
    });
    if (at == queue_.end()) return;
    found = std::move(*at);
    queue_.erase(at);
    waiting_.store(!queue_.empty(), std::memory_order_relaxed);
    if (!found->attended()) --unattended_;
  }
  TcpCall::fail_all(std::move(found), Error(Code::kCancelled, "cancelled before it was sent"));
}

bool WriteLane::busy() const {
  const std::lock_guard lock(mutex_);
  return sending_ || !queue_.empty();
}

}  // namespace larder::transfer
