// SPDX-License-Identifier: Apache-2.0
// `larder replay`: from its flags to its report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "larder/client.h"
#include "larder/status.h"

namespace larder::apps {

struct ReplayFlags {
  std::string trace;
  std::string model;  // empty: --block-bytes, else 64 KiB
  std::string kv_dtype = "bf16";
  std::uint32_t tensor_parallel = 1;
  std::string block_bytes;  // "64KiB"; empty: from the model
  std::string batch_bytes = "8MiB";
  std::uint64_t hot_blocks = 0;    // above 0: a node of our own
  std::vector<std::string> disks;  // of that node, as its --disk takes them
  bool kill_and_restart = false;   // that node, after half of the trace
  std::uint32_t workers = 2;
  double speed = 0;  // 0: as fast as possible
  std::uint64_t requests = 0;
  bool skip_broken = false;
  std::optional<std::uint64_t> salt;
  std::string json_file;  // "-": stdout, and no table
  ClientOptions client;
};

// From --block-bytes, else --model, else 64 KiB. Errors name the flag.
Result<std::uint64_t> replay_block_bytes(const ReplayFlags& flags);
// Returns the exit code.
int run_replay(const ReplayFlags& flags);

}  // namespace larder::apps
