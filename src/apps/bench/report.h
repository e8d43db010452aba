// SPDX-License-Identifier: Apache-2.0
// Rows of results: a table for people, JSON for machines.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bench/score.h"
#include "larder/status.h"

namespace larder::apps {

// Seconds of a core for each GB that moved, of both ends; 0: not measured.
struct CpuPerGb {
  double ours = 0;
  double far = 0;  // the other end of ours
  double limit = 0;
  double limit_far = 0;
};

struct BenchRow {
  std::string name;
  Summary ours;
  Measure measure = Measure::kThroughput;
  std::string limit_name;  // empty: the row is a limit itself
  Summary limit;
  double ratio = 0;
  std::optional<double> bar;
  Verdict verdict = Verdict::kNoBar;
  std::optional<double> bytes_per_object;  // of the memory case only
  std::optional<CpuPerGb> cpu;
  std::string unsupported;  // why it could not be measured; empty: it was
};

std::string table_head(bool with_limit);
std::string table_line(const BenchRow& row);
// Prints the row, and keeps it.
// What both ends took of their cores, beside the limit's; empty where it was not measured.
std::string cpu_line(const BenchRow& row);
Result<void> show_row(std::vector<BenchRow>& rows, BenchRow row);
// Prints how many bars were reached. kInternal, naming those that were not, when `check` is set.
Result<void> judge_all(std::span<const BenchRow> rows, bool check);
// A list of objects with at least case, ops_per_s, bytes_per_s, p50_us, p99_us, p999_us, limit and
// ratio (the last two null for a limit). What could not be measured has `case` and `unsupported`.
std::string rows_to_json(std::span<const BenchRow> rows);
// kInvalidArgument when the file cannot be written.
Result<void> write_json(const std::string& path, std::span<const BenchRow> rows);

}  // namespace larder::apps
