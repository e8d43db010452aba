// SPDX-License-Identifier: Apache-2.0
#include "rpc/server.h"

#include <algorithm>

#include "rpc/reactor.h"

namespace larder::rpc {
namespace {

constexpr int kBacklog = 256;

}  // namespace

Result<std::unique_ptr<Server>> Server::create(ServerOptions options, Service& service,
                                               env::Clock& clock) {
  if (options.listen.empty()) {
    return fail(Code::kInvalidArgument, "a server needs at least one address to listen on");
  }
  std::unique_ptr<Server> server(new Server());
  server->counters_ = std::make_unique<ServerCounters>();
  server->options_ = std::make_unique<ServerOptions>(std::move(options));
  const ServerOptions& kept = *server->options_;
  std::vector<Reactor*> targets;
  for (unsigned i = 0; i < std::max(1U, kept.reactors); ++i) {
    LARDER_ASSIGN(auto reactor, Reactor::create(kept, service, *server->counters_, clock));
    targets.push_back(reactor.get());
    server->reactors_.push_back(std::move(reactor));
  }
  for (env::SocketAddress address : kept.listen) {
    LARDER_ASSIGN(env::Fd listener, env::listen_on(address, kBacklog));
    const bool local = address.kind == env::SocketAddress::Kind::kUnix;
    if (!local) {
      LARDER_ASSIGN(address.port, env::local_port(listener.get()));
    }
    LARDER_TRY(server->reactors_.front()->add_listener(std::move(listener), local));
    server->addresses_.push_back(std::move(address));
  }
  server->reactors_.front()->set_targets(std::move(targets));
  for (auto& reactor : server->reactors_) reactor->start();
  return server;
}

Server::~Server() {
  stop(1);
}

void Server::stop(env::Nanos deadline) {
  for (auto& reactor : reactors_) reactor->begin_stop(std::max<env::Nanos>(1, deadline));
  for (auto& reactor : reactors_) reactor->join();
  reactors_.clear();
}

}  // namespace larder::rpc
