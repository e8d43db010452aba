// SPDX-License-Identifier: Apache-2.0
#include "apps/stop_signal.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace larder::apps {
namespace {

// A handler can reach nothing but globals. Lock-free, hence safe in one.
std::atomic<int> g_received{0};
std::atomic<int> g_event{-1};
std::atomic<int> g_hangup{0};  // it came, and nobody has looked
static_assert(std::atomic<int>::is_always_lock_free);
struct sigaction g_old_int;
struct sigaction g_old_term;
struct sigaction g_old_hangup;

void raise_event() {
  const std::uint64_t one = 1;
  const int event = g_event.load();
  if (event >= 0 && ::write(event, &one, sizeof(one)) < 0) {
    // The counter is already above zero: whoever waits will wake.
  }
}

extern "C" void larder_on_stop_signal(int number) {
  const int saved = errno;
  int none = 0;
  if (!g_received.compare_exchange_strong(none, number)) ::_exit(128 + number);
  raise_event();
  errno = saved;
}

extern "C" void larder_on_hangup(int) {
  const int saved = errno;
  g_hangup.store(1);
  raise_event();
  errno = saved;
}

}  // namespace

Result<StopSignal> StopSignal::install(bool hangup) {
  env::Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) {
    return fail(Code::kExhausted,
                fmt::format("cannot make an event descriptor: {}", std::strerror(errno)));
  }
  g_received.store(0);
  g_hangup.store(0);
  g_event.store(event.get());
  struct sigaction action {};
  action.sa_handler = larder_on_stop_signal;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &g_old_int);
  ::sigaction(SIGTERM, &action, &g_old_term);
  if (hangup) {
    action.sa_handler = larder_on_hangup;
    ::sigaction(SIGHUP, &action, &g_old_hangup);
  }
  return StopSignal(std::move(event), hangup);
}

StopSignal::StopSignal(StopSignal&& other) noexcept
    : event_(std::move(other.event_)), hangup_(other.hangup_) {}

StopSignal::~StopSignal() {
  if (!event_.valid()) return;
  ::sigaction(SIGINT, &g_old_int, nullptr);
  ::sigaction(SIGTERM, &g_old_term, nullptr);
  if (hangup_) ::sigaction(SIGHUP, &g_old_hangup, nullptr);
  g_event.store(-1);
}

int StopSignal::received() noexcept {
  return g_received.load();
}
const std::atomic<int>& StopSignal::flag() noexcept {
  return g_received;
}

int StopSignal::wait() const noexcept {
  while (received() == 0) {
    pollfd item{event_.get(), POLLIN, 0};
    ::poll(&item, 1, -1);
    std::uint64_t count = 0;
    // Emptied before the flags are looked at, so that what comes later wakes again.
    if (::read(event_.get(), &count, sizeof(count)) < 0) continue;
    if (received() == 0 && g_hangup.exchange(0) != 0) return SIGHUP;
  }
  return received();
}

}  // namespace larder::apps
