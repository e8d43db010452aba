// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "env/fd.h"
#include "env/socket.h"
#include "larder/status.h"

namespace larder::nvmf {

// Ends another thread's sleep on a descriptor. Any thread.
class Waker {
 public:
  // kExhausted: no descriptors.
  static Result<Waker> create() {
    Waker out;
    out.fd_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!out.fd_.valid()) return fail(Code::kExhausted, "eventfd: " + env::errno_text(errno));
    return out;
  }
  void notify() const noexcept {
    const std::uint64_t one = 1;
    // Only a counter that is full says no, and that one is readable.
    static_cast<void>(::write(fd_.get(), &one, sizeof(one)) == 0);
  }
  void drain() const noexcept {
    std::uint64_t count = 0;
    static_cast<void>(::read(fd_.get(), &count, sizeof(count)) == 0);
  }
  int descriptor() const noexcept { return fd_.get(); }

 private:
  env::Fd fd_;
};

// Sleeps until `first` (may be -1) is ready for `events`, `second` is readable, or `deadline`.
void sleep_on(int first, short events, int second, env::Nanos deadline) noexcept;

}  // namespace larder::nvmf
