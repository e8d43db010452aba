// SPDX-License-Identifier: Apache-2.0
// The serving side of the peer protocol: listeners, handshakes, and reactor threads. A request is
// answered on the thread that read it, or later by another one (Intake::later).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "env/clock.h"
#include "env/socket.h"
#include "larder/status.h"
#include "rpc/service.h"

namespace larder::rpc {

struct ServerOptions {
  std::vector<env::SocketAddress> listen;
  std::string token;        // empty: none is asked for
  std::uint64_t epoch = 1;  // told to every peer
  unsigned reactors = 1;
  // A reactor polls this long after work before it sleeps, or as long as the work took if that is
  // longer: who sends large requests needs as long to make the next one.
  env::Nanos spin = 100 * env::kMicro;
  unsigned connections_max = 1024;
  env::Nanos handshake_timeout = 5 * env::kSecond;
  env::Nanos stall_timeout = 30 * env::kSecond;  // a half-received payload is given up after this
};

// Refusals are told apart so that an operator can see what knocks.
struct ServerCounters {
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> refused_token{0};
  std::atomic<std::uint64_t> refused_user{0};
  std::atomic<std::uint64_t> refused_protocol{0};
  std::atomic<std::uint64_t> refused_limit{0};    // connections_max or no free descriptor
  std::atomic<std::uint64_t> protocol_errors{0};  // after the handshake
  std::atomic<std::uint64_t> stalled{0};
  std::atomic<std::uint64_t> open{0};
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> outstanding{0};  // calls that are to be answered later
  std::atomic<std::uint64_t> bytes_in{0};
  std::atomic<std::uint64_t> bytes_out{0};   // of answers that were handed over
  std::atomic<std::uint64_t> bytes_sent{0};  // that the sockets took
  // Payload alone: announced by requests, and by answers that were handed over.
  std::atomic<std::uint64_t> payload_in{0};
  std::atomic<std::uint64_t> payload_out{0};
};

class Reactor;

class Server {
 public:
  // Listens at once; `service` must outlive the server.
  static Result<std::unique_ptr<Server>> create(ServerOptions options, Service& service,
                                                env::Clock& clock);
  ~Server();
  // The addresses in use; a TCP port of 0 is replaced by the one the system gave.
  const std::vector<env::SocketAddress>& addresses() const noexcept { return addresses_; }
  const ServerCounters& counters() const noexcept { return *counters_; }
  // Stops accepting, answers what was read, then closes everything. Waits at most until `deadline`.
  void stop(env::Nanos deadline);

 private:
  Server() = default;
  std::vector<env::SocketAddress> addresses_;
  std::unique_ptr<ServerCounters> counters_;
  std::unique_ptr<ServerOptions> options_;
  std::vector<std::unique_ptr<Reactor>> reactors_;
};

}  // namespace larder::rpc
