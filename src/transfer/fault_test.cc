// SPDX-License-Identifier: Apache-2.0
// The parts of the engine over transports that do everything wrong. Whatever happens below: each
// request gets one outcome, completed means that the bytes are there, memory that was given back is
// never touched again, and nothing is left over.
//
// Each seed is one run. Runs are the same every time, but for breakers, which read the clock; the
// file runs have threads. A failure says how to run its seed alone; LARDER_SEEDS=n runs n seeds.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <string>

#include "env/test_seeds.h"
#include "transfer/transfer_testing.h"

namespace larder::transfer {
namespace {

constexpr std::uint64_t kSeeds = 1000;
constexpr std::uint64_t kBlock = 1024;
constexpr std::uint64_t kBlocks = 96;  // of each range
constexpr std::uint64_t kRange = kBlock * kBlocks;
constexpr std::size_t kLocals = 3;
constexpr int kActions = 70;

// What happened over all seeds.
struct Totals {
  FaultTransportCounts faults;
  std::map<Outcome, std::uint64_t> outcomes;
  std::uint64_t rejected = 0;
  std::uint64_t merged = 0;
  std::uint64_t sliced = 0;  // into more pieces than a window
  std::uint64_t failed_over = 0;
  std::uint64_t quarantined = 0;  // given up while pieces ran
  std::uint64_t refused_unregister = 0;
  std::uint64_t freed_busy = 0;
  std::uint64_t resubmits = 0;  // from callbacks
  std::uint64_t deaths = 0;
};

// A range of memory in blocks: each is the test's own, and then all poison, or lent.
struct Range {
  explicit Range(std::uint64_t bytes) : memory(bytes), lent(bytes / kBlock) { poison(memory); }
  std::vector<std::byte> memory;
  std::vector<int> lent;  // uses of a block

  std::span<std::byte> span(std::uint64_t at, std::uint64_t bytes) {
    return std::span(memory).subspan(at, bytes);
  }
  void lend(std::uint64_t at, std::uint64_t bytes, int change) {
    for (std::uint64_t b = at / kBlock; b * kBlock < at + bytes; ++b) lent[b] += change;
  }
  bool any_lent() const {
    return std::any_of(lent.begin(), lent.end(), [](int uses) { return uses > 0; });
  }
  bool free_at(std::uint64_t block, std::uint64_t count) const {
    return std::all_of(lent.begin() + static_cast<std::ptrdiff_t>(block),
                       lent.begin() + static_cast<std::ptrdiff_t>(block + count),
                       [](int uses) { return uses == 0; });
  }
};

// Where writes go: what is known of each block.
struct Target {
  explicit Target(std::uint64_t bytes) : range(bytes), known(bytes / kBlock, true) {
    fill_data(range.memory, 99);
    model = range.memory;
  }
  Range range;
  std::vector<std::byte> model;
  std::vector<bool> known;

  void forget(std::uint64_t at, std::uint64_t bytes) {
    for (std::uint64_t b = at / kBlock; b * kBlock < at + bytes; ++b) known[b] = false;
  }
  // Of a block that it covers in part, the rest may be of one that failed before.
  void learn(std::uint64_t at, std::span<const std::byte> data) {
    std::copy(data.begin(), data.end(), model.begin() + static_cast<std::ptrdiff_t>(at));
    for (std::uint64_t b = at / kBlock; (b + 1) * kBlock <= at + data.size(); ++b) known[b] = true;
  }
};

// One request that was accepted.
struct Ask {
  std::size_t place = 0;  // of its batch
  std::uint32_t task = 0;
  Opcode opcode = Opcode::kRead;
  bool file = false;
  std::size_t local = 0;  // range
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
  std::uint64_t target_at = 0;
  Outcome outcome = Outcome::kPending;
  std::uint64_t arrived = 0;
  bool quiet = false;
  bool taken_back = false;  // by unregistering
};

struct Place {
  BatchId id;
  BatchRef batch;
  std::uint32_t capacity = 0;
  int event = -1;
  std::uint64_t events = 0;
  std::uint64_t calls = 0;
  std::uint64_t periods = 0;  // times it became busy
  bool freed = false;
  bool blind = false;  // freed, and nobody can look any more
};

class Storm {
 public:
  Storm(std::uint64_t seed, Totals& totals)
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

