// SPDX-License-Identifier: Apache-2.0
// How a thread that has nothing on its queue sleeps. Internal to extent.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "env/clock.h"

namespace larder::extent {

class WakeFlag {
 public:
  // Any thread. `for_caller`: wait() is to return to its caller; else it only looks again.
  void raise(bool for_caller) noexcept {
    const std::lock_guard lock(mutex_);
    (for_caller ? woken_ : stirred_) = true;
    changed_.notify_one();
  }
  // Until raised or `deadline` (monotonic).
  void wait(env::Nanos deadline) {
    std::unique_lock lock(mutex_);
    while (!woken_ && !stirred_) {
      const env::Nanos left = deadline - env::monotonic_now();
      if (left <= 0) return;
      changed_.wait_for(lock, std::chrono::nanoseconds(std::min(left, env::kSecond)));
    }
    stirred_ = false;
  }
  // Whether wait() is to return; once for each raise.
  bool take() noexcept {
    const std::lock_guard lock(mutex_);
    stirred_ = false;
    return std::exchange(woken_, false);
  }

 private:
  std::mutex mutex_;  // guards the flags
  std::condition_variable changed_;
  bool woken_ = false;
  bool stirred_ = false;
};

}  // namespace larder::extent
