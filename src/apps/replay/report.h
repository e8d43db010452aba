// SPDX-License-Identifier: Apache-2.0
// What a replay found, as numbers, as JSON and as a table for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace larder::apps {

// Percentiles of one operation, per call (a call carries a batch of keys).
struct OperationReport {
  std::string name;
  std::uint64_t calls = 0;
  double p50_us = 0;
  double p90_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double max_us = 0;
};

struct ReplayReport {
  std::string trace;
  std::string mode;  // "fastest", "recorded" or "x100"
  std::string path;  // how bytes travelled
  std::uint64_t workers = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t capacity_blocks = 0;  // what the ideal was given
  std::uint64_t salt = 0;
  std::uint64_t requests = 0;
  std::uint64_t broken_lines = 0;
  std::string first_broken;
  std::uint64_t blocks = 0;  // asked for
  std::uint64_t hits = 0;    // in the longest present prefixes
  std::uint64_t ideal_hits = 0;
  std::uint64_t wrong_bytes = 0;
  std::uint64_t wrong_blocks = 0;
  std::uint64_t got_bytes = 0;  // fetched and verified
  std::uint64_t put_bytes = 0;  // stored anew
  std::uint64_t stored = 0;     // blocks stored anew
  std::uint64_t already_stored = 0;
  std::uint64_t backpressure = 0;     // puts refused because the node was full
  std::uint64_t evicted_between = 0;  // promised by match_prefix, gone at get
  std::uint64_t errors = 0;           // items that failed in any other way
  std::string first_error;
  std::uint64_t evictions = 0;  // by the node, meanwhile
  double seconds = 0;
  bool interrupted = false;
  std::vector<OperationReport> operations;

  double hit_rate() const noexcept;
  double ideal_hit_rate() const noexcept;
  // A fetched block is prefill work that was saved, whatever its size.
  std::uint64_t bytes_saved() const noexcept { return hits * block_bytes; }
  double bytes_per_s() const noexcept;  // got and put together, verification included
  double requests_per_s() const noexcept;
};

std::string report_json(const ReplayReport& report);
std::string report_table(const ReplayReport& report);

}  // namespace larder::apps
