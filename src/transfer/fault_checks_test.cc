// SPDX-License-Identifier: Apache-2.0
// Of the storm: what must be so at all times, and at the end.
#include <unistd.h>

#include <cstdlib>

#include "transfer/fault_storm_testing.h"

namespace larder::transfer {

void Storm::give_back(const Ask& ask) {
  Range& local = locals_[ask.local];
  local.lend(ask.at, ask.bytes, -1);
  poison(local.span(ask.at, ask.bytes));
  if (ask.opcode == Opcode::kWrite) {
    target_of(ask).range.lend(ask.target_at, ask.bytes, -1);
  } else if (!ask.file) {
    read_memory_.lend(ask.target_at, ask.bytes, -1);
  }
}

std::span<std::byte> Storm::target_bytes(const Ask& ask) {
  if (ask.opcode == Opcode::kWrite) {
    if (ask.file) return std::span(file_).subspan(kRange + ask.target_at, ask.bytes);
    return write_memory_.range.span(ask.target_at, ask.bytes);
  }
  if (ask.file) return std::span(file_).subspan(ask.target_at, ask.bytes);
  return read_memory_.span(ask.target_at, ask.bytes);
}

void Storm::check_outcome(Ask& ask, const TaskStatus& status) {
  EXPECT_TRUE(ask.outcome == Outcome::kPending || ask.outcome == status.outcome)
      << "from " << outcome_name(ask.outcome) << " to " << outcome_name(status.outcome);
  EXPECT_GE(status.bytes, ask.arrived);
  EXPECT_LE(status.bytes, ask.bytes);
  ask.arrived = status.bytes;
  if (ask.outcome == Outcome::kPending && status.outcome != Outcome::kPending) {
    ++totals_.outcomes[status.outcome];
    completed_ += status.outcome == Outcome::kCompleted ? 1 : 0;
    if (!status.quiescent) ++totals_.quarantined;
  }
  ask.outcome = status.outcome;
  const bool decided = status.outcome != Outcome::kPending;
  EXPECT_EQ(decided && status.outcome != Outcome::kCompleted, status.code != Code::kOk);
  if (status.outcome == Outcome::kCompleted || status.outcome == Outcome::kFailed) {
    EXPECT_TRUE(status.quiescent);
  }
  if (status.outcome == Outcome::kCompleted) {
    EXPECT_EQ(status.bytes, ask.bytes);
  }
}

void Storm::check_bytes(const Ask& ask) {
  const auto local = locals_[ask.local].span(ask.at, ask.bytes);
  ASSERT_TRUE(equal(local, target_bytes(ask))) << "completed, but the bytes are wrong";
  if (ask.opcode == Opcode::kWrite) target_of(ask).learn(ask.target_at, local);
}

void Storm::end(Ask& ask) {
  ask.quiet = true;
  if (ask.outcome == Outcome::kCompleted) check_bytes(ask);
  give_back(ask);
}

void Storm::look() {
  std::uint64_t given_up = 0;
  bool blind = false;
  for (Ask& ask : asks_) {
    if (ask.quiet) continue;
    const Place& place = places_[ask.place];
    blind |= place.blind;
    if (place.blind) continue;
    Task& task = place.batch.get()->task(ask.task);
    check_outcome(ask, task.status());
    if (ask.outcome != Outcome::kPending && !task.quiescent()) given_up += ask.bytes;
    if (!task.quiescent()) continue;
    EXPECT_NE(ask.outcome, Outcome::kPending);
    count_records(task);
    end(ask);
  }
  if (!blind) {
    EXPECT_EQ(rig_.dispatcher.quarantined_bytes(), given_up);
  }
  for (Place& place : places_) check_place(place);
}

void Storm::count_records(const Task& task) {
  if (task.record.merged > 1) ++totals_.merged;
  if (task.record.pieces > Job::kWindow) ++totals_.sliced;
  if (task.record.attempts > 1) ++totals_.failed_over;
}

void Storm::check_place(Place& place) {
  if (place.blind) return;
  EXPECT_EQ(place.calls, place.periods - (place.batch->idle() ? 0 : 1));
  if (place.event < 0) return;
  std::uint64_t read = 0;
  if (::read(place.event, &read, sizeof(read)) == sizeof(read)) place.events += read;
  EXPECT_EQ(place.events, place.calls);
  const BatchStatus status = place.batch->status();
  EXPECT_EQ(status.idle(), place.batch->idle());
  EXPECT_LE(status.pending, status.unquiet);
}

void Storm::finish() {
  resubmits_ = 0;
  if (chance(0.5)) rig_.settle();
  if (chance(0.5)) give_up(false);
  look();
  // The deadline is over: this only cancels, and says what is left.
  rig_.dispatcher.cancel_all();
  const bool drained = rig_.dispatcher.drain(0);
  EXPECT_EQ(drained, rig_.dispatcher.jobs() == 0);
  look();
  if (chance(0.5)) rig_.settle();
  for (FaultTransport* const fault : rig_.faults) EXPECT_TRUE(fault->drain(0));
  EXPECT_TRUE(rig_.dispatcher.drain(0));
  look();
  ended_ = true;
  for (Ask& ask : asks_) {
    if (ask.taken_back) {
      EXPECT_TRUE(is_poisoned(locals_[ask.local].span(ask.at, ask.bytes)));
    }
    if (places_[ask.place].blind && !ask.quiet) give_back(ask);
    if (!places_[ask.place].blind) {
      EXPECT_TRUE(ask.quiet) << outcome_name(ask.outcome);
    }
  }
  check_nothing_left();
  // Nothing comes late.
  rig_.settle();
  for (Range& range : locals_) EXPECT_TRUE(is_poisoned(range.memory)) << "a late write";
  check_target(write_memory_, write_memory_.range.memory);
  check_target(write_file_, std::span(file_).last(kRange));
  check_counters();
}

void Storm::check_nothing_left() {
  EXPECT_EQ(rig_.dispatcher.jobs(), 0U);
  EXPECT_EQ(rig_.dispatcher.quarantined_bytes(), 0U);
  for (Range& range : locals_) EXPECT_EQ(rig_.remove_memory(range.memory), Code::kOk);
  EXPECT_EQ(rig_.remove_memory(read_memory_.memory), Code::kOk);
  EXPECT_EQ(rig_.remove_memory(write_memory_.range.memory), Code::kOk);
  for (Place& place : places_) {
    if (!place.blind) {
      EXPECT_TRUE(place.batch->idle());
    }
    if (!place.freed) {
      EXPECT_TRUE(rig_.batches.free(place.id));
    }
    place.batch.reset();
  }
  EXPECT_EQ(rig_.batches.live(), 0U);
  EXPECT_EQ(rig_.batches.kept(), 0U);
  EXPECT_TRUE(rig_.batches.all().empty());
}

void Storm::check_target(const Target& target, std::span<const std::byte> bytes) {
  EXPECT_EQ(std::find(bytes.begin(), bytes.end(), kPoison), bytes.end())
      << "read from memory after it was given back";
  for (std::uint64_t b = 0; b < kBlocks; ++b) {
    const auto block = bytes.subspan(b * kBlock, kBlock);
    if (!target.known[b]) continue;
    EXPECT_TRUE(equal(block, std::span(target.model).subspan(b * kBlock, kBlock))) << b;
  }
}

double Storm::sum_of(const std::string& text, std::string_view series) const {
  double sum = 0;
  for (std::size_t at = 0;
       (at = text.find(std::string("\n") + std::string(series) + "{", at)) != std::string::npos;) {
    at = text.find("} ", at) + 2;
    sum += std::strtod(text.c_str() + at, nullptr);
  }
  return sum;
}

void Storm::check_counters() {
  std::uint64_t strays = 0;
  for (FaultTransport* const fault : rig_.faults) {
    const FaultTransportCounts counts = fault->counts();
    EXPECT_EQ(counts.pieces, counts.completed + counts.failed + counts.cancelled);
    strays += counts.strays;
    add(totals_.faults, counts);
  }
  EXPECT_EQ(rig_.dispatcher.stray_ends(), strays);
  const std::string text = rig_.telemetry.registry().text();
  EXPECT_EQ(sum_of(text, "larder_transfer_in_flight"), 0);
  const double completed = sum_of(text, "larder_transfer_requests_total");
  const double failures = sum_of(text, "larder_transfer_failures_total");
  EXPECT_EQ(completed + failures, static_cast<double>(accepted_ + rejected_));
  EXPECT_GE(completed, static_cast<double>(completed_));
  totals_.rejected += rejected_;
}

void Storm::add(FaultTransportCounts& to, const FaultTransportCounts& counts) {
  to.pieces += counts.pieces;
  to.completed += counts.completed;
  to.failed += counts.failed;
  to.cancelled += counts.cancelled;
  to.partial += counts.partial;
  to.too_late += counts.too_late;
  to.at_once += counts.at_once;
  to.after_cancel += counts.after_cancel;
  to.strays += counts.strays;
}

}  // namespace larder::transfer
