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

// Held by a thread that waits. It may spin while no more threads of the process wait than half the
// machine's cores: beyond that, whoever spins keeps the core from one that has its answer.
// Tickets that one thread holds count once; each ends on the thread that made it.
class SpinTicket {
 public:
  SpinTicket() noexcept;
  ~SpinTicket();
  SpinTicket(const SpinTicket&) = delete;
  SpinTicket& operator=(const SpinTicket&) = delete;
  bool granted() const noexcept;
};

// Offers the core to other threads. True when one took it: then this core has better things to do
// than to be spun on, and the caller should sleep.
bool yield_core() noexcept;

void set_thread_name(const char* name) noexcept;  // at most 15 characters are kept
unsigned core_count() noexcept;

}  // namespace larder::env
