// SPDX-License-Identifier: Apache-2.0
// The trace that `larder demo` plays: made up, the same for the same seed.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/replay/trace.h"

namespace larder::apps {

// Conversations of several turns, as a chat service sees them. A conversation starts with one of a
// few system prompts (the first is by far the most popular); each turn asks for everything said so
// far plus one to three new blocks; conversations that were active lately go on first. When one
// has had its turns another begins.
struct DemoTraceOptions {
  std::uint64_t seed = 2024;
  std::uint32_t requests = 2000;
  std::uint32_t open_conversations = 48;  // at any time
  std::uint32_t system_prompts = 6;       // of 4, 6, 8, ... blocks
  std::uint32_t turns_max = 16;           // a conversation has 1 to so many
  std::uint32_t mean_gap_ms = 250;        // between requests
};
std::vector<TraceRequest> make_demo_trace(const DemoTraceOptions& options);

}  // namespace larder::apps
