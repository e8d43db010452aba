// SPDX-License-Identifier: Apache-2.0
// What fault_test.cc is about: one run of the engine's parts over transports that do everything
// wrong, drawn from a seed, and what is known of each byte meanwhile.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "transfer/transfer_testing.h"

namespace larder::transfer {

inline constexpr std::uint64_t kBlock = 1024;
inline constexpr std::uint64_t kBlocks = 96;  // of each range
inline constexpr std::uint64_t kRange = kBlock * kBlocks;
inline constexpr std::size_t kLocals = 3;

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
  Storm(std::uint64_t seed, Totals& totals);

  void run();

 private:
  static bool failed() { return testing::Test::HasFailure(); }
  bool chance(double probability);
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  // ---- the stage ----

  double some(double probability, double most) { return chance(probability) ? most : 0; }
  FaultTransportOptions draw_options(TransportType type);
  void add_transports();

  void new_batch();
  void told(std::size_t index, BatchId which);

  // ---- requests ----

  std::optional<std::uint64_t> find_free(const Range& range, std::uint64_t blocks);
  // A run of neighbours, each of `blocks` blocks; the last one perhaps shorter.
  void draw_run(std::vector<Ask>& asks, std::vector<TransferRequest>& requests);
  TransferRequest lend(const Ask& ask, const TransferRequest& base);
  Target& target_of(const Ask& ask) { return ask.file ? write_file_ : write_memory_; }

  void submit(std::size_t index);

  // ---- what is seen ----

  // The memory of a request that is quiescent, or never was one, is the test's own again.
  void give_back(const Ask& ask);
  std::span<std::byte> target_bytes(const Ask& ask);
  void check_outcome(Ask& ask, const TaskStatus& status);
  void check_bytes(const Ask& ask);
  void end(Ask& ask);

  void look();
  void count_records(const Task& task);
  // It was told of each time that it became idle, and of no other.
  void check_place(Place& place);

  // ---- what is done ----

  void act();
  std::vector<std::size_t> open_places() const;
  void submit_somewhere();
  void give_up(bool time_out);
  void unregister();
  void free_batch();

  // ---- the end ----

  void finish();
  void check_nothing_left();
  static void check_target(const Target& target, std::span<const std::byte> bytes);
  double sum_of(const std::string& text, std::string_view series) const;
  // The metrics say the same: one end of each request.
  void check_counters();
  static void add(FaultTransportCounts& to, const FaultTransportCounts& counts);

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

}  // namespace larder::transfer
