// SPDX-License-Identifier: Apache-2.0
#include "nvmf/target/reactor.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "env/socket.h"
#include "env/thread.h"
#include "obs/log.h"

namespace larder::nvmf {
namespace {

constexpr int kEventsMax = 64;
constexpr int kIdleTimeoutMs = 100;
constexpr int kStopTimeoutMs = 10;
constexpr env::Nanos kTickEvery = 100 * env::kMilli;
constexpr env::Nanos kPause = env::kSecond;  // a tick so late says that we did not run
constexpr unsigned kPollsPerEpoll = 32;      // while one connection is polled, the others wait
constexpr unsigned kPollsPerYield = 24;
constexpr env::Nanos kCrowded = 50 * env::kMilli;
constexpr env::Nanos kSlice = 500 * env::kMicro;  // less was an interrupt, or one with little to do

obs::LogEvery refusals{static_cast<std::uint64_t>(10 * env::kSecond)};

}  // namespace

Reactor::Reactor(Subsystem& subsystem, env::Clock& clock, std::shared_ptr<Inbox> inbox,
                 std::uint64_t bounce_bytes)
    : subsystem_(subsystem),
      clock_(clock),
      shared_{subsystem,
              counters_,
              {},
              std::move(inbox),
              ChunkPool(bounce_bytes),
              subsystem.table(),
              0,
              clock.now(),
              false,
              0},
      last_tick_(clock.now()) {}

Result<std::unique_ptr<Reactor>> Reactor::create(Subsystem& subsystem, env::Clock& clock) {
  LARDER_ASSIGN(auto inbox, Inbox::create());
  const TargetOptions& options = subsystem.options();
  std::unique_ptr<Reactor> reactor(
      new Reactor(subsystem, clock, std::move(inbox), options.bounce_bytes_max / options.threads));
  reactor->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  reactor->spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = reactor->shared_.inbox.get();
  if (!reactor->epoll_.valid() || !reactor->spare_.valid() ||
      ::epoll_ctl(reactor->epoll_.get(), EPOLL_CTL_ADD, reactor->shared_.inbox->fd(), &event) !=
          0) {
    return fail(Code::kExhausted, "cannot create a reactor: " + env::errno_text(errno));
  }
  return reactor;
}

Reactor::~Reactor() {
  begin_stop();
  join();
}

Result<void> Reactor::add_listener(env::Fd listener, std::vector<Reactor*> targets) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = this;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener.get(), &event) != 0) {
    return fail(Code::kExhausted, "epoll: " + env::errno_text(errno));
  }
  listener_ = std::move(listener);
  targets_ = std::move(targets);
  return {};
}

void Reactor::start() {
  thread_ = std::thread([this] { run(); });
}

void Reactor::begin_stop() {
  stopping_.store(true, std::memory_order_release);
  shared_.inbox->ask_sweep();
}

void Reactor::join() {
  if (thread_.joinable()) thread_.join();
}

void Reactor::run() {
  env::set_thread_name("larder-nvmf");
  while (!stopping_.load(std::memory_order_acquire) || !drained()) {
    shared_.now = clock_.now();
    round();
  }
}

void Reactor::round() {
  shared_.refresh();
  if (shared_.now - last_tick_ >= kTickEvery) tick();
  if (shared_.inbox->pending()) {
    take_mail();
    spin_end_ = shared_.now + subsystem_.options().spin;
  }
  hand_out_room();
  bury();
  bool worked = false;
  if (shared_.now >= spin_end_) {
    const bool stopping = stopping_.load(std::memory_order_relaxed);
    worked = poll_events(stopping ? kStopTimeoutMs : kIdleTimeoutMs);
  } else {
    ++polls_;
    worked = polls_ % kPollsPerEpoll == 0 || hot_ == nullptr ? poll_events(0) : poll_hot();
    if (!worked && polls_ % kPollsPerYield == 0) offer_core();
  }
  if (!worked) return;
  const env::Nanos now = clock_.now();
  spin_end_ = now < crowded_until_ ? 0 : now + subsystem_.options().spin;
}

// Where others want the core, a yield costs a time slice of theirs; who sleeps instead is woken
// before them. So after such a yield this does not spin for a while.
void Reactor::offer_core() {
  const env::Nanos before = clock_.now();
  if (!env::yield_core()) return;
  spin_end_ = 0;
  const env::Nanos after = clock_.now();
  if (after - before > kSlice) crowded_until_ = after + kCrowded;
}

// Tries the connection that worked last without asking epoll first.
bool Reactor::poll_hot() {
  bool worked = false;
  serve(*hot_, worked);
  return worked;
}

bool Reactor::poll_events(int timeout_ms) {
  std::array<epoll_event, kEventsMax> events;
  const bool sleeps = timeout_ms > 0;
  if (sleeps && !shared_.inbox->fall_asleep()) return true;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, timeout_ms);
  if (sleeps) {
    shared_.inbox->awaken();
    shared_.now = clock_.now();
  }
  bool worked = false;
  for (int i = 0; i < count; ++i) {
    void* const whose = events[static_cast<std::size_t>(i)].data.ptr;
    if (whose == shared_.inbox.get()) continue;
    if (whose == this) {
      accept_all();
      worked = true;
      continue;
    }
    serve(*static_cast<Connection*>(whose), worked);
  }
  return worked;
}

