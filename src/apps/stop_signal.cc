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
static_assert(std::atomic<int>::is_always_lock_free);
struct sigaction g_old_int;
struct sigaction g_old_term;

extern "C" void larder_on_stop_signal(int number) {
  const int saved = errno;
  int none = 0;
  if (!g_received.compare_exchange_strong(none, number)) ::_exit(128 + number);
  const std::uint64_t one = 1;
  const int event = g_event.load();
  if (event >= 0 && ::write(event, &one, sizeof(one)) < 0) {
    // The counter is already above zero: whoever waits will wake.
  }
  errno = saved;
}

}  // namespace

Result<StopSignal> StopSignal::install() {
  env::Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) {
    return fail(Code::kExhausted,
                fmt::format("cannot make an event descriptor: {}", std::strerror(errno)));
  }
  g_received.store(0);
  g_event.store(event.get());
  struct sigaction action {};
  action.sa_handler = larder_on_stop_signal;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &g_old_int);
  ::sigaction(SIGTERM, &action, &g_old_term);
  return StopSignal(std::move(event));
}

StopSignal::StopSignal(StopSignal&& other) noexcept : event_(std::move(other.event_)) {}

StopSignal::~StopSignal() {
  if (!event_.valid()) return;
  ::sigaction(SIGINT, &g_old_int, nullptr);
  ::sigaction(SIGTERM, &g_old_term, nullptr);
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
  }
  return received();
}

}  // namespace larder::apps
