// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/node_session.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <string_view>

#include "env/clock.h"
#include "env/socket.h"

namespace larder::apps {
namespace {

constexpr env::Nanos kConnectPatience = 5 * env::kSecond;

Path client_path(BenchPath path) noexcept {
  switch (path) {
    case BenchPath::kLocal:
      return Path::kSharedMemory;
    case BenchPath::kUnix:
      return Path::kUnixSocket;
    case BenchPath::kTcp:
      return Path::kTcp;
  }
  return Path::kAuto;
}

constexpr env::Nanos kAnnouncePatience = 5 * env::kSecond;
constexpr std::string_view kAnnounced = "listening on ";

// The node takes a free port and says which: "... listening on UNIX TCP http HTTP".
constexpr env::Nanos kWarmTimeout = 120 * env::kSecond;

Result<std::string> announced_tcp(const LocalNode& node) {
  const env::Nanos end = env::monotonic_now() + kAnnouncePatience;
  while (env::monotonic_now() < end) {
    std::ifstream log(node.directory() + "/node.log");
    for (std::string line; std::getline(log, line);) {
      const std::size_t at = line.find(kAnnounced);
      if (at == std::string::npos || line.find(" http ") == std::string::npos) continue;
      std::istringstream words(line.substr(at + kAnnounced.size()));
      std::string address;
      if (words >> address >> address) return address;
    }
    env::system_clock().sleep(10 * env::kMilli);
  }
  return fail(Code::kInternal, "our own node did not say where it listens:\n" + node.log_tail());
}

}  // namespace

Result<std::unique_ptr<NodeSession>> NodeSession::open(const BenchOptions& options,
                                                       std::uint64_t capacity) {
  std::unique_ptr<NodeSession> session(new NodeSession());
  session->wait_ = options.wait;
  session->token_file_ = options.token_file;
  if (!options.addresses.empty()) {
    for (const std::string& text : options.addresses) {
      LARDER_ASSIGN(const auto address, env::SocketAddress::parse(text));
      const bool tcp = address.kind == env::SocketAddress::Kind::kTcp;
      (tcp ? session->tcp_address_ : session->unix_address_) = text;
    }
    LARDER_TRY(session->wait_warm());
    return session;
  }
  LocalNodeOptions node;
  node.hot_capacity = capacity;
  node.flags = options.node_flags;
  if (options.wait == Wait::kBlock) node.flags.insert(node.flags.end(), {"--node.spin", "0us"});
  LARDER_ASSIGN(session->node_, LocalNode::start(node));
  session->unix_address_ = session->node_->address();
  LARDER_ASSIGN(session->tcp_address_, announced_tcp(*session->node_));
  LARDER_TRY(session->wait_warm());
  return session;
}

// A young node still touches its pages for the first time; the limits' buffers are warm too.
Result<void> NodeSession::wait_warm() const {
  LARDER_ASSIGN(const auto client,
                connect(reaches(BenchPath::kUnix) ? BenchPath::kUnix : BenchPath::kTcp, 0));
  env::Clock& clock = env::system_clock();
  const env::Nanos deadline = clock.now() + kWarmTimeout;
  while (clock.now() < deadline) {
    LARDER_ASSIGN(const NodeInfo info, client->info());
    if (info.warmed_bytes >= info.capacity_bytes) break;
    clock.sleep(20 * env::kMilli);
  }
  return {};
}

const std::string& NodeSession::address(BenchPath path) const noexcept {
  return path == BenchPath::kTcp ? tcp_address_ : unix_address_;
}

bool NodeSession::reaches(BenchPath path) const noexcept {
  return !address(path).empty();
}

Result<std::unique_ptr<Client>> NodeSession::connect(BenchPath path,
                                                     std::size_t route_cache_entries) const {
  ClientOptions options;
  options.address = address(path);
  options.path = client_path(path);
  options.token_file = token_file_;
  options.route_cache_entries = route_cache_entries;
  if (wait_ == Wait::kBlock) options.spin = std::chrono::microseconds{0};
  LARDER_ASSIGN(auto client, Client::connect(options));
  if (client->path() != options.path) {
    return fail(Code::kUnsupported,
                fmt::format("the client took the {} path where the case needs {}",
                            path_name(client->path()), path_name(options.path)));
  }
  return client;
}

Result<pid_t> NodeSession::pid() const {
  if (!node_) {
    return fail(Code::kUnsupported, "the memory of a running node is not ours to measure");
  }
  LARDER_ASSIGN(const auto address, env::SocketAddress::parse(unix_address_));
  LARDER_ASSIGN(const env::Fd fd,
                env::connect_to(address, env::monotonic_now() + kConnectPatience));
  LARDER_ASSIGN(const env::PeerUser user, env::peer_user(fd.get()));
  return user.pid;
}

}  // namespace larder::apps
