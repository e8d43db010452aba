// SPDX-License-Identifier: Apache-2.0
#include "transfer/write_lane.h"

#include <algorithm>

#include "env/thread.h"

namespace larder::transfer {

WriteLane::~WriteLane() {
  std::deque<std::unique_ptr<TcpCall>> left;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    left.swap(queue_);
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  const Error error(Code::kCancelled, "the engine is shutting down");
  for (auto& call : left) TcpCall::fail_all(std::move(call), error);
}

void WriteLane::add(std::unique_ptr<TcpCall> call) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(call));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  if (!sending_) changed_.notify_one();
}

// Under the lock.
std::unique_ptr<TcpCall> WriteLane::take() {
  if (queue_.empty() || sending_) return nullptr;
  auto call = std::move(queue_.front());
  queue_.pop_front();
  sending_ = true;
  return call;
}

bool WriteLane::help() {
  std::unique_ptr<TcpCall> call;
  {
    const std::lock_guard lock(mutex_);
    call = take();
  }
  if (call == nullptr) return false;
  send_(std::move(call));
  const std::lock_guard lock(mutex_);
  sending_ = false;
  if (!queue_.empty() || stopping_) changed_.notify_one();
  return true;
}

void WriteLane::run() {
  env::set_thread_name("larder-send");
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || (!queue_.empty() && !sending_); });
      if (stopping_) return;
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
  }
  TcpCall::fail_all(std::move(found), Error(Code::kCancelled, "cancelled before it was sent"));
}

bool WriteLane::busy() const {
  const std::lock_guard lock(mutex_);
  return sending_ || !queue_.empty();
}

}  // namespace larder::transfer