void Reactor::serve(Connection& connection, bool& worked) {
  bool moved = false;
  connection.on_ready(moved);
  if (moved) {
    worked = true;
    hot_ = &connection;
  }
  settle(connection);
}

// Brings epoll up to date. A closed connection goes at the next round: events of this one may still
// name it.
void Reactor::settle(Connection& connection) {
  const auto found = entries_.find(&connection);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (connection.closing()) {
    if (hot_ == &connection) hot_ = nullptr;
    dying_.push_back(std::move(entry.connection));
    entries_.erase(found);
    counters_.connections.store(entries_.size(), std::memory_order_relaxed);
    return;
  }
  const std::uint32_t interest =
      (connection.reads() ? EPOLLIN : 0U) | (connection.wants_write() ? EPOLLOUT : 0U);
  if (interest == entry.interest) return;
  entry.interest = interest;
  epoll_event event{};
  event.events = interest;
  event.data.ptr = &connection;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, entry.fd, &event);
}

void Reactor::bury() {
  std::erase_if(dying_, [](const auto& connection) { return connection->quiet(); });
}

void Reactor::accept_all() {
  if (stopping_.load(std::memory_order_relaxed)) return;
  while (true) {
    env::Fd socket;
    const env::IoResult got = env::accept_from(listener_.get(), socket);
    if (got.status == env::IoStatus::kError && (got.error == EMFILE || got.error == ENFILE)) {
      // Without this the listener would stay readable, and we would spin on it.
      bump(counters_.refused);
      obs::log_every(refusals, static_cast<std::uint64_t>(shared_.now), obs::Level::kWarn,
                     "nvmf_out_of_descriptors", {{"hint", "raise the limit of open files"}});
      spare_.reset();
      env::accept_from(listener_.get(), socket);
      socket.reset();
      spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      continue;
    }
    if (got.status != env::IoStatus::kOk) {
      if (got.error == ECONNABORTED || got.error == EINTR) continue;
      return;
    }
    Reactor& target = *targets_[next_target_++ % targets_.size()];
    if (&target == this) {
      adopt(std::move(socket));
    } else {
      target.shared_.inbox->adopt(std::move(socket));
    }
  }
}

void Reactor::adopt(env::Fd socket) {
  const TargetOptions& options = subsystem_.options();
  if (entries_.size() >= options.connections_max / options.threads) {
    bump(counters_.refused);
    obs::log_every(refusals, static_cast<std::uint64_t>(shared_.now), obs::Level::kWarn,
                   "nvmf_too_many_connections", {{"limit", options.connections_max}});
    return;
  }
  env::set_no_delay(socket.get());
  env::set_keep_alive(socket.get());
  auto connection = std::make_unique<Connection>(std::move(socket), shared_);
  Entry entry{nullptr, EPOLLIN, connection->fd()};
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = connection.get();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, entry.fd, &event) != 0) {
    bump(counters_.refused);
    return;
  }
  bump(counters_.accepted);
  entry.connection = std::move(connection);
  Connection* const key = entry.connection.get();
  entries_.emplace(key, std::move(entry));
  counters_.connections.store(entries_.size(), std::memory_order_relaxed);
}

void Reactor::take_mail() {
  shared_.inbox->collect(mail_);
  for (env::Fd& socket : mail_.sockets) adopt(std::move(socket));
  std::vector<Connection*> touched;
  for (DiskJob* job : mail_.jobs) {
    Slot& slot = *static_cast<Slot*>(job->owner);
    Connection* const connection = slot.connection;
    connection->on_device_done(slot);
    if (touched.empty() || touched.back() != connection) touched.push_back(connection);
  }
  for (Connection* connection : touched) {
    connection->flush();
    settle(*connection);
  }
  const bool sweep = mail_.sweep;
  mail_.jobs.clear();
  mail_.sockets.clear();
  mail_.sweep = false;
  if (!sweep) return;
  // What is to be told or closed may be anywhere, and a closed one leaves the list.
  std::vector<Connection*> all;
  for (auto& [connection, entry] : entries_) all.push_back(connection);
  for (Connection* connection : all) {
    connection->on_sweep();
    settle(*connection);
  }
}

void Reactor::hand_out_room() {
  if (!shared_.room_freed) return;
  shared_.room_freed = false;
  std::vector<Connection*> wanting;
  for (auto& [connection, entry] : entries_) {
    if (connection->wants_room()) wanting.push_back(connection);
  }
  for (Connection* connection : wanting) {
    connection->on_room();
    settle(*connection);
  }
}

void Reactor::tick() {
  // When this process was stopped for a while, signs of life wait in the sockets.
  const bool paused =
      shared_.now - last_tick_ > kPause + kTickEvery && &clock_ == &env::system_clock();
  last_tick_ = shared_.now;
  std::vector<Connection*> all;
  for (auto& [connection, entry] : entries_) all.push_back(connection);
  for (Connection* connection : all) {
    connection->on_tick(paused);
    settle(*connection);
  }
}

// Stops: closes everything, and waits for jobs that devices have.
bool Reactor::drained() {
  if (listener_.valid()) listener_.reset();
  std::vector<Connection*> all;
  for (auto& [connection, entry] : entries_) all.push_back(connection);
  for (Connection* connection : all) {
    connection->close();
    settle(*connection);
  }
  bury();
  return dying_.empty();
}

}  // namespace larder::nvmf
