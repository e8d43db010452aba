// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/report.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/console.h"

namespace larder::apps {
namespace {

std::string rate(double per_s) {
  if (per_s <= 0) return "-";
  if (per_s >= 1e6) return fmt::format("{:.2f}M", per_s / 1e6);
  if (per_s >= 1e4) return fmt::format("{:.1f}k", per_s / 1e3);
  return fmt::format("{:.0f}", per_s);
}

std::string gigabytes(double bytes_per_s) {
  return bytes_per_s > 0 ? fmt::format("{:.3f}", bytes_per_s / 1e9) : "-";
}

std::string micros(double us) {
  if (us <= 0) return "-";
  return us < 10 ? fmt::format("{:.2f}", us) : fmt::format("{:.1f}", us);
}

std::string value_of(Measure measure, const Summary& summary) {
  if (measure == Measure::kLatency) return micros(summary.latency.p50_us) + " us";
  if (summary.bytes_per_s > 0) return gigabytes(summary.bytes_per_s) + " GB/s";
  return rate(summary.ops_per_s) + "/s";
}

std::string verdict_text(const BenchRow& row) {
  if (!row.bar) return "";
  return fmt::format("{:.2f} {}", *row.bar, row.verdict == Verdict::kPass ? "pass" : "MISS");
}

constexpr std::string_view kLineFormat = "{:<42} {:>9} {:>8} {:>9} {:>9} {:>9}";

nlohmann::ordered_json to_json(const BenchRow& row) {
  nlohmann::ordered_json json;
  json["case"] = row.name;
  if (!row.unsupported.empty()) {
    json["unsupported"] = row.unsupported;
    return json;
  }
  json["ops_per_s"] = row.ours.ops_per_s;
  json["bytes_per_s"] = row.ours.bytes_per_s;
  json["p50_us"] = row.ours.latency.p50_us;
  json["p99_us"] = row.ours.latency.p99_us;
  json["p999_us"] = row.ours.latency.p999_us;
  if (row.limit_name.empty()) {
    json["limit"] = nullptr;
    json["ratio"] = nullptr;
    return json;
  }
  json["limit"] = row.limit_name;
  json["ratio"] = row.ratio;
  json["measure"] = row.measure == Measure::kLatency ? "latency" : "throughput";
  json["limit_ops_per_s"] = row.limit.ops_per_s;
  json["limit_bytes_per_s"] = row.limit.bytes_per_s;
  json["limit_p50_us"] = row.limit.latency.p50_us;
  json["bar"] = row.bar ? nlohmann::ordered_json(*row.bar) : nlohmann::ordered_json();
  json["pass"] =
      row.bar ? nlohmann::ordered_json(row.verdict == Verdict::kPass) : nlohmann::ordered_json();
  if (row.bytes_per_object) json["bytes_per_object"] = *row.bytes_per_object;
  if (row.cpu) {
    json["cpu_s_per_gb"] = {{"ours", row.cpu->ours},
                            {"far", row.cpu->far},
                            {"limit", row.cpu->limit},
                            {"limit_far", row.cpu->limit_far}};
  }
  return json;
}

}  // namespace

std::string table_head(bool with_limit) {
  std::string line = fmt::format(kLineFormat, with_limit ? "case" : "limit", "ops/s", "GB/s",
                                 "p50 us", "p99 us", "p99.9 us");
  if (with_limit) line += fmt::format(" {:>6} {:<9} {}", "ratio", "bar", "limit in the same run");
  return line + "\n";
}

std::string table_line(const BenchRow& row) {
  if (!row.unsupported.empty()) {
    return fmt::format("{:<42} unsupported: {}\n", row.name, row.unsupported);
  }
  std::string line = fmt::format(kLineFormat, row.name, rate(row.ours.ops_per_s),
                                 gigabytes(row.ours.bytes_per_s), micros(row.ours.latency.p50_us),
                                 micros(row.ours.latency.p99_us), micros(row.ours.latency.p999_us));
  if (row.bytes_per_object) {
    line += fmt::format(" {:>6.2f} {:<9} {:.0f} B of node memory per object beyond its bytes ({})",
                        row.ratio, verdict_text(row), *row.bytes_per_object, row.limit_name);
  } else if (!row.limit_name.empty()) {
    line += fmt::format(" {:>6.2f} {:<9} {}: {}", row.ratio, verdict_text(row), row.limit_name,
                        value_of(row.measure, row.limit));
  }
  return line + "\n";
}

std::string cpu_line(const BenchRow& row) {
  if (!row.cpu) return {};
  return fmt::format(
      "  core seconds per GB: initiator {:.3f}, target {:.3f}; raw sockets {:.3f} and {:.3f}\n",
      row.cpu->ours, row.cpu->far, row.cpu->limit, row.cpu->limit_far);
}

Result<void> show_row(std::vector<BenchRow>& rows, BenchRow row) {
  LARDER_TRY(print(table_line(row) + cpu_line(row)));
  rows.push_back(std::move(row));
  return {};
}

Result<void> judge_all(std::span<const BenchRow> rows, bool check) {
  std::vector<std::string> missed;
  std::size_t with_bar = 0;
  for (const BenchRow& row : rows) {
    if (row.verdict != Verdict::kNoBar) ++with_bar;
    if (row.verdict == Verdict::kMiss) missed.push_back(row.name);
  }
  if (with_bar > 0) {
    LARDER_TRY(print(fmt::format("{} of {} bars reached\n", with_bar - missed.size(), with_bar)));
  }
  if (!check || missed.empty()) return {};
  return fail(Code::kInternal, fmt::format("bars missed: {}", fmt::join(missed, ", ")));
}

std::string rows_to_json(std::span<const BenchRow> rows) {
  auto list = nlohmann::ordered_json::array();
  for (const BenchRow& row : rows) list.push_back(to_json(row));
  return list.dump(1) + "\n";
}

Result<void> write_json(const std::string& path, std::span<const BenchRow> rows) {
  std::ofstream file(path, std::ios::trunc);
  file << rows_to_json(rows);
  file.close();
  if (!file) {
    return fail(
        Code::kInvalidArgument,
        fmt::format("cannot write the JSON file '{}': is its directory there and writable?", path));
  }
  return {};
}

}  // namespace larder::apps