  void run() {
    for (int i = 0; i < kActions && !failed(); ++i) {
      act();
      look();
    }
    finish();
  }

 private:
  static bool failed() { return testing::Test::HasFailure(); }
  bool chance(double probability) {
    return static_cast<double>(random_() >> 11U) * 0x1.0p-53 < probability;
  }
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  // ---- the stage ----

  double some(double probability, double most) { return chance(probability) ? most : 0; }
  FaultTransportOptions draw_options(TransportType type) {
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
  void add_transports() {
    rig_.add(draw_options(TransportType::kTcp));
    rig_.add(draw_options(TransportType::kGds));
    if (chance(0.5)) rig_.add(draw_options(TransportType::kNds));
  }

  void new_batch() {
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
  void told(std::size_t index, BatchId which) {
    Place& place = places_[index];
    ++place.calls;
    EXPECT_EQ(which, place.id);
    EXPECT_FALSE(ended_);
    if (place.freed || resubmits_ == 0 || !chance(0.3)) return;
    --resubmits_;
    ++totals_.resubmits;
    submit(index);
  }

  // ---- requests ----

  std::optional<std::uint64_t> find_free(const Range& range, std::uint64_t blocks) {
    const std::uint64_t first = below(kBlocks);
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      const std::uint64_t block = (first + i) % kBlocks;
      if (block + blocks <= kBlocks && range.free_at(block, blocks)) return block * kBlock;
    }
    return std::nullopt;
  }
  // A run of neighbours, each of `blocks` blocks; the last one perhaps shorter.
  void draw_run(std::vector<Ask>& asks, std::vector<TransferRequest>& requests) {
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
  TransferRequest lend(const Ask& ask, const TransferRequest& base) {
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
  Target& target_of(const Ask& ask) { return ask.file ? write_file_ : write_memory_; }

  void submit(std::size_t index) {
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

  // ---- what is seen ----

  // The memory of a request that is quiescent, or never was one, is the test's own again.
  void give_back(const Ask& ask) {
    Range& local = locals_[ask.local];
    local.lend(ask.at, ask.bytes, -1);
    poison(local.span(ask.at, ask.bytes));
    if (ask.opcode == Opcode::kWrite) {
      target_of(ask).range.lend(ask.target_at, ask.bytes, -1);
    } else if (!ask.file) {
      read_memory_.lend(ask.target_at, ask.bytes, -1);
    }
  }
  std::span<std::byte> target_bytes(const Ask& ask) {
    if (ask.opcode == Opcode::kWrite) {
      if (ask.file) return std::span(file_).subspan(kRange + ask.target_at, ask.bytes);
      return write_memory_.range.span(ask.target_at, ask.bytes);
    }
    if (ask.file) return std::span(file_).subspan(ask.target_at, ask.bytes);
    return read_memory_.span(ask.target_at, ask.bytes);
  }
  void check_outcome(Ask& ask, const TaskStatus& status) {
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
  void check_bytes(const Ask& ask) {
    const auto local = locals_[ask.local].span(ask.at, ask.bytes);
    ASSERT_TRUE(equal(local, target_bytes(ask))) << "completed, but the bytes are wrong";
    if (ask.opcode == Opcode::kWrite) target_of(ask).learn(ask.target_at, local);
  }
  void end(Ask& ask) {
    ask.quiet = true;
    if (ask.outcome == Outcome::kCompleted) check_bytes(ask);
    give_back(ask);
  }

  void look() {
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
  void count_records(const Task& task) {
    if (task.record.merged > 1) ++totals_.merged;
    if (task.record.pieces > Job::kWindow) ++totals_.sliced;
    if (task.record.attempts > 1) ++totals_.failed_over;
  }
  // It was told of each time that it became idle, and of no other.
  void check_place(Place& place) {
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

  // ---- what is done ----

  void act() {
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
  std::vector<std::size_t> open_places() const {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (!places_[i].freed) open.push_back(i);
    }
    return open;
  }
  void submit_somewhere() {
    const auto open = open_places();
    if (!open.empty()) submit(open[below(open.size())]);
  }
  void give_up(bool time_out) {
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
  void unregister() {
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
  void free_batch() {
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

  // ---- the end ----

  void finish() {
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
  void check_nothing_left() {
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
  static void check_target(const Target& target, std::span<const std::byte> bytes) {
    EXPECT_EQ(std::find(bytes.begin(), bytes.end(), kPoison), bytes.end())
        << "read from memory after it was given back";
    for (std::uint64_t b = 0; b < kBlocks; ++b) {
      const auto block = bytes.subspan(b * kBlock, kBlock);
      if (!target.known[b]) continue;
      EXPECT_TRUE(equal(block, std::span(target.model).subspan(b * kBlock, kBlock))) << b;
    }
  }
  double sum_of(const std::string& text, std::string_view series) const {
    double sum = 0;
    for (std::size_t at = 0; (at = text.find(std::string("\n") + std::string(series) + "{", at)) !=
                             std::string::npos;) {
      at = text.find("} ", at) + 2;
      sum += std::strtod(text.c_str() + at, nullptr);
    }
    return sum;
  }
  // The metrics say the same: one end of each request.
  void check_counters() {
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
  static void add(FaultTransportCounts& to, const FaultTransportCounts& counts) {
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

  std::mt19937_64 random_;
  Totals& totals_;
  std::vector<Range> locals_;
  Range read_memory_{kRange};
  Target write_memory_{kRange};
  Target write_file_{kRange};  // the second half of the file
  std::vector<std::byte> file_ = std::vector<std::byte>(2 * kRange);
  Rig rig_;
  SegmentId segment_;
  std::deque<Place> places_;
  std::vector<Ask> asks_;
  int resubmits_ = 10;
  bool ended_ = false;
  std::uint64_t accepted_ = 0;
  std::uint64_t rejected_ = 0;
  std::uint64_t completed_ = 0;
};

TEST(TransferFaults, NeverHarmMemoryOrLie) {
  const env::TestSeeds seeds = env::test_seeds(kSeeds);
  Totals totals;
  for (std::uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    SCOPED_TRACE(env::seed_trace(seed, "transfer_test", "'TransferFaults.*'"));
    Storm storm(seed, totals);
    storm.run();
    if (testing::Test::HasFailure()) return;
  }
  if (seeds.alone || seeds.count < kSeeds) return;
  // The test is only worth something if all of it happened.
  EXPECT_GT(totals.outcomes[Outcome::kCompleted], 10000U);
  EXPECT_GT(totals.outcomes[Outcome::kFailed], 1000U);
  EXPECT_GT(totals.outcomes[Outcome::kCancelled], 1000U);
  EXPECT_GT(totals.outcomes[Outcome::kTimedOut], 500U);
  EXPECT_GT(totals.rejected, 500U);
  EXPECT_GT(totals.merged, 3000U);
  EXPECT_GT(totals.sliced, 1000U);
  EXPECT_GT(totals.failed_over, 1000U);
  EXPECT_GT(totals.quarantined, 1000U);
  EXPECT_GT(totals.refused_unregister, 500U);
  EXPECT_GT(totals.freed_busy, 500U);
  EXPECT_GT(totals.resubmits, 500U);
  EXPECT_GT(totals.deaths, 100U);
  EXPECT_GT(totals.faults.partial, 500U);
  EXPECT_GT(totals.faults.too_late, 500U);
  EXPECT_GT(totals.faults.at_once, 1000U);
  EXPECT_GT(totals.faults.after_cancel, 1000U);
  EXPECT_GT(totals.faults.strays, 5000U);
}

}  // namespace
}  // namespace larder::transfer
