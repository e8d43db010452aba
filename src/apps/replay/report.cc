// SPDX-License-Identifier: Apache-2.0
#include "apps/replay/report.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/console.h"
#include "base/units.h"

namespace larder::apps {
namespace {

double over(double part, double whole) noexcept {
  return whole > 0 ? part / whole : 0.0;
}

nlohmann::ordered_json operations_json(const ReplayReport& report) {
  auto latency = nlohmann::ordered_json::object();
  for (const auto& op : report.operations) {
    latency[op.name] = {{"calls", op.calls},   {"p50_us", op.p50_us},   {"p90_us", op.p90_us},
                        {"p99_us", op.p99_us}, {"p999_us", op.p999_us}, {"max_us", op.max_us}};
  }
  return latency;
}

std::string micros(double us) {
  return base::human_duration(std::chrono::nanoseconds(std::llround(us * 1000)));
}

std::string operations_table(const ReplayReport& report) {
  std::vector<std::vector<std::string>> rows{
      {"latency per call", "calls", "p50", "p90", "p99", "p99.9", "max"}};
  for (const auto& op : report.operations) {
    rows.push_back({"  " + op.name, grouped(op.calls), micros(op.p50_us), micros(op.p90_us),
                    micros(op.p99_us), micros(op.p999_us), micros(op.max_us)});
  }
  return format_table(rows);
}

std::string percent(double rate) {
  return fmt::format("{:.2f}%", rate * 100);
}

}  // namespace

double ReplayReport::hit_rate() const noexcept {
  return over(static_cast<double>(hits), static_cast<double>(blocks));
}
double ReplayReport::ideal_hit_rate() const noexcept {
  return over(static_cast<double>(ideal_hits), static_cast<double>(blocks));
}
double ReplayReport::bytes_per_s() const noexcept {
  return over(static_cast<double>(got_bytes + put_bytes), seconds);
}
double ReplayReport::requests_per_s() const noexcept {
  return over(static_cast<double>(requests), seconds);
}

std::string report_json(const ReplayReport& r) {
  nlohmann::ordered_json out{
      {"trace", r.trace},
      {"mode", r.mode},
      {"path", r.path},
      {"workers", r.workers},
      {"block_bytes", r.block_bytes},
      {"capacity_blocks", r.capacity_blocks},
      {"salt", r.salt},
      {"requests", r.requests},
      {"broken_lines", r.broken_lines},
      {"blocks", r.blocks},
      {"hits", r.hits},
      {"hit_rate", r.hit_rate()},
      {"ideal_hit_rate", r.ideal_hit_rate()},
      {"wrong_bytes", r.wrong_bytes},
      {"wrong_blocks", r.wrong_blocks},
      {"bytes_saved", r.bytes_saved()},
      {"got_bytes", r.got_bytes},
      {"put_bytes", r.put_bytes},
      {"stored", r.stored},
      {"already_stored", r.already_stored},
      {"backpressure", r.backpressure},
      {"evicted_between", r.evicted_between},
      {"errors", r.errors},
      {"first_error", r.first_error},
      {"evictions", r.evictions},
      {"seconds", r.seconds},
      {"bytes_per_s", r.bytes_per_s()},
      {"requests_per_s", r.requests_per_s()},
      {"interrupted", r.interrupted},
      {"latency", operations_json(r)},
  };
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

std::string report_table(const ReplayReport& r) {
  std::string out =
      fmt::format("{}: {} requests, {} workers, {} blocks, {}, by {}{}\n\n", printable(r.trace),
                  grouped(r.requests), r.workers, base::human_bytes(r.block_bytes), r.mode, r.path,
                  r.interrupted ? " (interrupted)" : "");
  std::vector<std::vector<std::string>> rows{
      {"blocks asked", grouped(r.blocks)},
      {"hit rate", percent(r.hit_rate())},
      {fmt::format("ideal (LRU of {} blocks)", grouped(r.capacity_blocks)),
       percent(r.ideal_hit_rate())},
      {"wrong bytes", grouped(r.wrong_bytes)},
      {"bytes saved", base::human_bytes(r.bytes_saved())},
      {"bytes fetched", base::human_bytes(r.got_bytes)},
      {"bytes stored", base::human_bytes(r.put_bytes)},
      {"throughput, every byte checked", base::human_rate(r.bytes_per_s())},
      {"requests per second", fmt::format("{:.0f}", r.requests_per_s())},
      {"evictions", grouped(r.evictions)},
      {"puts refused (back-pressure)", grouped(r.backpressure)},
      {"evicted between look and get", grouped(r.evicted_between)},
      {"time", base::human_duration(std::chrono::nanoseconds(std::llround(r.seconds * 1e9)))},
  };
  if (r.broken_lines > 0) rows.push_back({"broken lines skipped", grouped(r.broken_lines)});
  if (r.errors > 0) rows.push_back({"errors", grouped(r.errors)});
  out += format_table(rows) + '\n' + operations_table(r);
  if (r.broken_lines > 0) out += "\nfirst broken line: " + printable(r.first_broken) + '\n';
  if (!r.first_error.empty()) out += "\nfirst error: " + printable(r.first_error) + '\n';
  return out;
}

}  // namespace larder::apps
