// SPDX-License-Identifier: Apache-2.0
#include "rpc/payload.h"

#include <algorithm>

namespace larder::rpc {
namespace {

constexpr std::size_t kDiscardBytes = 128 << 10;

}  // namespace

DiscardSink::DiscardSink() : scratch_(new std::byte[kDiscardBytes]) {}

std::size_t DiscardSink::next(std::span<iovec> into) {
  into[0] = {scratch_.get(), kDiscardBytes};
  return 1;
}

std::span<iovec> consume(std::span<iovec> list, std::size_t bytes) noexcept {
  while (!list.empty() && bytes >= list.front().iov_len) {
    bytes -= list.front().iov_len;
    list = list.subspan(1);
  }
  if (bytes > 0) {
    list.front().iov_base = static_cast<std::byte*>(list.front().iov_base) + bytes;
    list.front().iov_len -= bytes;
  }
  return list;
}

env::IoResult send_front(int fd, std::span<iovec> list) noexcept {
  std::size_t count = 0;
  std::size_t bytes = 0;
  while (count < list.size() && bytes < kSendBytesMax) bytes += list[count++].iov_len;
  const std::size_t over = bytes > kSendBytesMax ? bytes - kSendBytesMax : 0;
  list[count - 1].iov_len -= over;
  const env::IoResult sent = env::send(fd, list.first(count));
  list[count - 1].iov_len += over;
  return sent;
}

std::size_t total_bytes(std::span<const iovec> list) noexcept {
  std::size_t total = 0;
  for (const iovec& piece : list) total += piece.iov_len;
  return total;
}

}  // namespace larder::rpc
