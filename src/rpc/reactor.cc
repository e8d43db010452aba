// SPDX-License-Identifier: Apache-2.0
#include "rpc/reactor.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "env/thread.h"

namespace larder::rpc {
namespace {

constexpr int kEventsMax = 64;
constexpr int kIdleTimeoutMs = 500;    // how late an expiry may be noticed
constexpr int kStopTimeoutMs = 10;     // and the end of a stop
constexpr int kHotPollsPerRead = 8;    // while an answer is being sent
constexpr int kHotPollsPerEpoll = 32;  // while spinning, other connections are looked at this often
constexpr unsigned kCrowdMax = 8;      // as often in a row one must work to be polled alone again
constexpr int kHotPollsPerYield = 24;  // and the core is offered to whoever waits for it
constexpr env::Nanos kExpiryEvery = 100 * env::kMilli;
constexpr env::Nanos kSpinMax = 2 * env::kMilli;

}  // namespace

Result<std::unique_ptr<Reactor>> Reactor::create(const ServerOptions& options, Service& service,
                                                 ServerCounters& counters, env::Clock& clock) {
  std::unique_ptr<Reactor> reactor(new Reactor(options, service, counters, clock));
  reactor->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  reactor->spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!reactor->epoll_.valid() || !reactor->spare_.valid()) {
    return fail(Code::kExhausted, "cannot create a reactor: " + env::errno_text(errno));
  }
  LARDER_ASSIGN(reactor->mailbox_, Mailbox::create());
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = reactor->mailbox_->fd();
  ::epoll_ctl(reactor->epoll_.get(), EPOLL_CTL_ADD, reactor->mailbox_->fd(), &event);
  return reactor;
}

Reactor::~Reactor() {
  begin_stop(1);
  join();
}

Result<void> Reactor::add_listener(env::Fd listener, bool local) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = listener.get();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener.get(), &event) != 0) {
    return fail(Code::kExhausted, "epoll: " + env::errno_text(errno));
  }
  listeners_.push_back({std::move(listener), local});
  return {};
}

void Reactor::start() {
  thread_ = std::thread([this] { run(); });
}

void Reactor::adopt(std::unique_ptr<ServerConnection> connection) {
  {
    const std::lock_guard lock(mutex_);
    adopted_.push_back(std::move(connection));
  }
  mailbox_->wake();
}

void Reactor::begin_stop(env::Nanos deadline) {
  stop_deadline_.store(deadline, std::memory_order_release);
  mailbox_->wake();
}

void Reactor::join() {
  if (thread_.joinable()) thread_.join();
}

void Reactor::run() {
  env::set_thread_name("larder-reactor");
  env::Nanos spin_end = 0;
  int hot_polls = 0;
  while (true) {
    const env::Nanos now = clock_.now();
    if (stop_deadline_.load(std::memory_order_acquire) != 0 && stopped(now)) break;
    if (now - last_expiry_ > kExpiryEvery) expire(now);
    if (mailbox_->pending()) {
      deliver(now);
      spin_end = spin_after(now);
    }
    if (now >= spin_end) {
      const bool stopping = stop_deadline_.load(std::memory_order_relaxed) != 0;
      if (poll_events(stopping ? kStopTimeoutMs : kIdleTimeoutMs)) spin_end = spin_after(0);
      continue;
    }
    ++hot_polls;
    const bool one = hot_ != nullptr && crowd_ == 0;
    if (one && poll_hot(now, hot_polls % kHotPollsPerRead == 0)) {
      spin_end = spin_after(now);
      continue;
    }
    if (!one || hot_polls % kHotPollsPerEpoll == 0) {
      if (poll_events(0)) {
        spin_end = spin_after(now);
        continue;
      }
    }
    if (hot_polls % kHotPollsPerYield == 0) {
      if (env::yield_core()) spin_end = 0;
    }
  }
  connections_.clear();
  mailbox_->close();
}

