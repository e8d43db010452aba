// SPDX-License-Identifier: Apache-2.0
#include "nvmf/target/controller.h"

#include <algorithm>

namespace larder::nvmf {
namespace {

constexpr std::uint32_t kReadyTimeoutMs = 5000;
constexpr std::uint32_t kQueueShifts = 6U | 4U << 8U;  // entries of 64 and 16 bytes

bool works(Cc cc) noexcept {
  const std::uint32_t shifts = cc.sq_entry_shift() | cc.cq_entry_shift() << 8U;
  return cc.command_set() == 0 && cc.page_shift() == 12 && cc.arbitration() == 0 &&
         shifts == kQueueShifts;
}

}  // namespace

Controller::Controller(const Options& options)
    : options_(options),
      cap_(Cap::make(options.queue_entries_max, kReadyTimeoutMs)),
      seen_(options.now),
      keep_alive_ms_(options.keep_alive_ms),
      queues_(options.io_queues_max + 1) {}

bool Controller::expired(env::Nanos now) const noexcept {
  const env::Nanos limit = static_cast<env::Nanos>(keep_alive_ms()) * env::kMilli;
  return limit > 0 && now - seen_.load(std::memory_order_relaxed) > limit;
}

std::optional<std::uint64_t> Controller::get_property(std::uint32_t offset,
                                                      std::uint32_t bytes) const {
  if (bytes == 0 || property_bytes(offset) != bytes) return std::nullopt;
  const std::lock_guard lock(mutex_);
  switch (static_cast<PropertyOffset>(offset)) {
    case PropertyOffset::kCap:
      return cap_.bits;
    case PropertyOffset::kVs:
      return version(1, 4);
    case PropertyOffset::kCc:
      return cc_.bits;
    case PropertyOffset::kCsts:
      return csts_;
  }
  return std::nullopt;
}

bool Controller::set_property(std::uint32_t offset, std::uint32_t bytes, std::uint64_t value,
                              bool& was_reset) {
  if (static_cast<PropertyOffset>(offset) != PropertyOffset::kCc || bytes != 4) return false;
  const std::lock_guard lock(mutex_);
  set_configuration(Cc{static_cast<std::uint32_t>(value)}, was_reset);
  return true;
}

void Controller::set_configuration(Cc cc, bool& was_reset) {
  const Cc old = cc_;
  cc_ = cc;
  if (cc.shutdown() != 0 && old.shutdown() == 0) csts_ |= kCstsShutdownComplete;
  if (cc.shutdown() == 0) csts_ &= ~(3U << 2U);
  if (cc.enable() && !old.enable()) {
    // Discovery controllers have no I/O queues, so hosts may leave the sizes of entries at 0.
    csts_ = works(cc) || (options_.discovery && cc.command_set() == 0) ? kCstsReady : kCstsFatal;
  } else if (!cc.enable() && old.enable()) {
    csts_ &= ~(kCstsReady | kCstsFatal);
    std::fill(queues_.begin(), queues_.end(), false);
    incarnation_.fetch_add(1, std::memory_order_acq_rel);
    changed_.clear();
    changed_pending_ = changed_held_ = discovery_pending_ = discovery_held_ = false;
    event_mask_ = 0;
    was_reset = true;
  }
  ready_.store((csts_ & kCstsReady) != 0, std::memory_order_release);
}

Controller::QueueTaken Controller::take_queue(std::uint16_t qid) {
  const std::lock_guard lock(mutex_);
  if (ended() || (csts_ & kCstsReady) == 0) return QueueTaken::kNotReady;
  if (qid == 0 || qid >= queues_.size()) return QueueTaken::kBadId;
  if (queues_[qid]) return QueueTaken::kInUse;
  queues_[qid] = true;
  return QueueTaken::kYes;
}

void Controller::release_queue(std::uint16_t qid, std::uint32_t incarnation) {
  const std::lock_guard lock(mutex_);
  if (incarnation == incarnation_.load(std::memory_order_relaxed)) queues_[qid] = false;
}

void Controller::set_event_mask(std::uint32_t mask) {
  const std::lock_guard lock(mutex_);
  event_mask_ = mask;
}

std::uint32_t Controller::event_mask() const {
  const std::lock_guard lock(mutex_);
  return event_mask_;
}

void Controller::note_changed(std::uint32_t nsid) {
  const std::lock_guard lock(mutex_);
  const auto at = std::lower_bound(changed_.begin(), changed_.end(), nsid);
  if (at == changed_.end() || *at != nsid) changed_.insert(at, nsid);
  changed_pending_ = true;
}

void Controller::note_discovery_changed() {
  const std::lock_guard lock(mutex_);
  discovery_pending_ = true;
}

std::optional<AsyncEvent> Controller::next_event() {
  const std::lock_guard lock(mutex_);
  if (changed_pending_ && !changed_held_ && (event_mask_ & kEventNamespaceChanged) != 0) {
    changed_pending_ = false;
    changed_held_ = true;
    return AsyncEvent{kEventNotice, kNoticeNamespaceChanged,
                      static_cast<std::uint8_t>(LogPage::kChangedNamespaces)};
  }
  if (discovery_pending_ && !discovery_held_ && (event_mask_ & kEventDiscoveryChanged) != 0) {
    discovery_pending_ = false;
    discovery_held_ = true;
    return AsyncEvent{kEventNotice, kNoticeDiscoveryChanged,
                      static_cast<std::uint8_t>(LogPage::kDiscovery)};
  }
  return std::nullopt;
}

std::vector<std::uint32_t> Controller::changed(bool retain) {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint32_t> out = changed_;
  if (!retain) {
    changed_.clear();
    changed_held_ = false;
    changed_pending_ = false;
  }
  return out;
}

void Controller::discovery_log_read(bool retain) {
  const std::lock_guard lock(mutex_);
  if (!retain) discovery_held_ = false;
}

}  // namespace larder::nvmf
