// SPDX-License-Identifier: Apache-2.0
// The background thread of a device. It alone attaches and detaches, and opens channels.
#include <algorithm>

#include "env/thread.h"
#include "nvmf/spdk/state.h"
#include "obs/log.h"

namespace larder::nvmf {
namespace {

// The driver does nothing by itself: keep-alives and events are dealt with when it is asked.
constexpr env::Nanos kAttendEvery = 20 * env::kMilli;

}  // namespace

void SpdkState::run() {
  env::set_thread_name("larder-spdk");
  while (!stopping_) {
    waker_.drain();
    if (controller_ != nullptr && !*controller_->lost()) attend();
    if (controller_ != nullptr && *controller_->lost()) let_go();
    serve();
    if (stopping_) break;
    sleep_on(-1, 0, waker_.descriptor(), next_due());
  }
  controller_.reset();
}

void SpdkState::attend() {
  const auto alive = controller_->attend();
  if (!alive) return lose(*controller_->lost(), alive.error().message());
  const SpdkController::Events events = controller_->take_events();
  counters_->events.fetch_add(events.count, std::memory_order_relaxed);
  if (events.namespaces) check_namespace();
}

// The controller says that a namespace is not what it was: is it ours, and does it matter? The
// driver has identified it anew.
void SpdkState::check_namespace() {
  const auto facts = controller_->find_namespace(nsid_);
  if (!facts) return books_->health().fail("the namespace changed: " + facts.error().message());
  const auto geometry = geometry_of(controller_->facts(), *facts);
  if (!geometry) {
    return books_->health().fail("the namespace changed: " + geometry.error().message());
  }
  const std::string what =
      what_changed(books_->geometry(), books_->identity(), *geometry,
                   identity_of(options_.remote.url, controller_->facts(), *facts));
  if (!what.empty()) books_->health().fail("the namespace changed: " + what);
}

// The driver hands the same controller out again as long as it is attached, so all of it has to go
// before the next attempt.
void SpdkState::let_go() {
  for (const auto& channel : channels()) {
    channel->close();
    channel->waker().notify();
  }
  controller_.reset();
}

void SpdkState::serve() {
  const auto all = channels();
  const bool any =
      std::any_of(all.begin(), all.end(), [](const auto& one) { return one->wanted(); });
  if (!any) return;
  const env::Nanos now = env::monotonic_now();
  if (controller_ == nullptr) {
    if (books_->health().failed()) {
      return refuse({Code::kUnavailable, books_->health().now().reason}, block::kNoDeadline);
    }
    if (now < attempt_next()) return refuse({Code::kUnavailable, "not attached in time"}, now);
    if (const auto attached = reattach(); !attached) {
      obs::log(obs::Level::kInfo, "spdk_reattach_failed",
               {{"device", books_->identity().name}, {"error", attached.error().message()}});
      const bool final = books_->health().failed();
      put_off();
      return refuse(attached.error(), final ? block::kNoDeadline : env::monotonic_now());
    }
    end_attempts();
  }
  for (const auto& channel : all) {
    if (channel->wanted() && !stopping_ && !open(*channel)) return;
  }
}

// False: the controller was lost over it.
bool SpdkState::open(SpdkChannel& channel) {
  if (channel.number() > controller_->queues()) {
    channel.tell(fail(Code::kExhausted, "the target grants fewer I/O queues than before"));
    return true;
  }
  const bool first = channel.lost() == nullptr;
  const auto opened = channel.open(*controller_, nsid_);
  if (opened || first) {
    channel.tell(opened);
    return true;
  }
  // As long as its time is not over, the next attachment may serve it.
  lose(*controller_->lost(), opened.error().message());
  put_off();
  refuse(opened.error(), env::monotonic_now());
  return false;
}

// Those whose time is over by `now`.
void SpdkState::refuse(const Error& error, env::Nanos now) {
  for (const auto& channel : channels()) {
    const auto wanted = channel->wanted();
    if (wanted && *wanted <= now) channel->tell(tl::unexpected(error));
  }
}

Result<void> SpdkState::reattach() {
  LARDER_ASSIGN(Found found, find());
  LARDER_TRY(check_same(found.geometry, found.identity));
  adopt(std::move(found));
  counters_->reattached.fetch_add(1, std::memory_order_relaxed);
  obs::log(obs::Level::kInfo, "spdk_reattached", {{"device", books_->identity().name}});
  return {};
}

env::Nanos SpdkState::next_due() const {
  const env::Nanos now = env::monotonic_now();
  if (controller_ != nullptr) return now + kAttendEvery;
  env::Nanos due = now + 3600 * env::kSecond;
  for (const auto& channel : channels()) {
    const auto wanted = channel->wanted();
    if (wanted) due = std::min({due, *wanted, attempt_next()});
  }
  return due;
}

}  // namespace larder::nvmf
