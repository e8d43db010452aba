// SPDX-License-Identifier: Apache-2.0
// Threads and waiting. The executor runs background steps; the spin budget keeps waiters from
// taking the cores that the work they wait for needs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "env/clock.h"

namespace larder::env {

// A tick gets the current time and returns when it wants to run next (monotonic).
using Tick = std::function<Nanos(Nanos now)>;

// Runs named steps when they are due. DESIGN 3.10: the same steps run under threads or a simulator.
class Executor {
 public:
  virtual ~Executor() = default;
  // Registers a step; first run as soon as possible. Steps never run concurrently with themselves.
  virtual void add(std::string name, Tick tick) = 0;
  // Makes the named step due now. Callable from any thread.
  virtual void wake(const std::string& name) = 0;
  virtual void stop() = 0;
};

// One thread that runs all steps in the order they fall due. stop() waits for the running one.
std::unique_ptr<Executor> make_thread_executor(Clock& clock);

// At most half of the machine's cores may spin at a time, per process.
class SpinTicket {
 public:
  SpinTicket() noexcept;
  ~SpinTicket();
  SpinTicket(const SpinTicket&) = delete;
  SpinTicket& operator=(const SpinTicket&) = delete;
  bool granted() const noexcept { return granted_; }

 private:
  bool granted_;
};

void set_thread_name(const char* name) noexcept;  // at most 15 characters are kept
unsigned core_count() noexcept;

}  // namespace larder::env
