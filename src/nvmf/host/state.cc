// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/state.h"

#include <algorithm>

#include "obs/log.h"

namespace larder::nvmf {
namespace {

constexpr env::Nanos kFarewell = 2 * env::kSecond;
constexpr std::uint64_t kInCapsuleMax = 64U << 10U;

std::uint32_t in_capsule_of(const ControllerFacts& controller) {
  const ControllerLimits& limits = controller.limits;
  if (!limits.in_capsule_sgl || limits.in_capsule_offset != 0) return 0;
  return static_cast<std::uint32_t>(std::min(limits.in_capsule_max, kInCapsuleMax));
}

std::uint16_t entries_of(const ControllerFacts& controller, std::uint16_t wanted) {
  std::uint32_t entries = std::min<std::uint32_t>(wanted, controller.cap.queue_entries_max());
  const std::uint32_t outstanding = controller.limits.max_outstanding;
  if (outstanding > 0) entries = std::min(entries, outstanding + 1);
  return static_cast<std::uint16_t>(std::max(entries, 2U));
}

}  // namespace

Result<std::shared_ptr<NvmeState>> NvmeState::open(const NvmeDeviceOptions& given) {
  LARDER_ASSIGN(NvmeDeviceOptions options, settled(given));
  LARDER_ASSIGN(HostIdentity host, host_identity(options.host));
  LARDER_ASSIGN(Waker waker, Waker::create());
  std::shared_ptr<NvmeState> state(
      new NvmeState(std::move(options), std::move(host), std::move(waker)));
  LARDER_TRY(state->begin());
  return state;
}

Result<void> NvmeState::begin() {
  LARDER_ASSIGN(Found found, find(env::monotonic_now() + options_.connect_timeout));
  if (!options_.expected_id.empty() && options_.expected_id != found.identity.id) {
    return fail(Code::kConflict, options_.url.to_string() + " is another namespace: " +
                                     found.identity.id + ", not " + options_.expected_id);
  }
  nsid_ = found.facts.nsid;
  controller_ = found.attachment.controller;
  books_ = std::make_shared<block::DeviceBooks>(found.geometry, found.identity, options_.health);
  counters_ =
      std::make_unique<NvmeCounters>(options_.metrics, options_.url.nqn, found.association->queues);
  adopt(std::move(found));
  thread_ = std::thread([this] { run(); });
  return {};
}

NvmeState::~NvmeState() {
  stopping_ = true;
  waker_.notify();
  if (thread_.joinable()) thread_.join();
  idle_.clear();
  if (admin_ == nullptr || !admin_->pair().open() || association_->lost) return;
  static_cast<void>(admin_->shut_down(env::monotonic_now() + kFarewell));
}

Result<NvmeState::Found> NvmeState::find(env::Nanos deadline) {
  Found out;
  LARDER_ASSIGN(out.attachment,
                attach(options_.url, options_.url.nqn, host_, options_.keep_alive, deadline));
  Admin& admin = *out.attachment.admin;
  if (out.attachment.controller.limits.discovery) {
    return fail(Code::kInvalidArgument, options_.url.to_string() +
                                            " is a discovery service, not a subsystem with "
                                            "namespaces; larder nvme discover lists those");
  }
  auto& association = *(out.association = std::make_shared<Association>());
  association.number = ++associations_;
  LARDER_ASSIGN(association.queues, admin.set_queues(options_.queues, deadline));
  const std::optional<std::uint32_t> wanted = nsid_ != 0 ? std::optional(nsid_) : options_.url.nsid;
  LARDER_ASSIGN(out.facts, find_namespace(admin, wanted, deadline));
  LARDER_ASSIGN(out.geometry, geometry_of(out.attachment.controller, out.facts));
  out.identity = identity_of(options_.url, out.attachment.controller, out.facts);
  // Not every controller has events; without, a change shows when an operation meets it.
  static_cast<void>(admin.set_events(kEventNamespaceChanged, deadline));
  if (!admin.pair().open()) return fail(Code::kUnavailable, "the admin queue was lost at once");
  association.io = out.attachment.pair;
  association.io.cntlid = admin.pair().cntlid();
  association.io.keep_alive_ms = 0;
  association.io.entries = entries_of(out.attachment.controller, options_.queue_entries);
  association.io.in_capsule_max = in_capsule_of(out.attachment.controller);
  association.command_bytes_max =
      command_bytes_max(out.attachment.controller, out.facts, options_.command_bytes_max);
  association.zeroes_bytes_max = zeroes_bytes_max(out.attachment.controller, out.facts);
  return out;
}

void NvmeState::adopt(Found found) {
  admin_ = std::move(found.attachment.admin);
  admin_->on_others([this](const Ended& ended) { on_ended(ended); });
  keep_alive_sent_ = false;
  events_armed_ = false;
  namespace_changed_ = false;
  keep_alive_last_ = env::monotonic_now();
  const std::lock_guard lock(mutex_);
  association_ = std::move(found.association);
  lost_because_.clear();
  idle_.clear();
}

// ---- queues come and go

Result<std::uint16_t> NvmeState::free_qid() {
  std::vector<bool> used(association_->queues + 1U);
  for (const auto& link : links_) {
    if (link->qid() < used.size()) used[link->qid()] = true;
  }
  // One whose connection is still there first.
  for (const auto& idle : idle_) {
    if (!used[idle.pair->qid()]) return idle.pair->qid();
  }
  for (std::uint16_t qid = 1; qid < used.size(); ++qid) {
    if (!used[qid]) return qid;
  }
  return fail(Code::kExhausted, books_->identity().name + ": all " +
                                    std::to_string(association_->queues) +
                                    " I/O queues that the target grants are in use; close one, or "
                                    "ask for more with queues=N in the URL");
}

std::optional<QueueLink::Connection> NvmeState::idle_connection(std::uint16_t qid) {
  for (auto& idle : idle_) {
    if (idle.pair->qid() != qid) continue;
    QueueLink::Connection out = std::move(idle);
    idle = std::move(idle_.back());
    idle_.pop_back();
    return out;
  }
  return std::nullopt;
}

Result<NvmeState::Entry> NvmeState::enter() {
  LARDER_ASSIGN(Waker waker, Waker::create());
  Entry out;
  {
    const std::lock_guard lock(mutex_);
    LARDER_ASSIGN(const std::uint16_t qid, free_qid());
    out.link = std::make_shared<QueueLink>(qid, std::move(waker));
    links_.push_back(out.link);
    if (association_->lost) return out;
    out.connection.association = association_;
    if (auto idle = idle_connection(qid)) out.connection = std::move(*idle);
  }
  if (out.connection.pair != nullptr) return out;
  PairOptions options = out.connection.association->io;
  options.qid = out.link->qid();
  auto pair = QueuePair::connect(options, env::monotonic_now() + options_.connect_timeout);
  if (!pair) {
    leave(out.link, {});
    return fail(pair.error());
  }
  out.connection.pair = std::move(*pair);
  return out;
}

void NvmeState::leave(const std::shared_ptr<QueueLink>& link, QueueLink::Connection connection) {
  QueueLink::Connection closed;  // outside of the lock
  const std::lock_guard lock(mutex_);
  std::erase(links_, link);
  const bool good =
      connection.pair != nullptr && connection.association == association_ && !association_->lost;
  if (good) {
    idle_.push_back(std::move(connection));
  } else {
    closed = std::move(connection);
  }
}

void NvmeState::lose(Association& association, const std::string& reason) {
  if (!begin_loss(association.lost, "nvmf_association_lost", reason)) return;
  std::vector<std::shared_ptr<QueueLink>> links;
  {
    const std::lock_guard lock(mutex_);
    if (association_.get() == &association) lost_because_ = reason;
    links = links_;
  }
  end_loss(reason);
  for (const auto& link : links) link->waker().notify();
}

}  // namespace larder::nvmf
