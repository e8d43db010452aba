// SPDX-License-Identifier: Apache-2.0
// The keys of the disk tier.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "env/config.h"
#include "larder/status.h"
#include "tier/cold/cold_options.h"

namespace larder::node {

// As they are written; cold_options() makes the tier's options of them.
struct ColdSettings {
  std::vector<std::string> disks;  // "PATH[:SIZE]"; empty: no disk tier
  std::string mode;
  std::string order;
  std::string admit;
  std::string promotion;
  std::string direct;
  bool admit_fill_first = true;
  std::uint64_t admit_memory = 0;
  double high_watermark = 0;
  double low_watermark = 0;
  double critical_watermark = 0;
  std::uint64_t reserve_bytes = 0;
  std::uint64_t record_bytes = 0;
  std::uint64_t read_depth = 0;
  std::uint64_t write_depth = 0;
  std::uint64_t restore_bytes = 0;
  std::uint64_t node_bytes_per_s = 0;
  std::uint64_t node_ops_per_s = 0;
  std::uint64_t disk_bytes_per_s = 0;
  std::uint64_t disk_ops_per_s = 0;
  bool take_over = false;
  std::chrono::nanoseconds scrub_every{0};
};

void add_cold_keys(env::ConfigSchema& schema, ColdSettings& settings);
// kInvalidArgument: the order of the watermarks.
Result<tier::ColdOptions> cold_options(const ColdSettings& settings);
Result<std::vector<tier::DiskSpec>> cold_disks(const ColdSettings& settings);

}  // namespace larder::node
