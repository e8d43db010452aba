// SPDX-License-Identifier: Apache-2.0
#include "env/clock.h"

#include <cerrno>
#include <ctime>

namespace larder::env {
namespace {

Nanos read(clockid_t id) noexcept {
  timespec ts{};
  ::clock_gettime(id, &ts);
  return static_cast<Nanos>(ts.tv_sec) * kSecond + ts.tv_nsec;
}

class SystemClock final : public Clock {
 public:
  Nanos now() const noexcept override { return read(CLOCK_MONOTONIC); }
  Nanos wall() const noexcept override { return read(CLOCK_REALTIME); }
  void sleep(Nanos duration) noexcept override {
    if (duration <= 0) return;
    timespec ts{duration / kSecond, duration % kSecond};
    while (::nanosleep(&ts, &ts) != 0 && errno == EINTR) {
    }
  }
};

}  // namespace

Clock& system_clock() noexcept {
  static SystemClock clock;
  return clock;
}

Nanos monotonic_now() noexcept {
  return read(CLOCK_MONOTONIC);
}

}  // namespace larder::env
