// SPDX-License-Identifier: Apache-2.0
// The cases of `larder bench disk`: values to and from a node's disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/score.h"
#include "larder/status.h"

namespace larder::apps {

enum class DiskOp : std::uint8_t {
  kOffload,  // puts without end: DRAM is full, so they go as fast as the disk takes values
  kGet,      // of values that are on disk alone
  kHotGet,   // of a value in DRAM
};

struct DiskCase {
  std::string name;
  DiskOp op = DiskOp::kGet;
  std::uint64_t bytes = 0;  // of a value
  std::size_t batch = 1;    // values in a call
  bool busy = false;        // while puts keep the disk busy
  bool flushed = false;     // beside bare writes that are made durable, as ours are
  Measure measure = Measure::kThroughput;
  std::optional<double> bar;
};

// Those whose names a regular expression of `filters` finds; all without one. kInvalidArgument:
// none does.
// `remote`: those of a disk behind a network.
Result<std::vector<DiskCase>> select_disk_cases(const std::vector<std::string>& filters,
                                                bool remote);

}  // namespace larder::apps
