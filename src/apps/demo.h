// SPDX-License-Identifier: Apache-2.0
// `larder demo`: the main job, on this machine, in under a minute.
#pragma once

#include <cstdint>
#include <string>

namespace larder::apps {

struct DemoFlags {
  std::uint64_t seed = 2024;
  std::uint32_t workers = 2;
  std::string json_file;   // "-": stdout, and no table
  std::string save_trace;  // also write the trace here, for `larder replay`
};

// Returns the exit code: 0 only when no byte was wrong and something was hit.
int run_demo(const DemoFlags& flags);

}  // namespace larder::apps