// Until when to poll after work that began at `began` (0: not known).
env::Nanos Reactor::spin_after(env::Nanos began) const {
  if (options_.spin == 0) return 0;
  const env::Nanos now = clock_.now();
  const env::Nanos worked = began > 0 ? std::min(now - began, kSpinMax) : 0;
  return now + std::max(options_.spin, worked);
}

// Tries the connection that worked last, without asking epoll first. In the middle of an answer a
// further request is unlikely, so it is looked for only when told; it must be in the end, because a
// peer may be sending and not read before it has finished.
bool Reactor::poll_hot(env::Nanos now, bool read_too) {
  ServerConnection& connection = *hot_;
  bool worked = false;
  bool alive = true;
  if (connection.wants_write()) {
    const std::uint64_t before = counters_.bytes_sent.load(std::memory_order_relaxed);
    alive = connection.on_writable(now);
    worked = counters_.bytes_sent.load(std::memory_order_relaxed) != before;
  }
  bool received = false;
  read_too = read_too || !connection.wants_write();
  if (alive && read_too && connection.wants_read()) alive = connection.on_readable(now, received);
  if (!alive) {
    close_connection(connection.fd());
    return true;
  }
  return worked || received;
}

bool Reactor::poll_events(int timeout_ms) {
  // While it is polled, what epoll thinks of the hot connection does not matter; now it does.
  if (hot_ != nullptr) update_interest(*hot_);
  std::array<epoll_event, kEventsMax> events;
  const bool sleeps = timeout_ms != 0 && mailbox_->fall_asleep();
  const int n = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, sleeps ? timeout_ms : 0);
  if (sleeps) mailbox_->awaken();
  bool worked = false;
  const env::Nanos now = clock_.now();
  for (int i = 0; i < n; ++i) {
    on_event(events[static_cast<std::size_t>(i)].data.fd,
             events[static_cast<std::size_t>(i)].events, now, worked);
  }
  return worked;
}

void Reactor::on_event(int fd, std::uint32_t events, env::Nanos now, bool& worked) {
  if (fd == mailbox_->fd()) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(fd, &count, sizeof(count));
    take_adopted();
    return;
  }
  for (Listener& listener : listeners_) {
    if (listener.fd.get() == fd) return accept_all(listener);
  }
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  ServerConnection& connection = *found->second.connection;
  bool alive = true;
  if ((events & EPOLLOUT) != 0) alive = connection.on_writable(now);
  if (alive && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    bool received = false;
    alive = connection.on_readable(now, received);
    if (received) worked_last(connection);
    worked = worked || received;
  }
  // While no more is read from it, nothing else tells that the peer of late answers has gone.
  const bool hung_up = (events & (EPOLLHUP | EPOLLERR)) != 0;
  if (hung_up && !connection.wants_read()) alive = false;
  if (!alive) return close_connection(fd);
  update_interest(connection);
}

void Reactor::worked_last(ServerConnection& connection) noexcept {
  if (hot_ == &connection) {
    crowd_ -= crowd_ > 0 ? 1 : 0;
  } else {
    crowd_ = hot_ == nullptr ? 0 : kCrowdMax;
  }
  hot_ = &connection;
}

void Reactor::update_interest(ServerConnection& connection) {
  Entry& entry = connections_.find(connection.fd())->second;
  const std::uint32_t interest =
      (connection.wants_read() ? EPOLLIN : 0U) | (connection.wants_write() ? EPOLLOUT : 0U);
  if (interest == entry.interest) return;
  entry.interest = interest;
  epoll_event event{};
  event.events = interest;
  event.data.fd = connection.fd();
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.fd(), &event);
}

void Reactor::accept_all(Listener& listener) {
  if (!listening_) return;
  for (int i = 0; i < kEventsMax; ++i) {
    env::Fd fd;
    const env::IoResult got = env::accept_from(listener.fd.get(), fd);
    if (got.status == env::IoStatus::kError && (got.error == EMFILE || got.error == ENFILE)) {
      return drop_for_want_of_descriptors(listener);
    }
    if (got.status != env::IoStatus::kOk) return;
    auto peer = admit(fd.get(), listener.local);
    if (!peer) continue;
    Reactor* target = targets_[next_target_++ % targets_.size()];
    // Made here and not by the target, so that the next admit() counts it.
    target->adopt(std::make_unique<ServerConnection>(std::move(fd), std::move(*peer), options_,
                                                     service_, counters_, target->mailbox_,
                                                     clock_.now()));
  }
}

