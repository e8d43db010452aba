// SPDX-License-Identifier: Apache-2.0
#include "env/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

namespace larder::env {

void random_bytes(std::span<std::byte> into) noexcept {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t n = ::getrandom(into.data() + done, into.size() - done, 0);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      std::abort();  // a nonce that is not random would be worse than stopping
    }
  }
}

std::uint64_t random_u64() noexcept {
  std::uint64_t value = 0;
  random_bytes(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace larder::env
