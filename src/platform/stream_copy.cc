// SPDX-License-Identifier: Apache-2.0
#include "platform/stream_copy.h"

#include <cstddef>
#include <cstring>
#include LARDER_STREAM_HEADER

namespace larder::platform {

void stream_copy(void* dst, const void* src, std::uint64_t bytes) noexcept {
  if (bytes < kStreamBytesMin) {
    std::memcpy(dst, src, bytes);
    return;
  }
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  const std::size_t head = (kLineBytes - reinterpret_cast<std::uintptr_t>(to)) % kLineBytes;
  const std::size_t lines = (bytes - head) / kLineBytes;
  const std::size_t done = head + lines * kLineBytes;
  std::memcpy(to, from, head);
  std::memcpy(to + done, from + done, bytes - done);
  stream_lines(to + head, from + head, lines);
}

}  // namespace larder::platform
