// SPDX-License-Identifier: Apache-2.0
// The background thread of a device.
#include <algorithm>

#include "env/thread.h"
#include "nvmf/host/state.h"
#include "obs/log.h"

namespace larder::nvmf {
namespace {

constexpr std::uint64_t kKeepAlive = 1;  // owners of commands
constexpr std::uint64_t kEvent = 2;

}  // namespace

void NvmeState::run() {
  env::set_thread_name("larder-nvmf");
  while (!stopping_) {
    waker_.drain();
    serve_links();
    serve_admin();
    if (stopping_) break;
    const bool alive = admin_->pair().open();
    const short events =
        static_cast<short>(env::kReadable | (admin_->pair().blocked() ? env::kWritable : 0));
    sleep_on(alive ? admin_->pair().descriptor() : -1, events, waker_.descriptor(), next_due());
  }
}

// ---- connections for queues

bool NvmeState::any_wanted(env::Nanos& until) {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (const auto& link : links_) {
    const auto wanted = link->wanted();
    if (!wanted) continue;
    until = any ? std::min(until, *wanted) : *wanted;
    any = true;
  }
  return any;
}

void NvmeState::serve_links() {
  env::Nanos until = 0;
  if (!any_wanted(until)) return;
  const env::Nanos now = env::monotonic_now();
  if (association_->lost) {
    if (books_->health().failed()) {
      return refuse_links({Code::kUnavailable, books_->health().now().reason}, block::kNoDeadline);
    }
    if (now < attempt_next()) return refuse_links({Code::kUnavailable, "no new one in time"}, now);
    if (const auto attached = reattach(); !attached) {
      obs::log(obs::Level::kInfo, "nvmf_reattach_failed",
               {{"device", books_->identity().name}, {"error", attached.error().message()}});
      const bool final = books_->health().failed();
      put_off();
      return refuse_links(attached.error(), final ? block::kNoDeadline : env::monotonic_now());
    }
    end_attempts();
  }
  std::vector<std::shared_ptr<QueueLink>> links;
  {
    const std::lock_guard lock(mutex_);
    links = links_;
  }
  for (const auto& link : links) {
    if (link->wanted() && !association_->lost && !stopping_) connect_link(*link);
  }
}

// Those whose time is over by `now`.
void NvmeState::refuse_links(const Error& error, env::Nanos now) {
  std::vector<std::shared_ptr<QueueLink>> links;
  {
    const std::lock_guard lock(mutex_);
    links = links_;
  }
  for (const auto& link : links) {
    const auto wanted = link->wanted();
    if (wanted && *wanted <= now) link->give(tl::unexpected(error));
  }
}

void NvmeState::connect_link(QueueLink& link) {
  if (link.qid() > association_->queues) {
    return link.give(fail(Code::kExhausted, "the target grants fewer I/O queues than before"));
  }
  {
    const std::lock_guard lock(mutex_);
    if (auto idle = idle_connection(link.qid())) return link.give(std::move(*idle));
  }
  PairOptions options = association_->io;
  options.qid = link.qid();
  auto pair = QueuePair::connect(options, env::monotonic_now() + options_.connect_timeout);
  if (pair) return link.give(QueueLink::Connection{association_, std::move(*pair)});
  // As long as its time is not over, the next association may serve it.
  lose(*association_, pair.error().message());
  put_off();
  refuse_links(pair.error(), env::monotonic_now());
}

Result<void> NvmeState::reattach() {
  admin_->pair().close();
  LARDER_ASSIGN(Found found, find(env::monotonic_now() + options_.connect_timeout));
  LARDER_TRY(check_same(found.geometry, found.identity));
  std::unique_ptr<QueuePair> used;
  LARDER_TRY(ask_witness_of(found, used));
  adopt(std::move(found));
  if (used) {
    const std::lock_guard lock(mutex_);
    idle_.push_back({association_, std::move(used)});
  }
  counters_->reattached.fetch_add(1, std::memory_order_relaxed);
  obs::log(obs::Level::kInfo, "nvmf_reattached", {{"device", books_->identity().name}});
  return {};
}

Result<void> NvmeState::ask_witness_of(const Found& found, std::unique_ptr<QueuePair>& used) {
  const env::Nanos deadline = env::monotonic_now() + options_.connect_timeout;
  return ask_witness([&](std::uint64_t offset, std::span<std::byte> into) -> Result<void> {
    if (!used) {
      PairOptions options = found.association->io;
      options.qid = 1;
      LARDER_ASSIGN(used, QueuePair::connect(options, deadline));
    }
    const OneBlock memory(into.data(), into.size());
    Request request;
    request.command.opcode = static_cast<std::uint8_t>(IoOpcode::kRead);
    request.command.nsid = nsid_;
    request.command.set_range(offset / into.size(), 1);
    request.flow = DataFlow::kToHost;
    request.data = memory.window();
    LARDER_ASSIGN(const Completion completion, used->execute(request, deadline));
    const Status status = completion.result();
    if (status.ok()) return {};
    return fail(code_of(status),
                "reading the block at " + std::to_string(offset) + ": " + to_string(status));
  });
}

// ---- the admin queue

void NvmeState::serve_admin() {
  if (!admin_->pair().open()) return;
  if (association_->lost) return admin_->pair().close();
  if (!events_armed_) {
    admin_->begin(AdminOpcode::kAsyncEvent, kEvent);
    events_armed_ = true;
  }
  keep_alive(env::monotonic_now());
  if (association_->lost) return admin_->pair().close();
  const auto moved = admin_->pair().pump();
  if (!moved) return lose(*association_, moved.error().message());
  Ended ended;
  while (admin_->pair().session().take_ended({&ended, 1}) > 0) on_ended(ended);
  while (std::exchange(namespace_changed_, false)) check_namespace();
}

void NvmeState::on_ended(const Ended& ended) {
  const Status status = ended.completion.result();
  if (ended.request.owner == kKeepAlive) {
    keep_alive_sent_ = false;
    return;
  }
  if (ended.request.owner != kEvent) return;
  // A controller that has none is not asked again.
  if (!status.ok()) return;
  counters_->events.fetch_add(1, std::memory_order_relaxed);
  const AsyncEvent event = AsyncEvent::from(ended.completion.dw0);
  obs::log(obs::Level::kInfo, "nvmf_event",
           {{"device", books_->identity().name},
            {"type", static_cast<unsigned>(event.type)},
            {"info", static_cast<unsigned>(event.info)}});
  namespace_changed_ |= event.type == kEventNotice && event.info == kNoticeNamespaceChanged;
  events_armed_ = false;
  waker_.notify();
}

void NvmeState::keep_alive(env::Nanos now) {
  if (options_.keep_alive == 0) return;
  if (keep_alive_sent_ && now - keep_alive_last_ >= options_.keep_alive) {
    counters_->keep_alive_misses.fetch_add(1, std::memory_order_relaxed);
    return lose(*association_, "the target does not answer to the keep-alive");
  }
  if (keep_alive_sent_ || now - keep_alive_last_ < options_.keep_alive / 2) return;
  keep_alive_sent_ = true;
  keep_alive_last_ = now;
  admin_->begin(AdminOpcode::kKeepAlive, kKeepAlive);
}

env::Nanos NvmeState::next_due() const {
  env::Nanos due = env::monotonic_now() + 3600 * env::kSecond;
  if (admin_->pair().open() && options_.keep_alive > 0) {
    due = std::min(
        due, keep_alive_last_ + (keep_alive_sent_ ? options_.keep_alive : options_.keep_alive / 2));
  }
  const std::lock_guard lock(mutex_);
  for (const auto& link : links_) {
    const auto wanted = link->wanted();
    if (wanted) due = std::min({due, *wanted, attempt_next()});
  }
  return due;
}

// The controller says that a namespace is not what it was: is it ours, and does it matter?
void NvmeState::check_namespace() {
  const env::Nanos deadline = env::monotonic_now() + options_.connect_timeout;
  ChangedNamespaces changed;  // to be read, so that the next change is told, too
  static_cast<void>(admin_->read_log(LogPage::kChangedNamespaces, 0,
                                     std::as_writable_bytes(std::span(&changed, 1)), deadline));
  const auto facts = find_namespace(*admin_, nsid_, deadline);
  if (!facts && !admin_->pair().open()) return lose(*association_, facts.error().message());
  if (!facts) return books_->health().fail("the namespace changed: " + facts.error().message());
  const auto geometry = geometry_of(controller_, *facts);
  if (!geometry) {
    return books_->health().fail("the namespace changed: " + geometry.error().message());
  }
  const std::string what = what_changed(books_->geometry(), books_->identity(), *geometry,
                                        identity_of(options_.url, controller_, *facts));
  if (!what.empty()) return books_->health().fail("the namespace changed: " + what);
  obs::log(obs::Level::kInfo, "nvmf_namespace_changed",
           {{"device", books_->identity().name},
            {"blocks", geometry->blocks},
            {"used", books_->geometry().blocks}});
}

}  // namespace larder::nvmf
