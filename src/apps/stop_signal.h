// SPDX-License-Identifier: Apache-2.0
// SIGINT and SIGTERM as a flag and a descriptor. The first asks politely; the second ends the
// process at once with 128 + its number. SIGHUP, for those who ask for it, ends nothing.
#pragma once

#include <atomic>

#include "env/fd.h"
#include "larder/status.h"

namespace larder::apps {

// One at a time per process; restores the former handlers when destroyed.
class StopSignal {
 public:
  // `hangup`: SIGHUP makes wait() return, instead of ending the process.
  static Result<StopSignal> install(bool hangup = false);
  StopSignal(StopSignal&& other) noexcept;
  StopSignal& operator=(StopSignal&&) = delete;
  ~StopSignal();

  // The signal that came, or 0. Async: may change at any time.
  static int received() noexcept;
  static const std::atomic<int>& flag() noexcept;
  // Blocks until one came; returns it. SIGHUP: several may merge; wait again.
  int wait() const noexcept;

 private:
  StopSignal(env::Fd event, bool hangup) : event_(std::move(event)), hangup_(hangup) {}
  env::Fd event_;
  bool hangup_;
};

}  // namespace larder::apps
