// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/waker.h"

#include <poll.h>

#include <algorithm>
#include <ctime>

namespace larder::nvmf {

void sleep_on(int first, short events, int second, env::Nanos deadline) noexcept {
  pollfd entries[2] = {{first, events, 0}, {second, POLLIN, 0}};
  for (;;) {
    const env::Nanos left =
        std::clamp<env::Nanos>(deadline - env::monotonic_now(), 0, 3600 * env::kSecond);
    const timespec timeout{left / env::kSecond, left % env::kSecond};
    const int ready = ::ppoll(entries, 2, &timeout, nullptr);
    if (ready >= 0 || errno != EINTR) return;
  }
}

}  // namespace larder::nvmf
