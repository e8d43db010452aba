// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/restorer.h"

#include <algorithm>
#include <utility>

#include "base/offset_allocator.h"
#include "tier/cold/place.h"

namespace larder::tier {
namespace {

constexpr std::size_t kPage = 4096;

Error gone() {
  return Error(Code::kNotFound, "the record is gone");
}

}  // namespace

Restorer::~Restorer() = default;

void Restorer::restore(route::EntryRef entry, qos::Purpose purpose, bool into_dram, Done done) {
  const std::uint64_t place = entry->cold();
  if (place == 0) return done(fail(gone()));
  FlightRef flight;
  bool refused = false;
  {
    const std::lock_guard lock(mutex_);
    if (const auto under_way = flights_.find(place); under_way != flights_.end()) {
      stats_.joined.fetch_add(1, std::memory_order_relaxed);
      under_way->second->into_dram |= into_dram;
      under_way->second->waiters.push_back(std::move(done));
      return;
    }
    refused = waiting_.size() >= kWaitingMax;
    if (!refused) {
      flight = std::make_shared<Flight>();
      flight->entry = std::move(entry);
      flight->place = place;
      flight->purpose = purpose;
      flight->into_dram = into_dram;
      flight->waiters.push_back(std::move(done));
      flights_.emplace(place, flight);
    }
  }
  if (refused) {
    stats_.refused.fetch_add(1, std::memory_order_relaxed);
    return done(fail(Code::kBackpressure, "too many reads wait for the disks; retry later"));
  }
  take_off(std::move(flight));
}

void Restorer::prefetch(route::EntryRef entry, qos::Purpose purpose) {
  if (!promotes()) return;
  const std::uint64_t place = entry->cold();
  if (place == 0) return;
  FlightRef flight;
  {
    const std::lock_guard lock(mutex_);
    if (flights_.contains(place) || waiting_.size() >= kWaitingMax) return;
    flight = std::make_shared<Flight>();
    flight->entry = std::move(entry);
    flight->place = place;
    flight->purpose = purpose;
    flight->into_dram = true;
    flights_.emplace(place, flight);
  }
  take_off(std::move(flight));
}

std::optional<DirectPlace> Restorer::offer(const route::EntryRef& entry, const DirectWish& wish) {
  const Place place = Place::unpack(entry->cold());
  DirectPlace direct;
  direct.device = links_.devices->device(place.device);
  if (!direct.device || !direct.device->readable() || !direct.device->direct_name()) return {};
  const bool wanted = direct.device->is_remote() ? wish.remote : wish.files;
  if (!wanted || wish.not_these[place.device]) return {};
  const bool lately = read_lately(*direct.device, place.record, entry->length());
  if (options_.promotion == Promotion::kOnHit) return {};
  if (options_.promotion == Promotion::kOnSecondHit && lately) return {};
  const Result<extent::Pin> pin = direct.device->store().pin(place.record);
  if (!pin || pin->payload_bytes() != entry->length()) return {};
  direct.extent_count = pin->extents().size();
  std::copy(pin->extents().begin(), pin->extents().end(), direct.extents.begin());
  direct.device->note_direct_read(entry->length());
  return direct;
}

bool Restorer::asked_into_dram(const Flight& flight) const {
  const std::lock_guard lock(mutex_);
  return flight.into_dram;  // of whoever has joined by now
}

bool Restorer::has_waiters(const Flight& flight) const {
  const std::lock_guard lock(mutex_);
  return !flight.waiters.empty();
}

// Begins it, or lets it wait for its turn.
void Restorer::take_off(FlightRef flight) {
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t bytes = flight->entry->length();
    if (bytes_ != 0 && bytes_ + bytes > options_.restore_bytes_max) {
      stats_.waited.fetch_add(1, std::memory_order_relaxed);
      waiting_.push_back(std::move(flight));
      return;
    }
    bytes_ += bytes;
    stats_.bytes_in_flight.store(bytes_, std::memory_order_relaxed);
  }
  begin(flight);
}

void Restorer::begin(const FlightRef& flight) {
  const Place place = Place::unpack(flight->place);
  flight->device = links_.devices->device(place.device);
  if (!flight->device || !flight->device->readable()) {
    return land(flight, fail(Code::kUnavailable, "the disk with this value is not in service"));
  }
  Result<extent::Pin> pin = flight->device->store().pin(place.record);
  if (!pin) return land(flight, fail(gone()));
  if (pin->payload_bytes() != flight->entry->length()) {
    on_bad(*flight, Error(Code::kCorrupt, "the record has another length than its route"));
    return land(flight, fail(gone()));
  }
  Result<std::span<std::byte>> room = make_room(*flight);
  if (!room) return land(flight, fail(room.error()));
  stats_.flights.fetch_add(1, std::memory_order_relaxed);
  ReadJob job;
  job.pin = std::move(*pin);
  job.into = *room;
  job.checksum = flight->entry->checksum();
  job.purpose = flight->purpose;
  job.done = [this, flight](Result<void> result) { on_read(flight, std::move(result)); };
  flight->device->reads().submit(std::move(job));
}

