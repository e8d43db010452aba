// SPDX-License-Identifier: Apache-2.0
// Time comes from here and nowhere else, so that tests and the simulator can own it.
#pragma once

#include <atomic>
#include <cstdint>

namespace larder::env {

using Nanos = std::int64_t;  // since an arbitrary start; monotonic
inline constexpr Nanos kMicro = 1000;
inline constexpr Nanos kMilli = 1000 * kMicro;
inline constexpr Nanos kSecond = 1000 * kMilli;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanos now() const noexcept = 0;   // monotonic
  virtual Nanos wall() const noexcept = 0;  // since the Unix epoch
  virtual void sleep(Nanos duration) noexcept = 0;
};

// The machine's clock. Never destroyed; any thread.
Clock& system_clock() noexcept;
// Monotonic nanoseconds of the machine's clock, without a virtual call.
Nanos monotonic_now() noexcept;

// Moves only when told to. Any thread.
class ManualClock final : public Clock {
 public:
  Nanos now() const noexcept override { return now_.load(std::memory_order_acquire); }
  Nanos wall() const noexcept override { return now(); }
  void sleep(Nanos duration) noexcept override { advance(duration); }
  void advance(Nanos duration) noexcept { now_.fetch_add(duration, std::memory_order_acq_rel); }

 private:
  std::atomic<Nanos> now_{kSecond};
};

}  // namespace larder::env
