// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/cold_tier.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "env/thread.h"
#include "obs/log.h"
#include "tier/cold/place.h"

namespace larder::tier {
namespace {

constexpr std::uint64_t kScrubStepBytes = 4U << 20U;
constexpr env::Nanos kScrubLookEvery = 20 * env::kMilli;
constexpr env::Nanos kTickWhileStopping = 20 * env::kMilli;

}  // namespace

// The disk's writing lane, seen from the tier.
class ColdTier::Writes final : public WriteSource {
 public:
  Writes(ColdTier& tier, ColdDevice& device) : tier_(tier), device_(device) {}

  std::optional<WriteJob> next_write(env::Nanos now, env::Nanos& again) override {
    std::uint64_t need_room = 0;
    std::optional<WriteJob> job = tier_.offloader_->next(device_, now, again, need_room);
    if (!job && need_room != 0) tier_.make_room(device_, need_room);
    return job;
  }

  void on_written(WriteJob job, Result<extent::RecordId> result) override {
    const env::Nanos now = env::monotonic_now();
    ColdCounters& counters = device_.counters();
    if (!result) {
      counters.write_errors.fetch_add(1, std::memory_order_relaxed);
      device_.set_last_error(result.error().to_string());
      return tier_.offloader_->failed(device_, std::move(job), result.error(), now);
    }
    const std::uint64_t bytes = job.payload.size();
    counters.offloaded.fetch_add(1, std::memory_order_relaxed);
    counters.offloaded_bytes.fetch_add(bytes, std::memory_order_relaxed);
    const qos::Purpose why = device_.write_purpose();
    tier_.links_.transfers->completed(
        {device_.transport(), why.traffic_class, why.intent, Opcode::kWrite}, 1, bytes);
    // In the index first: the route may forget the record as soon as it names it.
    device_.index().insert(*result, job.entry->hash(), bytes);
    const Place place{device_.number(), *result};
    const Offloader::Written written = tier_.offloader_->written(device_, job, place.pack(), now);
    if (written.kept) return;
    device_.index().erase(*result);
    device_.writes().release(*result, [waiters = written.waiters](const Result<void>& gone) {
      for (const Offloader::Gone& tell : waiters) tell(gone);
    });
  }

  bool reads_waiting() const noexcept override { return device_.reads_waiting(); }

