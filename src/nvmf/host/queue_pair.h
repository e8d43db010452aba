// SPDX-License-Identifier: Apache-2.0
// One connection to a controller: handshake (TCP 1.0 section 3.3.1), Connect (Fabrics 1.1 section
// 3.3), then commands. An admin queue or an I/O queue.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "env/fd.h"
#include "env/socket.h"
#include "nvmf/host/host_identity.h"
#include "nvmf/host/session.h"

namespace larder::nvmf {

struct PairOptions {
  env::SocketAddress address;
  std::string subnqn;
  HostIdentity host;
  bool header_digest = false;
  bool data_digest = false;
  std::uint16_t qid = 0;            // 0: the admin queue
  std::uint16_t cntlid = 0xFFFF;    // of an I/O queue: the controller that the admin queue got
  std::uint16_t entries = 32;       // of the queue; one less are in flight at most; at least 2
  std::uint32_t keep_alive_ms = 0;  // of the admin queue; 0: none
  // Of I/O queues, by Identify; admin queues take 8,192 bytes (TCP 1.0 section 3.2).
  std::uint32_t in_capsule_max = 8192;
};

// Not thread safe, but for the descriptor.
class QueuePair {
 public:
  // Until `deadline` (monotonic).
  //   kUnavailable, kDeadlineExceeded  nobody answers there
  //   kPermissionDenied                the target does not let this host in
  //   kNotFound                        no such subsystem there
  //   kUnsupported                     a digest that the target does not do, another version
  //   kExhausted                       the target is full; no descriptors
  //   kCorrupt                         what came is no NVMe/TCP
  static Result<std::unique_ptr<QueuePair>> connect(const PairOptions& options,
                                                    env::Nanos deadline);

  Session& session() noexcept { return *session_; }
  int descriptor() const noexcept { return fd_.get(); }
  std::uint16_t cntlid() const noexcept { return cntlid_; }
  std::uint16_t qid() const noexcept { return options_.qid; }

  // Sends and receives what is possible without waiting. True when anything moved. On an error the
  // connection is closed: nothing touches the memory of its commands any more.
  //   kUnavailable  it was lost   kCorrupt  the controller broke a rule, which is named
  Result<bool> pump();
  // Sends only.
  Result<bool> flush();
  // pump() could not send all: the socket must become writable.
  bool blocked() const noexcept { return blocked_; }
  bool open() const noexcept { return fd_.valid(); }
  void close() noexcept { fd_.reset(); }

  // One command, waited for. What ends meanwhile goes to `others`, if there is one. A command that
  // ends badly is no error here. An error closes the connection; kDeadlineExceeded, too.
  using Others = std::function<void(const Ended&)>;
  Result<Completion> execute(Request request, env::Nanos deadline, const Others& others = {});

 private:
  QueuePair(const PairOptions& options, env::Fd fd) : options_(options), fd_(std::move(fd)) {}
  Result<void> shake(env::Nanos deadline);
  Result<IcResp> receive_answer(env::Nanos deadline);
  Result<void> join(env::Nanos deadline);
  Result<bool> receive();
  Error give_up(const PduFault& fault);
  Error explain(const Error& error) const;

  const PairOptions options_;
  env::Fd fd_;
  std::unique_ptr<Session> session_;
  std::uint16_t cntlid_ = 0;
  bool blocked_ = false;
};

// Pieces over memory of the caller, for commands that move one block of it.
class OneBlock {
 public:
  OneBlock(void* data, std::size_t bytes) : piece_{static_cast<std::byte*>(data), bytes} {}
  PieceWindow window() const noexcept {
    return {{&piece_, 1}, 0, static_cast<std::uint32_t>(piece_.bytes)};
  }

 private:
  block::Piece piece_;
};

}  // namespace larder::nvmf
