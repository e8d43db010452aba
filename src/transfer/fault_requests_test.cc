// SPDX-License-Identifier: Apache-2.0
// Of the storm: its stage, and the requests that are made.
#include "transfer/fault_storm_testing.h"

namespace larder::transfer {

Storm::Storm(std::uint64_t seed, Totals& totals)
    : random_(seed),
      totals_(totals),
      rig_({.jobs_max = chance(0.1) ? 8U : 512U, .slices = kSmallSlices},
           chance(0.1) ? 20000 : 1ULL << 30U) {
  for (std::size_t i = 0; i < kLocals; ++i) locals_.emplace_back(kRange);
  fill_data(read_memory_.memory, 1);
  fill_data(std::span(file_).first(kRange), 2);
  fill_data(std::span(file_).last(kRange), 99);
  add_transports();
  rig_.open();
  for (Range& range : locals_) rig_.add_memory(range.memory);
  rig_.add_memory(read_memory_.memory);
  rig_.add_memory(write_memory_.range.memory);
  segment_ = rig_.add_file();
  for (int i = 0; i < 3; ++i) new_batch();
}

FaultTransportOptions Storm::draw_options(TransportType type) {
  FaultTransportOptions options;
  options.type = type;
  options.abilities.bytes_max = chance(0.3) ? 1500 : ~0ULL;
  options.abilities.alignment = chance(0.3) ? 512 : 1;
  options.file = file_;
  options.seed = random_();
  const bool wild = chance(0.8);
  if (!wild) return options;
  options.at_once = some(0.4, 0.3);
  options.late = some(0.7, 0.5);
  options.stuck = some(0.4, 0.1);
  options.error = some(0.5, 0.15);
  options.partial = some(0.5, 0.15);
  options.too_late = some(0.5, 0.15);
  options.after_cancel = some(0.7, 0.7);
  options.ends_in_cancel = some(0.5, 0.5);
  options.completes_cancelled = some(0.5, 0.4);
  options.noisy = some(0.5, 0.5);
  options.duplicate = some(0.5, 0.3);
  options.stale = some(0.5, 0.3);
  options.foreign = some(0.5, 0.3);
  options.reorder = some(0.5, 0.5);
  options.codes = {Code::kUnavailable, Code::kExhausted, Code::kInternal};
  if (chance(0.4))
    options.codes.insert(options.codes.end(), {Code::kInvalidArgument, Code::kPermissionDenied});
  return options;
}

void Storm::add_transports() {
  rig_.add(draw_options(TransportType::kTcp));
  rig_.add(draw_options(TransportType::kGds));
  if (chance(0.5)) rig_.add(draw_options(TransportType::kNds));
}

void Storm::new_batch() {
  Place place;
  place.capacity = 1 + static_cast<std::uint32_t>(below(chance(0.2) ? 3 : 40));
  const auto id = rig_.batches.allocate(place.capacity);
  ASSERT_TRUE(id);
  place.id = *id;
  place.batch = rig_.batches.find(*id);
  const std::size_t index = places_.size();
  place.batch->subscribe([this, index](BatchId which) { told(index, which); });
  if (chance(0.5)) place.event = place.batch->event_fd().value();
  places_.push_back(std::move(place));
}

void Storm::told(std::size_t index, BatchId which) {
  Place& place = places_[index];
  ++place.calls;
  EXPECT_EQ(which, place.id);
  EXPECT_FALSE(ended_);
  if (place.freed || resubmits_ == 0 || !chance(0.3)) return;
  --resubmits_;
  ++totals_.resubmits;
  submit(index);
}

std::optional<std::uint64_t> Storm::find_free(const Range& range, std::uint64_t blocks) {
  const std::uint64_t first = below(kBlocks);
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    const std::uint64_t block = (first + i) % kBlocks;
    if (block + blocks <= kBlocks && range.free_at(block, blocks)) return block * kBlock;
  }
  return std::nullopt;
}

