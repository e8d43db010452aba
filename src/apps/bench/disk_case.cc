// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/disk_case.h"

#include "apps/bench/name_filter.h"

namespace larder::apps {
namespace {

constexpr std::uint64_t kKiB = 1U << 10U;
constexpr std::uint64_t kMiB = 1U << 20U;

// One get may take 1.15 times as long as the bare read.
constexpr double kLatencyBar = 1 / 1.15;

std::vector<DiskCase> all_cases() {
  using enum DiskOp;
  return {
      // Gets first: their sets lie at the front of a new store then.
      {"disk.get.1MiB.b1", kGet, kMiB, 1, false, false, Measure::kLatency, kLatencyBar},
      {"disk.get.1MiB.b64", kGet, kMiB, 64, false, false, Measure::kThroughput, 0.90},
      {"disk.get.128KiB.b256", kGet, 128 * kKiB, 256, false, false, Measure::kThroughput, 0.90},
      {"disk.offload.1MiB.b32", kOffload, kMiB, 32, false, false, Measure::kThroughput, 0.90},
      {"disk.offload.4MiB.b32", kOffload, 4 * kMiB, 32, false, false, Measure::kThroughput, 0.90},
      // A value counts as offloaded when it is durable; a bare write does not promise that.
      {"disk.offload.1MiB.b32.flushed", kOffload, kMiB, 32, false, true, Measure::kThroughput,
       0.90},
      {"disk.offload.4MiB.b32.flushed", kOffload, 4 * kMiB, 32, false, true, Measure::kThroughput,
       0.90},
      {"disk.hot_get.64KiB.idle", kHotGet, 64 * kKiB, 1, false, false, Measure::kLatency,
       std::nullopt},
      {"disk.hot_get.64KiB.busy", kHotGet, 64 * kKiB, 1, true, false, Measure::kLatency,
       std::nullopt},
  };
}

constexpr double kRemoteBar = 0.85;

std::vector<DiskCase> remote_cases() {
  using enum DiskOp;
  using enum Measure;
  return {
      {"remote.get.1MiB.b1", kGet, kMiB, 1, false, false, kLatency, kRemoteBar},
      {"remote.get.1MiB.b64", kGet, kMiB, 64, false, false, kThroughput, kRemoteBar},
      {"remote.get.128KiB.b256", kGet, 128 * kKiB, 256, false, false, kThroughput, kRemoteBar},
  };
}

}  // namespace

Result<std::vector<DiskCase>> select_disk_cases(const std::vector<std::string>& filters,
                                                bool remote) {
  LARDER_ASSIGN(const NameFilter filter, NameFilter::create(filters));
  std::vector<DiskCase> chosen;
  for (DiskCase& one : remote ? remote_cases() : all_cases()) {
    if (filter.matches(one.name)) chosen.push_back(std::move(one));
  }
  if (chosen.empty()) {
    return fail(Code::kInvalidArgument,
                "no case matches --case; `larder bench disk --list` names them all");
  }
  return chosen;
}

}  // namespace larder::apps
