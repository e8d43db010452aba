// SPDX-License-Identifier: Apache-2.0
// Larder's record store beside RocksDB with BlobDB, in turns on one directory.
// Exit code 0: nowhere behind. 1: behind in at least one row. 2: could not measure.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/units.h"
#include "bench/vs_rocksdb/peer.h"
#include "bench/vs_rocksdb/phase.h"

namespace larder::vs_rocksdb {
namespace {

struct Arguments {
  std::string directory;
  std::string json;
  std::string value_bytes = "1MiB";
  std::uint64_t values = 2048;
  std::uint64_t depth = 32;
  unsigned rounds = 5;
};

struct Side {
  const char* name;
  std::unique_ptr<Peer> (*make)(const Plan&);
};
constexpr std::array<Side, 3> kSides{{{"rocksdb", rocksdb_with_log},
                                      {"rocksdb_no_log", rocksdb_without_log},
                                      {"larder", larder_store}}};
constexpr std::size_t kOurs = 2;
constexpr double kEven = 0.98;  // what differs less is the same

// Of one side. `more`: more is better.
struct Row {
  const char* name;
  const char* unit;
  bool more;
};
constexpr std::array<Row, 7> kRows{{{"write", "MB/s", true},
                                    {"read", "MB/s", true},
                                    {"restart after close", "ms", false},
                                    {"restart after SIGKILL", "ms", false},
                                    {"write, CPU", "ms/MB", false},
                                    {"read, CPU", "ms/MB", false},
                                    {"disk bytes per byte", "", false}}};
using Numbers = std::array<double, kRows.size()>;

Result<Figures> write_new(Peer& peer) {
  Figures out;
  const double cpu = cpu_seconds();
  LARDER_ASSIGN(out.write_s, peer.write());
  out.cpu_s = cpu_seconds() - cpu;
  return out;
}

Result<Figures> reopen(Peer& peer, bool then_read) {
  Figures out;
  LARDER_ASSIGN(out.open_s, peer.open());
  const double cpu = cpu_seconds();
  if (then_read) {
    LARDER_ASSIGN(out.read_s, peer.read());
  } else {
    LARDER_TRY(peer.settle());
  }
  out.cpu_s = cpu_seconds() - cpu;
  LARDER_TRY(peer.close());
  return out;
}

// Written and killed; opened after that, settled and closed; opened again and read.
Result<Numbers> play(const Side& side, const Plan& plan) {
  LARDER_ASSIGN(const Figures written,
                run_phase([&] { return write_new(*side.make(plan)); }, Ends::kKilled));
  drop_caches(plan.directory);
  LARDER_ASSIGN(const Figures killed,
                run_phase([&] { return reopen(*side.make(plan), false); }, Ends::kWell));
  drop_caches(plan.directory);
  LARDER_ASSIGN(const Figures closed,
                run_phase([&] { return reopen(*side.make(plan), true); }, Ends::kWell));
  const auto bytes = static_cast<double>(plan.values * plan.value_bytes);
  const double megabytes = bytes / 1e6;
  return Numbers{megabytes / written.write_s,
                 megabytes / closed.read_s,
                 closed.open_s * 1e3,
                 killed.open_s * 1e3,
                 written.cpu_s * 1e3 / megabytes,
                 closed.cpu_s * 1e3 / megabytes,
                 static_cast<double>(written.disk_bytes + killed.disk_bytes) / bytes};
}

// In an empty folder, which is removed.
Result<Numbers> play_in(const Side& side, const Arguments& arguments, std::uint64_t value_bytes) {
  const std::filesystem::path folder =
      std::filesystem::path(arguments.directory) / ("vs_rocksdb_" + std::string(side.name));
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  std::filesystem::create_directories(folder, error);
  if (error) {
    return fail(Code::kInvalidArgument,
                fmt::format("cannot use {}: {}", folder.string(), error.message()));
  }
  auto numbers = play(side, {folder.string(), arguments.values, value_bytes, arguments.depth});
  std::filesystem::remove_all(folder, error);
  // What was removed is discarded behind the scenes: not into the next one's time.
  drop_caches(arguments.directory);
  return numbers;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

struct Compared {
  std::array<double, kSides.size()> medians{};
  double ratio = 0;  // to the better of the others; above 1: ours is better
};

Compared compare(std::size_t row, const std::array<std::vector<Numbers>, kSides.size()>& all) {
  Compared out;
  for (std::size_t side = 0; side < kSides.size(); ++side) {
    std::vector<double> values;
    for (const Numbers& numbers : all[side]) values.push_back(numbers[row]);
    out.medians[side] = median(values);
  }
  const double theirs = kRows[row].more ? std::max(out.medians[0], out.medians[1])
                                        : std::min(out.medians[0], out.medians[1]);
  out.ratio = kRows[row].more ? out.medians[kOurs] / theirs : theirs / out.medians[kOurs];
  return out;
}

int report(const Arguments& arguments, const std::array<std::vector<Numbers>, kSides.size()>& all) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  fmt::print("{:<24}{:>6}{:>12}{:>16}{:>12}{:>8}\n", "row", "", "RocksDB", "RocksDB no log",
             "Larder", "ratio");
  bool ahead = true;
  for (std::size_t row = 0; row < kRows.size(); ++row) {
    const auto [medians, ratio] = compare(row, all);
    const char* const verdict = ratio >= kEven ? (ratio > 1 / kEven ? "ahead" : "even") : "BEHIND";
    ahead &= ratio >= kEven;
    fmt::print("{:<24}{:>6}{:>12.2f}{:>16.2f}{:>12.2f}{:>8.2f}  {}\n", kRows[row].name,
               kRows[row].unit, medians[0], medians[1], medians[2], ratio, verdict);
    nlohmann::ordered_json entry{{"row", kRows[row].name}, {"unit", kRows[row].unit}};
    for (std::size_t side = 0; side < kSides.size(); ++side) {
      std::vector<double> values;
      for (const Numbers& numbers : all[side]) values.push_back(numbers[row]);
      entry[kSides[side].name] = {{"median", medians[side]}, {"rounds", values}};
    }
    entry["ratio"] = ratio;
    json.push_back(entry);
  }
  if (!arguments.json.empty()) {
    std::ofstream file(arguments.json);
    if (!(file << json.dump(1) << "\n")) return 2;
  }
  return ahead ? 0 : 1;
}

int run(const Arguments& arguments) {
  const auto give_up = [](const Error& error) {
    fmt::print(stderr, "vs_rocksdb: {}\n", error.to_string());
    return 2;
  };
  const auto value_bytes = base::parse_size(arguments.value_bytes);
  if (!value_bytes) return give_up(value_bytes.error());
  std::array<std::vector<Numbers>, kSides.size()> all;
  for (unsigned round = 0; round < arguments.rounds; ++round) {
    // Whoever is first in one round is last in the next.
    for (std::size_t i = 0; i < kSides.size(); ++i) {
      const std::size_t side = (i + round) % kSides.size();
      const auto numbers = play_in(kSides[side], arguments, *value_bytes);
      if (!numbers) return give_up(numbers.error());
      all[side].push_back(*numbers);
      const Numbers& n = *numbers;
      fmt::print(stderr,
                 "round {} {:<15} write {:.0f} read {:.0f} MB/s, restart {:.1f} {:.1f} ms\n",
                 round + 1, kSides[side].name, n[0], n[1], n[2], n[3]);
    }
  }
  return report(arguments, all);
}

}  // namespace
}  // namespace larder::vs_rocksdb

int main(int argc, char** argv) {
  larder::vs_rocksdb::Arguments arguments;
  CLI::App app("Larder's record store against RocksDB with BlobDB");
  app.add_option("--dir", arguments.directory, "a folder on the disk to measure")->required();
  app.add_option("--values", arguments.values)->check(CLI::Range(64, 1 << 20));
  app.add_option("--value-bytes", arguments.value_bytes);
  app.add_option("--depth", arguments.depth, "values made durable, or read, at a time")
      ->check(CLI::Range(1, 256));
  app.add_option("--rounds", arguments.rounds, "medians count")->check(CLI::Range(1, 99));
  app.add_option("--json", arguments.json, "write the rows to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // --help, or wrong
  }
  return larder::vs_rocksdb::run(arguments);
}