void Storm::draw_run(std::vector<Ask>& asks, std::vector<TransferRequest>& requests) {
  const std::uint64_t blocks = chance(0.25) ? 8 + below(40) : 1 + below(3);
  const std::uint64_t count = blocks > 4 ? 1 : 1 + below(chance(0.5) ? 5 : 1);
  Ask ask;
  ask.opcode = chance(0.5) ? Opcode::kRead : Opcode::kWrite;
  ask.file = chance(0.5);
  ask.local = below(kLocals);
  Range& local = locals_[ask.local];
  const bool reads = ask.opcode == Opcode::kRead;
  Target& target = ask.file ? write_file_ : write_memory_;
  const auto at = find_free(local, blocks * count);
  const auto there = reads ? below(kBlocks - blocks * count + 1) * kBlock
                           : find_free(target.range, blocks * count);
  if (!at || !there) return;
  TransferRequest base;
  base.intent = static_cast<Intent>(below(kIntentCount));
  base.traffic_class = static_cast<TrafficClass>(below(3));
  if (chance(0.2))
    base.deadline = std::chrono::steady_clock::time_point::max() - std::chrono::hours(1);
  if (chance(0.1)) base.transport_hint = TransportType::kGds;
  for (std::uint64_t i = 0; i < count; ++i) {
    ask.at = *at + i * blocks * kBlock;
    ask.target_at = *there + i * blocks * kBlock;
    ask.bytes = blocks * kBlock - (i + 1 == count ? below(kBlock) : 0);
    asks.push_back(ask);
    requests.push_back(lend(ask, base));
  }
}

TransferRequest Storm::lend(const Ask& ask, const TransferRequest& base) {
  TransferRequest request = base;
  Range& local = locals_[ask.local];
  const auto memory = local.span(ask.at, ask.bytes);
  EXPECT_TRUE(is_poisoned(memory)) << "a late write, seen before the memory was used again";
  local.lend(ask.at, ask.bytes, 1);
  request.opcode = ask.opcode;
  request.local = memory.data();
  request.length = ask.bytes;
  request.target = ask.file ? segment_ : kLocalSegment;
  if (ask.opcode == Opcode::kWrite) {
    fill_data(memory, random_());
    Target& target = target_of(ask);
    target.range.lend(ask.target_at, ask.bytes, 1);
    target.forget(ask.target_at, ask.bytes);
  } else if (!ask.file) {
    read_memory_.lend(ask.target_at, ask.bytes, 1);
  }
  request.target_offset = ask.target_at;
  if (ask.file && ask.opcode == Opcode::kWrite) request.target_offset += kRange;
  if (!ask.file) {
    auto& range = ask.opcode == Opcode::kRead ? read_memory_.memory : write_memory_.range.memory;
    request.target_offset += reinterpret_cast<std::uintptr_t>(range.data());
  }
  return request;
}

void Storm::submit(std::size_t index) {
  std::vector<Ask> asks;
  std::vector<TransferRequest> requests;
  const std::uint64_t runs = 1 + below(3);
  for (std::uint64_t i = 0; i < runs; ++i) draw_run(asks, requests);
  Place& place = places_[index];
  const bool was_idle = place.batch->idle();
  // Callbacks may come, and take what follows, before the answer does.
  ++place.periods;
  const std::uint64_t before = place.periods;
  const auto results = rig_.submit(place.batch, requests);
  std::size_t accepted = 0;
  for (std::size_t i = 0; i < asks.size(); ++i) {
    asks[i].place = index;
    const Code code = results ? (*results)[i].code : results.error().code();
    if (code == Code::kOk) {
      asks[i].task = (*results)[i].task;
      asks_.push_back(asks[i]);
      ++accepted;
      ++accepted_;
    } else {
      EXPECT_TRUE(code == Code::kUnavailable || code == Code::kExhausted ||
                  code == Code::kBackpressure)
          << code_name(code);
      rejected_ += results ? 1 : 0;
      give_back(asks[i]);
    }
  }
  Place& same = places_[index];
  EXPECT_GE(same.periods, before);
  if (accepted == 0 || !was_idle) --same.periods;
}

}  // namespace larder::transfer
