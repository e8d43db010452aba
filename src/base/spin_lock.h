// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <atomic>

namespace larder {

// For critical sections of a few dozen instructions. Yields after a short spin, so that a holder
// that lost its core can finish. Meets the Lockable requirements.
class SpinLock {
 public:
  void lock() noexcept {
    for (int tries = 0; held_.exchange(true, std::memory_order_acquire); ++tries) {
      while (held_.load(std::memory_order_relaxed)) {
        if (++tries > kSpinsBeforeYield) {
          ::sched_yield();
          tries = 0;
        }
      }
    }
  }
  bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpinsBeforeYield = 64;
  std::atomic<bool> held_{false};
};

}  // namespace larder
