// SPDX-License-Identifier: Apache-2.0
// A probe is something that can be measured in short rounds: a limit of the machine, or the store.
// Limit and store run through the same loop, in turns, so that noise and the cost of measuring fall
// on both alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/bench/reservoir.h"
#include "apps/bench/score.h"
#include "env/clock.h"
#include "larder/status.h"

namespace larder::apps {

class Probe {
 public:
  virtual ~Probe() = default;
  virtual std::string name() const = 0;
  virtual std::size_t threads() const { return 1; }
  virtual std::uint64_t items_per_call() const { return 1; }
  virtual std::uint64_t bytes_per_call() const = 0;
  // Calls between two looks at the clock. More than 1 for calls of a microsecond or less, where
  // reading the clock would be a good part of what is measured; then one call in so many gives a
  // latency sample.
  virtual std::size_t calls_per_span() const { return 1; }
  // Before and after a round, not timed, on the caller's thread.
  virtual Result<void> begin() { return {}; }
  virtual Result<void> end() { return {}; }
  // One call by worker `thread` (0 .. threads() - 1). Different workers run concurrently.
  virtual Result<void> step(std::size_t thread) = 0;
  // Between two spans, not timed, on the worker's thread: checks contents, makes room.
  virtual Result<void> settle(std::size_t thread) { return {}; }
};

struct Round {
  double items_per_s = 0;  // workers added up
  double bytes_per_s = 0;
  Reservoir latency;
};

// Runs the probe for `duration` of timed work per worker (at least one span).
Result<Round> run_round(Probe& probe, env::Nanos duration);

using ProbePtr = std::unique_ptr<Probe>;

struct Pair {
  Summary limit;
  std::string limit_name;
  Summary ours;
};
struct Rhythm {
  std::size_t rounds = 5;  // of each side
  env::Nanos round = 200 * env::kMilli;
};
// Medians over the rounds.
Summary summarize(const std::vector<Round>& rounds);
// limit, ours, limit, ours ... after one short round of each that is thrown away. Where there are
// several limits (ways to wait, say) each turn runs them all, and the best one by `measure` counts.
Result<Pair> run_pair(std::span<const ProbePtr> limits, Measure measure, Probe& ours,
                      const Rhythm& rhythm);
Result<Summary> run_alone(Probe& probe, const Rhythm& rhythm);

}  // namespace larder::apps
