// SPDX-License-Identifier: Apache-2.0
// SIGINT and SIGTERM as a flag and a descriptor. The first asks politely; the second ends the
// process at once with 128 + its number.
#pragma once

#include <atomic>

#include "env/fd.h"
#include "larder/status.h"

namespace larder::apps {

// One at a time per process; restores the former handlers when destroyed.
class StopSignal {
 public:
  static Result<StopSignal> install();
  StopSignal(StopSignal&& other) noexcept;
  StopSignal& operator=(StopSignal&&) = delete;
  ~StopSignal();

  // The signal that came, or 0. Async: may change at any time.
  static int received() noexcept;
  static const std::atomic<int>& flag() noexcept;
  // Blocks until one came; returns it.
  int wait() const noexcept;

 private:
  explicit StopSignal(env::Fd event) : event_(std::move(event)) {}
  env::Fd event_;
};

}  // namespace larder::apps
