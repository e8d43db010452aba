// SPDX-License-Identifier: Apache-2.0
// The other end of the raw-socket limits: a process of its own, as a node is, that answers requests
// with bytes over TCP and a Unix socket and does nothing else. No library of ours is on its data
// path: plain recv and send, default socket buffers, TCP_NODELAY.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "apps/bench/case_name.h"
#include "apps/bench/memory.h"
#include "env/fd.h"
#include "env/socket.h"
#include "env/temp_directory.h"
#include "larder/status.h"

namespace larder::apps {

enum class Wait : std::uint8_t {
  kBlock,  // recv and send sleep in the kernel
  kSpin,   // non-blocking calls, again and again
  kBrief,  // non-blocking calls for kBriefSpin without progress, then one that sleeps: what the
           // store does. As fast as spinning on idle cores, and not lost when others want the cores
};
inline constexpr env::Nanos kBriefSpin = 100 * env::kMicro;

inline constexpr std::size_t kRawHeaderBytes = 64;      // the small side of every exchange
inline constexpr std::size_t kRawWriteBytes = 1 << 20;  // one send, at most
inline constexpr std::uint64_t kRawMessageMax = 8ULL << 30;

// Not thread safe.
class RawPeer {
 public:
  // Forks: call it before this process starts threads. The peer keeps `set_bytes` of node-like
  // shared memory to send from and receive into (taken on the first connection).
  static Result<std::unique_ptr<RawPeer>> start(std::uint64_t set_bytes);
  ~RawPeer();  // ends and reaps the peer
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;
  // Where it listens. kLocal means the Unix socket, as for a client on the node's host.
  const env::SocketAddress& address(BenchPath path) const noexcept;
  pid_t pid() const noexcept { return pid_; }

 private:
  RawPeer() = default;
  pid_t pid_ = -1;
  std::optional<env::TempDirectory> directory_;
  env::SocketAddress tcp_;
  env::SocketAddress unix_;
};

// One connection to the peer. One thread at a time.
class RawConnection {
 public:
  static Result<RawConnection> connect(const env::SocketAddress& address);
  // How both ends wait from now on. Between rounds it should be kBlock: a peer that spins takes a
  // core from whatever else is measured.
  Result<void> set_wait(Wait wait);
  // Sends a request of kRawHeaderBytes with `up_bytes` more behind it, taken from `source` slot by
  // slot, and receives `down_bytes` into `sink` slot by slot. One exchange in flight.
  // `up_bytes` is cut to whole slots of the source where it is larger than one.
  Result<void> exchange(std::uint64_t up_bytes, Slots& source, std::uint64_t down_bytes,
                        Slots& sink);
  // The halves of such an exchange, for several in flight: requests without more behind them, many
  // in one call, and one answer.
  Result<void> ask(std::size_t requests, std::uint64_t down_bytes);
  Result<void> answer(std::uint64_t down_bytes, Slots& sink);

 private:
  explicit RawConnection(env::Fd fd) : fd_(std::move(fd)) {}
  env::Fd fd_;
  Wait wait_ = Wait::kBlock;
};

}  // namespace larder::apps
