// SPDX-License-Identifier: Apache-2.0
// What a server serves. Sessions run on the thread that read the request; nothing here may block:
// what has to wait, for a disk say, is answered later by another thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "env/fd.h"
#include "larder/status.h"
#include "rpc/payload.h"
#include "rpc/reply.h"
#include "rpc/responder.h"
#include "wire/frame.h"

namespace larder::rpc {

// How a session takes a request: it answers now, it names where the payload goes first, or it
// passes the call on (of a request with payload: once that is in).
struct Intake {
  std::optional<Reply> reply;
  PayloadSink* sink = nullptr;  // valid until on_payload_end() or the session's end
  // Called once, on the same thread, before the session's next request; must not block. It hands
  // the responder to whoever will answer, whose work bounds itself: a connection has at most 64
  // calls outstanding, but may be closed, and come back, with all of them still under way.
  std::function<void(Responder)> later = nullptr;

  Intake() = default;
  Intake(Reply answer) : reply(std::move(answer)) {}  // NOLINT: an answer is a way to take it
  explicit Intake(PayloadSink* place) : sink(place) {}
};

struct Peer {
  bool local = false;        // over a Unix socket
  std::string name;          // for logs: "unix:pid 42", "tcp:127.0.0.1:5000"
  bool knows_token = false;  // proved it in the handshake, because this server asks for one
};

// One connection's state. Destroyed when the connection ends: pins and reservations end with it.
class Session {
 public:
  virtual ~Session() = default;
  virtual Intake on_request(const wire::FrameHeader& header, std::string_view body) = 0;
  // After Intake::sink got the whole payload.
  virtual Intake on_payload_end(const wire::FrameHeader& header) = 0;
};

class Service {
 public:
  virtual ~Service() = default;
  // Any reactor thread.
  virtual std::unique_ptr<Session> open_session(const Peer& peer) = 0;
  // Descriptors for a local client that wants to map the node's memory; empty when not offered.
  virtual std::vector<int> shared_descriptors() = 0;
  // A local client offers memory. Returns its id and an object that keeps it until destroyed.
  virtual Result<std::pair<std::uint64_t, std::shared_ptr<void>>> adopt_buffer(
      env::Fd fd, std::uint64_t bytes) = 0;
};

}  // namespace larder::rpc