Result<Peer> Reactor::admit(int fd, bool local) {
  if (counters_.open.load(std::memory_order_relaxed) >= options_.connections_max) {
    counters_.refused_limit.fetch_add(1, std::memory_order_relaxed);
    const Error error(Code::kExhausted,
                      "the node has its node.connections_max connections; raise it, or close some");
    turn_away(fd, options_, error);
    return fail(error);
  }
  Peer peer;
  peer.local = local;
  if (!local) {
    env::set_no_delay(fd);
    env::set_keep_alive(fd);
    peer.name = "tcp";
    return peer;
  }
  LARDER_ASSIGN(const env::PeerUser user, env::peer_user(fd));
  if (user.uid != ::geteuid() && user.uid != 0) {
    counters_.refused_user.fetch_add(1, std::memory_order_relaxed);
    return fail(Code::kPermissionDenied, "another user");
  }
  peer.name = "unix:pid " + std::to_string(user.pid);
  return peer;
}

// With no descriptor left, a waiting connection would keep epoll busy for ever. Accept and close it
// with the spare one: the peer learns at once, and the node goes on with those it has.
void Reactor::drop_for_want_of_descriptors(Listener& listener) {
  counters_.refused_limit.fetch_add(1, std::memory_order_relaxed);
  spare_.reset();
  env::Fd fd;
  if (env::accept_from(listener.fd.get(), fd).status == env::IoStatus::kOk) {
    turn_away(fd.get(), options_,
              Error(Code::kExhausted,
                    "the node is out of file descriptors; raise its LimitNOFILE (ulimit -n)"));
  }
  fd.reset();
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void Reactor::take_adopted() {
  std::vector<std::unique_ptr<ServerConnection>> adopted;
  {
    const std::lock_guard lock(mutex_);
    adopted.swap(adopted_);
  }
  for (auto& connection : adopted) {
    const int number = connection->fd();
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = number;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, number, &event) != 0) continue;
    Entry entry;
    entry.connection = std::move(connection);
    entry.interest = EPOLLIN;
    connections_.insert_or_assign(number, std::move(entry));
  }
}

// Answers that were made elsewhere.
void Reactor::deliver(env::Nanos now) {
  mailbox_->collect(late_);
  for (LateReply& late : late_) {
    ServerConnection* const connection = late.line->connection();
    if (connection == nullptr) continue;
    if (!connection->on_late_reply(late.request, std::move(late.reply), now)) {
      close_connection(connection->fd());
    } else if (connection != hot_) {  // whose interest is looked at before epoll is asked
      update_interest(*connection);
    }
  }
  late_.clear();
}

void Reactor::close_connection(int fd) {
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  if (hot_ == found->second.connection.get()) hot_ = nullptr;
  connections_.erase(found);  // closing the descriptor takes it out of epoll
}

void Reactor::expire(env::Nanos now) {
  last_expiry_ = now;
  std::vector<int> expired;
  for (const auto& [fd, entry] : connections_) {
    if (entry.connection->expired(now)) expired.push_back(fd);
  }
  for (const int fd : expired) {
    counters_.stalled.fetch_add(1, std::memory_order_relaxed);
    close_connection(fd);
  }
}

bool Reactor::stopped(env::Nanos now) {
  if (listening_) {
    listening_ = false;
    for (Listener& listener : listeners_) listener.fd.reset();
    listeners_.clear();
  }
  if (now >= stop_deadline_.load(std::memory_order_acquire)) return true;
  for (const auto& [fd, entry] : connections_) {
    if (!entry.connection->idle()) return false;
  }
  return true;
}

}  // namespace larder::rpc
