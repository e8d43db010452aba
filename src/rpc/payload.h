// SPDX-License-Identifier: Apache-2.0
// Where payload bytes go to and come from. Both ends of a connection use the same two interfaces,
// so that payload is received straight into its destination and sent from where it lies.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "env/socket.h"

namespace larder::rpc {

// Places for incoming payload. Called by one thread at a time.
class PayloadSink {
 public:
  virtual ~PayloadSink() = default;
  // Fills `into` with the next places, in order; returns how many. At least one place of at least
  // one byte while bytes remain. The places stay valid until advance() has passed them.
  virtual std::size_t next(std::span<iovec> into) = 0;
  // The first `bytes` bytes of the places last given have arrived.
  virtual void advance(std::size_t bytes) = 0;
  // How much work a byte means, in bytes moved: above 1 where payload only describes bytes that the
  // sink then copies itself. Counts against the connection's turn.
  virtual std::size_t weight() const noexcept { return 1; }
};

// Swallows payload that nobody wants: refused requests, late replies, timed-out destinations.
class DiscardSink final : public PayloadSink {
 public:
  DiscardSink();
  std::size_t next(std::span<iovec> into) override;
  void advance(std::size_t bytes) override {}

 private:
  std::unique_ptr<std::byte[]> scratch_;
};

// Outgoing payload, chunk by chunk. Called by one thread at a time.
class PayloadSource {
 public:
  virtual ~PayloadSource() = default;
  // Fills `into` with the next pieces to send; 0 at the end. Pieces stay valid until the next call.
  virtual std::size_t next(std::span<iovec> into) = 0;
};

// Removes `bytes` from the front of the list; returns what is left of it.
std::span<iovec> consume(std::span<iovec> list, std::size_t bytes) noexcept;
std::size_t total_bytes(std::span<const iovec> list) noexcept;
// At most this much is handed to the kernel at once. Gets of 1 MiB over loopback went from
// 0.48-0.81 to 0.98-1.22 of a raw exchange with it. Supposed cause: a stream that is refilled in
// pieces keeps using the same few pages of kernel memory, warm in the cache; a longer call takes
// new ones.
constexpr std::size_t kSendBytesMax = 64 << 10;
// Sends the front of `list`, at most kSendBytesMax; env::IoResult::bytes says how much went.
env::IoResult send_front(int fd, std::span<iovec> list) noexcept;

}  // namespace larder::rpc
