// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/offloader.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "obs/log.h"

namespace larder::tier {
namespace {

// How soon a lane asks again when its device is full but room is being made.
constexpr env::Nanos kRoomPause = 5 * env::kMilli;

bool is_current(const route::Entry& entry) noexcept {
  return entry.linked() && entry.state() == route::RouteState::kActive;
}

}  // namespace

Offloader::Offloader(const ColdOptions& options, const Links& links)
    : options_(options), links_(links), owed_(links.hot->slots()) {}

Offloader::~Offloader() = default;

Result<std::unique_ptr<Offloader>> Offloader::create(const ColdOptions& options,
                                                     const Links& links) {
  std::unique_ptr<Offloader> made(new Offloader(options, links));
  LARDER_ASSIGN(ReuseFilter reuse, ReuseFilter::create(options.reuse));
  made->reuse_ = std::make_unique<ReuseFilter>(std::move(reuse));
  OffloadQueueOptions queue_options = options.queue;
  queue_options.slots_max = links.hot->slots();
  queue_options.items_max = links.hot->slots();
  LARDER_ASSIGN(OffloadQueue queue, OffloadQueue::create(queue_options));
  made->queue_ = std::make_unique<OffloadQueue>(std::move(queue));
  AdmissionOptions admission_options = options.admission;
  admission_options.devices_max = 255;
  LARDER_ASSIGN(Admission admission, Admission::create(admission_options));
  made->admission_ = std::make_unique<Admission>(std::move(admission));
  return made;
}

// ---- what is owed ----

bool Offloader::wanted(std::uint64_t hash) const noexcept {
  return accepting_.load(std::memory_order_relaxed) &&
         reuse_->is_worth(hash, room_.load(std::memory_order_relaxed));
}

void Offloader::owe(const route::Entry& entry) noexcept {
  owed_[entry.hot().slot].store(kOwed, std::memory_order_relaxed);
  stats_.owed.fetch_add(1, std::memory_order_relaxed);
  stats_.owed_bytes.fetch_add(entry.length(), std::memory_order_relaxed);
}

void Offloader::on_install(const route::Entry& entry, bool fresh) noexcept {
  if (!fresh) return;  // it has a record
  if (wanted(entry.hash())) return owe(entry);
  stats_.unwanted.fetch_add(1, std::memory_order_relaxed);
}

void Offloader::on_publish(const route::Entry& entry) noexcept {
  if (options_.mode != OffloadMode::kPassthrough) return;
  if (owed_[entry.hot().slot].load(std::memory_order_relaxed) == kOwed) queue(entry);
}

void Offloader::on_release(const route::Entry& entry) noexcept {
  settle(entry);
}

void Offloader::let_go(const route::Entry& entry) noexcept {
  if (entry.has_hot()) settle(entry, kLetGo);
}

bool Offloader::may_evict(const route::Entry& entry) noexcept {
  if (entry.cold() != 0) return true;
  if (!accepting_.load(std::memory_order_relaxed)) return true;
  const std::uint8_t owed = owed_[entry.hot().slot].load(std::memory_order_relaxed);
  if (owed == kQueued) return false;
  if (owed == kLetGo) return true;
  if (owed == kNothing) {
    // It was not worth it when it was put, no disk took records then, or its record was lost.
    if (!wanted(entry.hash())) return true;
    owe(entry);
  }
  queue(entry);
  return false;
}

void Offloader::queue(const route::Entry& entry) noexcept {
  const std::uint32_t slot = entry.hot().slot;
  {
    const std::lock_guard lock(mutex_);
    const auto put = queue_->put(slot, entry.version(), entry.length(), env::monotonic_now());
    if (put == OffloadQueue::Put::kFull || put == OffloadQueue::Put::kBadSlot) return;
    owed_[slot].store(kQueued, std::memory_order_relaxed);
  }
  if (hungry_.exchange(false, std::memory_order_acq_rel) && wake_) wake_();
}

// The slot owes nothing any more. The caller holds the entry, so the slot is its own.
void Offloader::settle(const route::Entry& entry, Owed then) noexcept {
  const std::uint32_t slot = entry.hot().slot;
  const std::uint8_t before = owed_[slot].exchange(then, std::memory_order_relaxed);
  if (before != kOwed && before != kQueued) return;
  {
    const std::lock_guard lock(mutex_);
    moving_.erase(slot);
  }
  stats_.owed.fetch_sub(1, std::memory_order_relaxed);
  stats_.owed_bytes.fetch_sub(entry.length(), std::memory_order_relaxed);
}

void Offloader::set_accepting(bool accepting, bool room) noexcept {
  room_.store(room, std::memory_order_relaxed);
  const bool before = accepting_.exchange(accepting, std::memory_order_acq_rel);
  if (before && !accepting) room_came(~0ULL >> 1U);  // nothing has to wait for a disk now
  if (accepting && !before && wake_) wake_();
}

bool Offloader::move(const route::EntryRef& entry) {
  const std::uint64_t from = entry->cold();
  if (from == 0 || !entry->has_hot() || !accepting_.load(std::memory_order_relaxed)) return false;
  {
    const std::lock_guard lock(mutex_);
    if (!moving_.emplace(entry->hot().slot, from).second) return false;
  }
  owe(*entry);
  queue(*entry);
  return true;
}

std::uint64_t Offloader::left_by(std::uint32_t slot) const {
  const std::lock_guard lock(mutex_);
  const auto found = moving_.find(slot);
  return found != moving_.end() ? found->second : 0;
}

// ---- lanes ----

std::optional<OffloadItem> Offloader::admitted(const ColdDevice& device, env::Nanos now,
                                               env::Nanos& again) {
  const std::lock_guard lock(mutex_);
  std::optional<OffloadItem> item = queue_->take(now);
  if (!item) {
    hungry_.store(true, std::memory_order_release);
    if (const auto due = queue_->next_due(now)) again = std::min(again, *due);
    return std::nullopt;
  }
  const Admitted admitted = admission_->try_begin(device.number(), item->length, now);
  if (admitted.ok()) {
    ++writing_;
    return item;
  }
  queue_->defer(*item, now);
  again = std::min(again, admitted.again);
  return std::nullopt;
}

std::optional<WriteJob> Offloader::next(ColdDevice& device, env::Nanos now, env::Nanos& again,
                                        std::uint64_t& need_room) {
  while (device.accepts()) {
    const std::optional<OffloadItem> item = admitted(device, now, again);
    if (!item) return std::nullopt;
    route::EntryRef entry = links_.hot->find(item->slot, item->version);
    // Removed, replaced, or written by now: nothing is owed.
    if (!entry || entry->cold() != left_by(item->slot)) {
      give_back(device, *item, now, false);
      continue;
    }
    Result<extent::Reservation> space = reserve(device, entry->length());
    if (space && !take_off(*entry)) {
      give_back(device, *item, now, false);
      continue;
    }
    if (space) {
      WriteJob job = job_for(*item, std::move(entry));
      job.replaces = left_by(item->slot);
      job.space = std::move(*space);
      return job;
    }
    if (space.error().code() == Code::kTooLarge) {
      too_large(device, *item, *entry, now);
      continue;
    }
    give_back(device, *item, now, true);
    if (space.error().code() == Code::kExhausted) need_room = entry->length();
    again = std::min(again, now + kRoomPause);
    return std::nullopt;
  }
  return std::nullopt;
}

// Known as being written first, looked at then: whoever changes the route does it the other way
// round, so one of the two sees the other.
bool Offloader::take_off(const route::Entry& entry) {
  const std::lock_guard lock(mutex_);
  in_flight_[entry.version()];
  if (is_current(entry)) return true;
  in_flight_.erase(entry.version());
  return false;
}

std::vector<Offloader::Gone> Offloader::landed(std::uint64_t version) {
  const std::lock_guard lock(mutex_);
  auto found = in_flight_.extract(version);
  return found ? std::move(found.mapped()) : std::vector<Gone>();
}

bool Offloader::is_writing(std::uint64_t version) const {
  const std::lock_guard lock(mutex_);
  return in_flight_.contains(version) || doubtful_.contains(version);
}

bool Offloader::wait_gone(std::uint64_t version, Gone gone) {
  std::unique_lock lock(mutex_);
  if (const auto found = in_flight_.find(version); found != in_flight_.end()) {
    found->second.push_back(std::move(gone));
    return true;
  }
  const auto doubtful = doubtful_.find(version);
  if (doubtful == doubtful_.end()) return false;
  const Error error = doubtful->second;
  lock.unlock();
  gone(fail(error));
  return true;
}

Result<extent::Reservation> Offloader::reserve(ColdDevice& device, std::uint64_t bytes) const {
  if (options_.reserve_bytes != 0 && device.store().stats().free < options_.reserve_bytes + bytes) {
    return fail(Code::kExhausted, "what is free is kept free (cold.reserve)");
  }
  return device.store().reserve(bytes);
}

// Another disk may be large enough, so that counts as a failure like others.
void Offloader::too_large(const ColdDevice& device, const OffloadItem& item,
                          const route::Entry& entry, env::Nanos now) {
  const bool again = item.failures + 1 < options_.write_failures_max;
  give_back(device, item, now, false);
  if (!again) {
    stats_.given_up.fetch_add(1, std::memory_order_relaxed);
    return settle(entry, kLetGo);
  }
  const std::lock_guard lock(mutex_);
  queue_->retry(item, now);
}

WriteJob Offloader::job_for(const OffloadItem& item, route::EntryRef entry) const {
  WriteJob job;
  job.item = item;
  job.payload = {links_.hot->data(*entry), static_cast<std::size_t>(entry->length())};
  route::Spaces::Names names = links_.spaces->names(entry->space());
  job.manifest.tenant = std::move(names.tenant);
  job.manifest.domain = std::move(names.domain);
  job.manifest.object_set = std::move(names.object_set);
  job.manifest.key = entry->key();
  job.manifest.version = entry->version();
  job.manifest.length = entry->length();
  job.manifest.checksum = entry->checksum();
  job.entry = std::move(entry);
  return job;
}

// An item that never went to the device.
void Offloader::give_back(const ColdDevice& device, const OffloadItem& item, env::Nanos now,
                          bool again) {
  const std::lock_guard lock(mutex_);
  admission_->give_back(device.number(), item.length, now);
  if (--writing_ == 0) idle_.notify_all();
  if (again) queue_->defer(item, now);
}

Offloader::Written Offloader::written(ColdDevice& device, WriteJob& job, std::uint64_t place,
                                      env::Nanos now) {
  Written result;
  const bool kept = result.kept = job.replaces == 0
                                      ? links_.routes->add_record(job.entry, place)
                                      : links_.routes->move_record(job.entry, job.replaces, place);
  if (!kept) stats_.too_late.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t bytes = job.entry->length();
  settle(*job.entry);
  result.waiters = landed(job.entry->version());
  job.entry = {};  // from here on it may be evicted
  {
    const std::lock_guard lock(mutex_);
    admission_->end(device.number(), job.item.length, true, now);
    if (--writing_ == 0) idle_.notify_all();
  }
  room_came(bytes);
  return result;
}

void Offloader::failed(ColdDevice& device, WriteJob job, const Error& error, env::Nanos now) {
  const bool pushed_back = error.code() == Code::kBackpressure || error.code() == Code::kCancelled;
  if (error.code() == Code::kExhausted) device.note_no_space(now);
  const std::uint64_t bytes = job.entry->length();
  const bool wanted = is_current(*job.entry);
  const bool again = wanted && (pushed_back || job.item.failures + 1 < options_.write_failures_max);
  // Where a header may have been written and could not be taken back.
  const bool unclear = device.store().stats().stuck != 0 ||
                       device.device().health().state == block::HealthState::kFailed;
  if (!pushed_back && unclear) doubt(job.entry->version(), error);
  const std::vector<Gone> waiters = landed(job.entry->version());
  if (!again) {
    if (wanted) stats_.given_up.fetch_add(1, std::memory_order_relaxed);
    settle(*job.entry, kLetGo);
  }
  job.entry = {};
  {
    const std::lock_guard lock(mutex_);
    if (pushed_back) {
      admission_->give_back(device.number(), job.item.length, now);
      if (again) queue_->defer(job.item, now);
    } else {
      admission_->end(device.number(), job.item.length, false, now);
      if (again) queue_->retry(job.item, now);
    }
    if (--writing_ == 0) idle_.notify_all();
  }
  for (const Gone& gone : waiters) gone(!pushed_back && unclear ? fail(error) : Result<void>{});
  if (!again) room_came(bytes);
}

void Offloader::doubt(std::uint64_t version, const Error& error) {
  const std::lock_guard lock(mutex_);
  if (doubtful_.size() < kDoubtfulMax) doubtful_.emplace(version, error);
}

// ---- those who wait ----

bool Offloader::wait_for_room(std::uint64_t bytes, env::Nanos deadline,
                              std::function<void()> done) {
  if (!accepting_.load(std::memory_order_relaxed)) return false;
  if (stats_.owed.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard lock(waiters_mutex_);
  if (waiters_.size() >= kWaitersMax) return false;
  if (waiters_.empty()) came_ = 0;
  waiters_.push_back({bytes, deadline, std::move(done)});
  stats_.room_waits.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Offloader::room_came(std::uint64_t bytes) {
  std::vector<std::function<void()>> ready;
  {
    const std::lock_guard lock(waiters_mutex_);
    came_ += bytes;
    while (!waiters_.empty() && waiters_.front().bytes <= came_) {
      came_ -= waiters_.front().bytes;
      ready.push_back(std::move(waiters_.front().done));
      waiters_.pop_front();
    }
    if (waiters_.empty()) came_ = 0;
  }
  for (const auto& done : ready) done();
}

void Offloader::tick(env::Nanos now) {
  std::vector<std::function<void()>> ready;
  {
    const std::lock_guard lock(waiters_mutex_);
    std::erase_if(waiters_, [&](Waiter& waiter) {
      if (waiter.deadline > now) return false;
      ready.push_back(std::move(waiter.done));
      return true;
    });
  }
  for (const auto& done : ready) done();
}

bool Offloader::wait_idle(env::Nanos deadline) {
  const auto until = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline));
  std::unique_lock lock(mutex_);
  return idle_.wait_until(lock, until,
                          [this] { return writing_ == 0 && queue_->counts().size == 0; });
}

OffloadCounts Offloader::queue_counts() const {
  const std::lock_guard lock(mutex_);
  return queue_->counts();
}

AdmissionCounts Offloader::admission_counts() const {
  const std::lock_guard lock(mutex_);
  return admission_->node_counts();
}

void Offloader::forgive(std::uint8_t device) {
  const std::lock_guard lock(mutex_);
  admission_->forgive(device);
}

std::uint64_t Offloader::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  return owed_.size() + queue_->report_memory_bytes() + reuse_->report_memory_bytes();
}

}  // namespace larder::tier
