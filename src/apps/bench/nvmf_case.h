// SPDX-License-Identifier: Apache-2.0
// The cases of `larder bench nvmf`: a namespace in the memory of our own target, through our own
// initiator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/score.h"
#include "larder/status.h"

namespace larder::apps {

struct NvmfCase {
  std::string name;
  bool write = false;
  std::uint64_t bytes = 0;  // of an operation
  std::size_t depth = 1;    // in flight, on one queue
  Measure measure = Measure::kThroughput;
  LimitKind limit = LimitKind::kStream;
  std::optional<double> bar;
};

// Those whose names a regular expression of `filters` finds; all without one. kInvalidArgument:
// none does.
Result<std::vector<NvmfCase>> select_nvmf_cases(const std::vector<std::string>& filters);

}  // namespace larder::apps
