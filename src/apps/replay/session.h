// SPDX-License-Identifier: Apache-2.0
// A whole replay: check the trace, play it against a node, compare with the ideal.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "apps/replay/replay.h"
#include "apps/replay/report.h"
#include "apps/replay/trace.h"
#include "larder/client.h"
#include "larder/status.h"

namespace larder::apps {

// What a trace holds; found by reading it once without a node.
struct TraceSurvey {
  std::uint64_t requests = 0;
  std::uint64_t blocks = 0;
  std::uint64_t ideal_hits = 0;
  std::uint64_t first_ms = 0;  // timestamps
  std::uint64_t last_ms = 0;
};
// Reads at most `requests_max` requests (0: all).
Result<TraceSurvey> survey_trace(TraceSource& source, std::uint64_t capacity_blocks,
                                 std::uint64_t requests_max = 0);

struct SessionOptions {
  std::string trace_name;
  // Opens the trace from its start; called several times, must give the same requests each time.
  std::function<Result<std::unique_ptr<TraceSource>>()> open;
  ClientOptions client;
  std::size_t workers = 1;
  ReplaySettings settings;
  std::uint64_t capacity_blocks = 0;  // of the ideal; 0: the node's capacity in blocks
  bool progress = false;
};

// Errors: of the trace, of the connection, of the store as a whole.
Result<ReplayReport> run_session(const SessionOptions& options);

// 0, or the exit code for what went wrong, with a line on stderr that says so.
int judge(const ReplayReport& report);

}  // namespace larder::apps
