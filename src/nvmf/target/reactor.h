// SPDX-License-Identifier: Apache-2.0
// One thread with its connections. While work keeps coming it polls; then it sleeps in epoll.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "nvmf/target/connection.h"

namespace larder::nvmf {

class Reactor {
 public:
  // kExhausted.
  static Result<std::unique_ptr<Reactor>> create(Subsystem& subsystem, env::Clock& clock);
  ~Reactor();

  // Before start(): a listener that this reactor accepts from, for `targets` in turn.
  Result<void> add_listener(env::Fd listener, std::vector<Reactor*> targets);
  void set_stats(std::function<TargetStats()> stats) { shared_.stats = std::move(stats); }
  void start();
  // Any thread.
  void ask_sweep() { shared_.inbox->ask_sweep(); }
  void begin_stop();
  void join();
  const ReactorCounters& counters() const noexcept { return counters_; }

 private:
  Reactor(Subsystem& subsystem, env::Clock& clock, std::shared_ptr<Inbox> inbox,
          std::uint64_t bounce_bytes);

  struct Entry {
    std::unique_ptr<Connection> connection;
    std::uint32_t interest = 0;
    int fd = -1;
  };

  void run();
  void round();
  bool poll_events(int timeout_ms);
  bool poll_hot();
  void offer_core();
  void serve(Connection& connection, bool& worked);
  void accept_all();
  void adopt(env::Fd socket);
  void take_mail();
  void tick();
  void hand_out_room();
  void settle(Connection& connection);
  void bury();
  bool drained();

  Subsystem& subsystem_;
  env::Clock& clock_;
  ReactorCounters counters_;
  ReactorShared shared_;
  env::Fd epoll_;
  env::Fd listener_;
  env::Fd spare_;  // given up for a moment to refuse a connection when descriptors run out
  std::vector<Reactor*> targets_;
  std::size_t next_target_ = 0;
  std::unordered_map<Connection*, Entry> entries_;
  std::vector<std::unique_ptr<Connection>> dying_;  // closed, with jobs that are not back
  Connection* hot_ = nullptr;                       // worked last
  Inbox::Mail mail_;                                // kept for its memory
  env::Nanos last_tick_ = 0;
  env::Nanos spin_end_ = 0;
  env::Nanos crowded_until_ = 0;  // others want this core: no spinning
  unsigned polls_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace larder::nvmf
