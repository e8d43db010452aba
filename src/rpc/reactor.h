// SPDX-License-Identifier: Apache-2.0
// One thread with its connections. While work keeps coming it polls; then it sleeps in epoll.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "env/fd.h"
#include "rpc/mailbox.h"
#include "rpc/server.h"
#include "rpc/server_connection.h"

namespace larder::rpc {

class Reactor {
 public:
  static Result<std::unique_ptr<Reactor>> create(const ServerOptions& options, Service& service,
                                                 ServerCounters& counters, env::Clock& clock);
  ~Reactor();
  // Before start(): a listener that this reactor accepts from. Accepted connections go to `targets`
  // in turn.
  Result<void> add_listener(env::Fd listener, bool local);
  void set_targets(std::vector<Reactor*> targets) { targets_ = std::move(targets); }
  void start();
  // Any thread: takes over an accepted connection.
  void adopt(std::unique_ptr<ServerConnection> connection);
  // Any thread: stop accepting, finish what is half done, then close all, at the latest at
  // `deadline`.
  void begin_stop(env::Nanos deadline);
  void join();

 private:
  Reactor(const ServerOptions& options, Service& service, ServerCounters& counters,
          env::Clock& clock)
      : options_(options), service_(service), counters_(counters), clock_(clock) {}

  struct Listener {
    env::Fd fd;
    bool local = false;
  };

  void run();
  bool poll_hot(env::Nanos now, bool read_too);
  env::Nanos spin_after(env::Nanos began) const;
  bool poll_events(int timeout_ms);
  void worked_last(ServerConnection& connection) noexcept;
  void on_event(int fd, std::uint32_t events, env::Nanos now, bool& worked);
  void accept_all(Listener& listener);
  Result<Peer> admit(int fd, bool local);
  void drop_for_want_of_descriptors(Listener& listener);
  void take_adopted();
  void deliver(env::Nanos now);
  void update_interest(ServerConnection& connection);
  void close_connection(int fd);
  void expire(env::Nanos now);
  bool stopped(env::Nanos now);

  const ServerOptions& options_;
  Service& service_;
  ServerCounters& counters_;
  env::Clock& clock_;
  env::Fd epoll_;
  std::shared_ptr<Mailbox> mailbox_;  // also wakes this thread for anything else
  env::Fd spare_;  // given up for a moment to refuse a connection when descriptors run out
  std::vector<Listener> listeners_;
  std::vector<Reactor*> targets_;
  std::size_t next_target_ = 0;
  struct Entry {
    std::unique_ptr<ServerConnection> connection;
    std::uint32_t interest = 0;
  };
  std::unordered_map<int, Entry> connections_;
  // The connection that worked last, polled without asking epoll while no other works in turn with
  // it.
  ServerConnection* hot_ = nullptr;
  unsigned crowd_ = 0;  // above 0: several connections work in turn
  env::Nanos last_expiry_ = 0;
  std::vector<LateReply> late_;  // kept for its memory
  std::mutex mutex_;
  std::vector<std::unique_ptr<ServerConnection>> adopted_;
  std::atomic<env::Nanos> stop_deadline_{0};
  bool listening_ = true;
  std::thread thread_;
};

}  // namespace larder::rpc
