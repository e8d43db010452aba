// SPDX-License-Identifier: Apache-2.0
// Of the storm: what is done to the engine.
#include "transfer/fault_storm_testing.h"

namespace larder::transfer {

constexpr int kActions = 70;

void Storm::run() {
  for (int i = 0; i < kActions && !failed(); ++i) {
    act();
    look();
  }
  finish();
}

bool Storm::chance(double probability) {
  return static_cast<double>(random_() >> 11U) * 0x1.0p-53 < probability;
}

void Storm::act() {
  const std::uint64_t dice = below(100);
  if (dice < 30) return submit_somewhere();
  if (dice < 66) {
    const std::uint64_t steps = 1 + below(4);
    for (std::uint64_t i = 0; i < steps; ++i) rig_.faults[below(rig_.faults.size())]->step();
    return;
  }
  if (dice < 76) return give_up(false);
  if (dice < 82) return give_up(true);
  if (dice < 88) return unregister();
  if (dice < 92) return free_batch();
  if (dice < 99) {
    rig_.breakers.forget(kLocalSegment);
    return rig_.breakers.forget(segment_);
  }
  if (!chance(0.4)) return;
  ++totals_.deaths;
  rig_.faults[below(rig_.faults.size())]->die();
}

std::vector<std::size_t> Storm::open_places() const {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (!places_[i].freed) open.push_back(i);
  }
  return open;
}

void Storm::submit_somewhere() {
  const auto open = open_places();
  if (!open.empty()) submit(open[below(open.size())]);
}

void Storm::give_up(bool time_out) {
  if (asks_.empty()) return;
  const Ask& ask = asks_[below(asks_.size())];
  if (places_[ask.place].blind) return;
  Task& task = places_[ask.place].batch->task(ask.task);
  const bool pending = task.outcome() == Outcome::kPending;
  const Code code = time_out ? rig_.time_out(task) : rig_.cancel(task);
  EXPECT_EQ(code, pending ? Code::kOk : Code::kNotFound);
  if (pending) {
    EXPECT_EQ(task.outcome(), time_out ? Outcome::kTimedOut : Outcome::kCancelled);
  }
}

void Storm::unregister() {
  const std::uint64_t which = below(kLocals + 2);
  Range& range = which < kLocals    ? locals_[which]
                 : which == kLocals ? read_memory_
                                    : write_memory_.range;
  const Code code = rig_.remove_memory(range.memory);
  const bool blind =
      std::any_of(places_.begin(), places_.end(), [](const Place& place) { return place.blind; });
  if (!blind || code == Code::kOk) {
    EXPECT_EQ(code, range.any_lent() && !blind ? Code::kConflict : Code::kOk);
  }
  if (code == Code::kConflict) ++totals_.refused_unregister;
  if (code != Code::kOk) return;
  // Whoever can take it back owns it, even if he could not look.
  for (Ask& ask : asks_) {
    const bool here = which < kLocals && ask.local == which && !ask.quiet;
    if (!here || !places_[ask.place].blind || ask.taken_back) continue;
    ask.taken_back = true;
    poison(range.span(ask.at, ask.bytes));
  }
  rig_.add_memory(range.memory);
}

void Storm::free_batch() {
  const auto open = open_places();
  if (open.empty()) return;
  Place& place = places_[open[below(open.size())]];
  if (!place.batch->idle()) ++totals_.freed_busy;
  place.freed = true;
  const auto freed = rig_.batches.free(place.id);
  ASSERT_TRUE(freed);
  EXPECT_EQ(code_of(rig_.batches.free(place.id)), Code::kNotFound);
  EXPECT_FALSE(rig_.batches.find(place.id));
  for (std::uint32_t i = 0; i < (*freed)->tasks(); ++i) rig_.cancel((*freed)->task(i));
  if (chance(0.3)) {
    look();  // for the last time
    place.blind = true;
    place.batch.reset();
  }
  new_batch();
}

}  // namespace larder::transfer
