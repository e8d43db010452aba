// SPDX-License-Identifier: Apache-2.0
// A disk that is to be emptied: its records are written to the others, as many at a time as pass
// through DRAM without crowding it.
#include "tier/cold/cold_tier.h"
#include "tier/cold/place.h"

namespace larder::tier {
namespace {

constexpr int kMovesPerTick = 64;

}  // namespace

// A step through the disk's records, from where the last one ended. What cannot move now (no room
// elsewhere, read by somebody) is met again in the next round.
void ColdTier::drain(Seat& seat, const std::shared_ptr<ColdDevice>& device) {
  if (!offloader_->accepting()) return;  // nowhere to go
  for (int i = 0; i < kMovesPerTick; ++i) {
    const auto record = device->index().from(seat.drain_cell);
    if (!record) {
      seat.drain_cell = 0;
      return;
    }
    seat.drain_cell = record->id.cell + 1;
    const std::uint64_t place = Place{device->number(), record->id}.pack();
    const route::EntryRef entry = links_.routes->find_record(record->hash, place);
    if (!entry) continue;
    if (entry->has_hot()) {
      offloader_->move(entry);
      continue;
    }
    // As a write to this disk: where it will go nobody knows yet.
    restorer_->restore(entry, device->write_purpose(), true,
                       [this](const Result<RestoredRef>& value) {
                         if (value && (*value)->hot()) offloader_->move((*value)->hot());
                       });
  }
}

}  // namespace larder::tier