 private:
  ColdTier& tier_;
  ColdDevice& device_;
};

ColdTier::ColdTier(const ColdOptions& options, const Links& links)
    : options_(options), links_(links) {}

Result<std::unique_ptr<ColdTier>> ColdTier::create(const ColdOptions& options, const Links& links) {
  std::unique_ptr<ColdTier> tier(new ColdTier(options, links));
  LARDER_ASSIGN(tier->offloader_,
                Offloader::create(options, {links.hot, links.routes, links.spaces}));
  tier->offloader_->set_wake([raw = tier.get()] { raw->wake_lanes(); });
  tier->restorer_ = std::make_unique<Restorer>(
      options, Restorer::Links{links.hot, links.routes, tier.get(), links.transfers});
  links.hot->set_lower(*tier->offloader_);
  return tier;
}

ColdTier::~ColdTier() {
  stop(0);
}

// ---- disks ----

Result<void> ColdTier::add(std::shared_ptr<ColdDevice> device) {
  auto seat = std::make_unique<Seat>();
  Seat* taken = seat.get();
  seat->device = device;
  seat->writes = std::make_unique<Writes>(*this, *device);
  {
    const std::unique_lock lock(seats_mutex_);
    LARDER_TRY(number_is_left());
    seat->number = static_cast<std::uint8_t>(seats_.size());
    LARDER_TRY(device->start(seat->number, *seat->writes, options_));
    seats_.push_back(std::move(seat));
  }
  recovering_.fetch_add(1, std::memory_order_acq_rel);
  taken->scan = std::thread([this, taken, device] {
    env::set_thread_name("larder-scan");
    recover(*taken, device);
    keep_scrubbing(*taken, device);
  });
  update_accepting();
  return {};
}

Result<void> ColdTier::can_add() const {
  const std::shared_lock lock(seats_mutex_);
  return number_is_left();
}

Result<void> ColdTier::number_is_left() const {
  const std::size_t most = std::min(options_.devices_max, kDevicesMax);
  if (seats_.size() < most) return {};
  return fail(Code::kExhausted, "this node has had " + std::to_string(most) +
                                    " disks since it was started; start it anew");
}

std::vector<std::shared_ptr<ColdDevice>> ColdTier::devices() const {
  const std::shared_lock lock(seats_mutex_);
  std::vector<std::shared_ptr<ColdDevice>> all;
  for (const auto& seat : seats_) {
    if (seat->device) all.push_back(seat->device);
  }
  return all;
}

std::shared_ptr<ColdDevice> ColdTier::device(std::uint8_t number) const {
  const std::shared_lock lock(seats_mutex_);
  return number < seats_.size() ? seats_[number]->device : nullptr;
}

void ColdTier::set_state(ColdDevice& device, DeviceState state) {
  if (device.state() == state) return;
  obs::log(obs::Level::kInfo, "disk_state",
           {{"disk", device.path()}, {"id", device.id()}, {"state", device_state_name(state)}});
  device.set_state(state);
  if (state == DeviceState::kHealthy) offloader_->forgive(device.number());
  update_accepting();
  wake_lanes();  // the one that found its disk full sleeps
  if (state == DeviceState::kFailed) forget_routes(device);
}

Result<void> ColdTier::take_out(const std::shared_ptr<ColdDevice>& device) {
  device->set_out();
  update_accepting();
  Seat* seat = nullptr;
  {
    const std::unique_lock lock(seats_mutex_);
    seat = seats_[device->number()].get();
    seat->device = nullptr;
  }
  end_scan(*seat);
  forget_routes(*device);
  return device->stop();
}

void ColdTier::update_accepting() {
  bool accepting = false;
  bool room = false;
  for (const auto& device : devices()) {
    const bool full = device->state() == DeviceState::kFull && !device->is_out();
    if (!device->accepts() && !full) continue;
    const extent::StoreStats stats = device->store().stats();
    // A full disk takes more once what it gives up is durable: that is worth waiting for.
    accepting |= !full || stats.releasing > 0;
    room |= static_cast<double>(stats.used) <
            static_cast<double>(stats.capacity) * options_.low_watermark;
  }
  offloader_->set_accepting(accepting, room);
}

void ColdTier::wake_lanes() {
  for (const auto& device : devices()) {
    if (device->accepts()) device->writes().wake();
  }
}

// Of a disk whose records cannot be read any more, or shall not be: they stay on it.
void ColdTier::forget_routes(ColdDevice& device) {
  std::uint32_t cell = 0;
  while (const auto record = device.index().from(cell)) {
    cell = record->id.cell + 1;
    const std::uint64_t place = Place{device.number(), record->id}.pack();
    if (const route::EntryRef entry = links_.routes->find_record(record->hash, place)) {
      links_.routes->drop_record(entry, place);
    }
  }
}

// ---- records that go ----

void ColdTier::on_forgotten(std::uint64_t place) noexcept {
  const std::lock_guard lock(forgotten_mutex_);
  forgotten_.push_back(place);
}

void ColdTier::release_forgotten() {
  std::vector<std::uint64_t> places;
  {
    const std::lock_guard lock(forgotten_mutex_);
    places.swap(forgotten_);
  }
  std::vector<std::uint64_t> later;  // of disks that are disabled
  for (const std::uint64_t packed : places) {
    const Place place = Place::unpack(packed);
    const std::shared_ptr<ColdDevice> device = this->device(place.device);
    if (!device || device->is_out()) continue;
    if (device->state() == DeviceState::kDisabledByAdmin) {
      later.push_back(packed);
      continue;
    }
    device->index().erase(place.record);
    if (!device->readable()) continue;
    // By the lane, which knows then of those that are not durable yet.
    device->writes().release(place.record, [](const Result<void>&) {});
  }
  if (later.empty()) return;
  const std::lock_guard lock(forgotten_mutex_);
  forgotten_.insert(forgotten_.end(), later.begin(), later.end());
}

bool ColdTier::lingers(std::uint64_t version, std::uint64_t place) const {
  return place != 0 || offloader_->is_writing(version);
}

void ColdTier::forget(std::uint64_t version, std::uint64_t place, Offloader::Gone done) {
  const bool waits = offloader_->wait_gone(version, [this, place, done](Result<void> gone) {
    if (!gone) return done(std::move(gone));
    forget_record(place, done);
  });
  if (!waits) forget_record(place, done);
}

void ColdTier::forget_record(std::uint64_t packed, const Offloader::Gone& done) {
  if (packed == 0) return done({});
  const Place place = Place::unpack(packed);
  const std::shared_ptr<ColdDevice> device = this->device(place.device);
  if (!device || !device->readable()) {
    return done(fail(Code::kUnavailable,
                     "the disk with this value is not in service, so the value cannot be taken off "
                     "it; remove it again when the disk is back"));
  }
  device->index().erase(place.record);
  device->writes().release(place.record, done);
}

void ColdTier::touch(std::uint64_t place) noexcept {
  if (place == 0) return;
  const Place at = Place::unpack(place);
  if (const auto device = this->device(at.device)) device->index().touch(at.record);
}

// Drops what is least wanted; its space comes back when that is durable. Returns the bytes.
std::uint64_t ColdTier::make_room(ColdDevice& device, std::uint64_t bytes) {
  std::uint64_t made = 0;
  std::uint64_t in_vain = 0;
  const std::uint64_t records = device.index().records();
  while (made < bytes && in_vain < records) {
    const std::optional<IndexedRecord> victim = device.index().next_victim();
    if (!victim) break;
    const std::uint64_t place = Place{device.number(), victim->id}.pack();
    const route::EntryRef entry = links_.routes->find_record(victim->hash, place);
    const std::uint64_t length = entry ? entry->length() : 0;
    // What is read from DRAM all the time is never read from here, and is wanted all the same.
    const bool wanted = entry && entry->has_hot() && links_.hot->is_wanted(entry->hot().slot);
    if (!entry || (wanted && in_vain < records / 2) || !links_.routes->drop_record(entry, place)) {
      ++in_vain;  // or it is being removed
      continue;
    }
    offloader_->let_go(*entry);
    device.index().remember(victim->hash);
    device.index().erase(victim->id);
    device.counters().evicted.fetch_add(1, std::memory_order_relaxed);
    device.counters().evicted_bytes.fetch_add(length, std::memory_order_relaxed);
    made += length;
  }
  release_forgotten();
  return made;
}

// ---- upkeep ----

void ColdTier::keep_within_marks(ColdDevice& device, env::Nanos now) {
  const extent::StoreStats stats = device.store().stats();
  if (!stats.recovered) return;
  const auto share = [&](double mark) {
    return static_cast<std::uint64_t>(
        static_cast<double>(stats.capacity - std::min(stats.capacity, options_.reserve_bytes)) *
        mark);
  };
  const std::uint64_t staying = stats.used - stats.releasing - stats.stuck;
  if (staying > share(options_.high_watermark)) {
    make_room(device, staying - share(options_.low_watermark));
  }
  // Cells run out before space where records are small.
  if (stats.cells_used > stats.cells / 100 * 97) {
    make_room(device, stats.payload_bytes / 20);
  }
  const bool no_space = device.lacks_space(now);
  if (device.state() == DeviceState::kHealthy) {
    const bool full = no_space || stats.used > share(options_.critical_watermark);
    if (full) set_state(device, DeviceState::kFull);
  } else if (device.state() == DeviceState::kFull) {
    const bool room = !no_space && stats.used < share(options_.high_watermark);
    if (room) set_state(device, DeviceState::kHealthy);
  }
}

void ColdTier::look_at_health(ColdDevice& device) {
  const block::Health health = device.device().health();
  if (health.state != block::HealthState::kFailed || !device.readable()) return;
  device.set_last_error(health.reason);
  device.set_broken();
  obs::log(obs::Level::kError, "disk_failed", {{"disk", device.path()}, {"reason", health.reason}});
  set_state(device, DeviceState::kFailed);
}

void ColdTier::tick(env::Nanos now) {
  release_forgotten();
  for (const auto& device : devices()) {
    look_at_health(*device);
    if (device->readable()) keep_within_marks(*device, now);
  }
  update_accepting();
  offloader_->tick(now);
  for (Seat* seat : seats()) {
    const std::shared_ptr<ColdDevice> device = this->device(seat->number);
    if (device && device->state() == DeviceState::kDraining) drain(*seat, device);
  }
}

std::vector<ColdTier::Seat*> ColdTier::seats() const {
  const std::shared_lock lock(seats_mutex_);
  std::vector<Seat*> all;  // they stay as long as the tier
  for (const auto& seat : seats_) all.push_back(seat.get());
  return all;
}

// The seat's thread, once the disk is scanned: it alone waits for this disk.
void ColdTier::keep_scrubbing(Seat& seat, const std::shared_ptr<ColdDevice>& device) {
  std::unique_lock lock(seat.mutex);
  while (!seat.stop.load(std::memory_order_acquire) && options_.scrub_every != 0) {
    const auto until = std::chrono::steady_clock::time_point(
        std::chrono::nanoseconds(std::max(seat.scrub_due, env::monotonic_now() + kScrubLookEvery)));
    seat.woken.wait_until(lock, until);
    if (!seat.stop.load(std::memory_order_acquire)) scrub(seat, device, env::monotonic_now());
  }
}

void ColdTier::end_scan(Seat& seat) {
  seat.stop.store(true, std::memory_order_release);
  { const std::lock_guard lock(seat.mutex); }
  seat.woken.notify_all();
  if (seat.scan.joinable()) seat.scan.join();
  seat.scrubber.reset();
}

// A step of the scrubber, at a rate that makes a round last as long as it may.
void ColdTier::scrub(Seat& seat, const std::shared_ptr<ColdDevice>& of, env::Nanos now) {
  ColdDevice& device = *of;
  if (now < seat.scrub_due || !device.readable()) return;
  const extent::StoreStats stats = device.store().stats();
  if (!stats.recovered) return;
  if (!seat.scrubber) {
    const auto report = [this, &device](extent::RecordId id, extent::Scrubber::Fault) {
      device.counters().corrupt.fetch_add(1, std::memory_order_relaxed);
      const std::uint64_t place = Place{device.number(), id}.pack();
      if (const auto record = device.index().from(id.cell); record && record->id == id) {
        if (const auto entry = links_.routes->find_record(record->hash, place)) {
          links_.routes->drop_record(entry, place);
        }
      }
    };
    auto made = extent::Scrubber::create(device.store(), report);
    if (!made) return;
    seat.scrubber = std::move(*made);
  }
  static_cast<void>(seat.scrubber->step(kScrubStepBytes));
  const std::uint64_t steps = stats.payload_bytes / kScrubStepBytes + 1;
  seat.scrub_due = now + options_.scrub_every / static_cast<env::Nanos>(steps);
}

void ColdTier::stop(env::Nanos deadline) {
  if (std::exchange(stopped_, true)) return;
  // A scan that is cut off starts over at the next start.
  for (Seat* seat : seats()) end_scan(*seat);
  while (!offloader_->wait_idle(std::min(deadline, env::monotonic_now() + kTickWhileStopping)) &&
         env::monotonic_now() < deadline) {
    tick(env::monotonic_now());
  }
  offloader_->set_accepting(false, false);
  release_forgotten();
  for (const auto& device : devices()) {
    const Result<void> closed = device->stop();
    if (closed) continue;
    obs::log(obs::Level::kWarn, "disk_not_closed",
             {{"disk", device->path()}, {"error", closed.error().to_string()}});
  }
}

std::uint64_t ColdTier::memory_bytes() const {
  std::uint64_t bytes = offloader_->memory_bytes();
  for (const auto& device : devices()) {
    bytes += device->index().memory_bytes() + device->store().stats().memory_bytes;
  }
  return bytes;
}

}  // namespace larder::tier