bool Restorer::worth_dram(const Flight& flight) {
  // Who wants it there has asked already, and was counted then.
  if (asked_into_dram(flight)) return true;
  const bool lately =
      read_lately(*flight.device, Place::unpack(flight.place).record, flight.entry->length());
  return options_.promotion == Promotion::kOnHit ||
         (options_.promotion == Promotion::kOnSecondHit && lately);
}

// A value that comes back only after more was read than DRAM holds would have left DRAM by then, so
// keeping it there would have been in vain. The distance is kept in quarters of DRAM, in a byte for
// each record; one that was read 255 quarters ago may pass for read just now.
bool Restorer::read_lately(ColdDevice& device, extent::RecordId id, std::uint64_t bytes) {
  constexpr std::uint64_t kQuarters = 4;
  const std::uint64_t quarter = std::max<std::uint64_t>(links_.hot->capacity() / kQuarters, 1);
  const std::uint64_t read = read_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  const auto now = static_cast<std::uint8_t>(1 + read / quarter % 255);
  const std::uint8_t before = device.index().stamp(id, now);
  device.index().touch(id);  // the order of eviction counts every read
  return before != 0 && (now + 255U - before) % 255U < kQuarters;
}

Result<std::span<std::byte>> Restorer::make_room(Flight& flight) {
  const std::uint64_t length = flight.entry->length();
  flight.value = std::make_shared<Restored>();
  Restored& value = *flight.value;
  value.length_ = length;
  if (worth_dram(flight)) {
    if (Result<Reservation> space = links_.hot->reserve(length)) {
      value.reservation_ = std::move(*space);
      value.data_ = value.reservation_.data();
      flight.in_hot = true;
      return std::span(value.reservation_.data(),
                       static_cast<std::size_t>(OffsetAllocator::rounded(length)));
    }
  }
  // Read ahead, and DRAM has no room: not worth it. Who joins just now looks again.
  if (!has_waiters(flight)) return fail(gone());
  const auto room = static_cast<std::size_t>((length + kPage - 1) / kPage * kPage);
  LARDER_ASSIGN(value.buffer_, block::AlignedBuffer::create(room, kPage));
  value.data_ = value.buffer_.data();
  return value.buffer_.span();
}

void Restorer::on_read(const FlightRef& flight, Result<void> result) {
  ColdCounters& counters = flight->device->counters();
  if (!result) {
    if (result.error().code() == Code::kCancelled) return land(flight, fail(result.error()));
    if (flight->device->is_remote() && result.error().code() == Code::kUnavailable) {
      // The way to it is broken, which says nothing of the record: it will be there again.
      counters.read_errors.fetch_add(1, std::memory_order_relaxed);
      flight->device->set_last_error(result.error().to_string());
      return land(flight, fail(result.error()));
    }
    on_bad(*flight, result.error());
    return land(flight, fail(gone()));
  }
  const std::uint64_t bytes = flight->value->length();
  counters.restored.fetch_add(1, std::memory_order_relaxed);
  counters.restored_bytes.fetch_add(bytes, std::memory_order_relaxed);
  links_.transfers->completed({flight->device->transport(), flight->purpose.traffic_class,
                               flight->purpose.intent, Opcode::kRead},
                              1, bytes);
  if (flight->in_hot) promote(*flight);
  land(flight, RestoredRef(flight->value));
}

// Best effort: where the route has changed meanwhile the bytes are right all the same, of the
// version that was asked for.
void Restorer::promote(Flight& flight) {
  flight.value->hot_ = links_.hot->promote(flight.entry, flight.value->reservation_);
  if (flight.value->hot_) stats_.promoted.fetch_add(1, std::memory_order_relaxed);
}

// A record that cannot be read as it was written is forgotten: a miss is honest, and lets the value
// be put again.
void Restorer::on_bad(Flight& flight, const Error& error) {
  ColdCounters& counters = flight.device->counters();
  const bool corrupt = error.code() == Code::kCorrupt;
  (corrupt ? counters.corrupt : counters.read_errors).fetch_add(1, std::memory_order_relaxed);
  if (corrupt) flight.device->store().note_damaged_payload();
  flight.device->set_last_error(error.to_string());
  links_.routes->drop_record(flight.entry, flight.place);
}

void Restorer::land(const FlightRef& flight, Result<RestoredRef> result) {
  if (!result) stats_.missed.fetch_add(1, std::memory_order_relaxed);
  std::vector<Done> waiters;
  {
    const std::lock_guard lock(mutex_);
    flights_.erase(flight->place);
    waiters.swap(flight->waiters);
    bytes_ -= flight->entry->length();
    while (!waiting_.empty()) {
      const std::uint64_t bytes = waiting_.front()->entry->length();
      if (bytes_ != 0 && bytes_ + bytes > options_.restore_bytes_max) break;
      bytes_ += bytes;
      ready_.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    stats_.bytes_in_flight.store(bytes_, std::memory_order_relaxed);
  }
  flight->value.reset();
  for (const Done& done : waiters) done(result);
  result = fail(gone());  // drops our reference before others need the room
  begin_ready();
}

// One thread at a time: flights that end as they begin then make a loop, not a tower of calls.
void Restorer::begin_ready() {
  std::unique_lock lock(mutex_);
  if (draining_) return;
  draining_ = true;
  while (!ready_.empty()) {
    const FlightRef flight = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    begin(flight);
    lock.lock();
  }
  draining_ = false;
}

}  // namespace larder::tier
