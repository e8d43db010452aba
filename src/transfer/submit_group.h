// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace larder::transfer {

// The accepted requests of one submit() that has something to do after them. Any thread.
class SubmitGroup {
 public:
  SubmitGroup(std::uint32_t tasks, std::function<void()> then)
      : left_(tasks), then_(std::move(then)) {}
  // `completed`: all of these tasks. The last one to end runs what was asked for, if every task has
  // completed; its bytes are at their place by then.
  void end(std::uint32_t tasks, bool completed) {
    if (!completed) failed_.store(true, std::memory_order_relaxed);
    if (left_.fetch_sub(tasks, std::memory_order_acq_rel) == tasks && !failed_.load()) then_();
  }

 private:
  std::atomic<std::uint32_t> left_;
  std::atomic<bool> failed_{false};
  const std::function<void()> then_;
};

}  // namespace larder::transfer
