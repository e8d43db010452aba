// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/nvmf_case.h"

#include "apps/bench/name_filter.h"

namespace larder::apps {
namespace {

constexpr std::uint64_t kKiB = 1U << 10U;
constexpr std::uint64_t kMiB = 1U << 20U;

// One small read may take 1.30 times as long as the bare exchange of its bytes.
constexpr double kLatencyBar = 1 / 1.30;

std::vector<NvmfCase> all_cases() {
  using enum Measure;
  using enum LimitKind;
  return {
      {"nvmf.read.4KiB.q1", false, 4 * kKiB, 1, kLatency, kRequestReply, kLatencyBar},
      {"nvmf.read.4KiB.q32", false, 4 * kKiB, 32, kThroughput, kRequestReply, 0.65},
      {"nvmf.read.128KiB.q32", false, 128 * kKiB, 32, kThroughput, kStream, 0.85},
      {"nvmf.read.1MiB.q32", false, kMiB, 32, kThroughput, kStream, 0.85},
      {"nvmf.write.4KiB.q1", true, 4 * kKiB, 1, kLatency, kRequestReply, std::nullopt},
      {"nvmf.write.128KiB.q32", true, 128 * kKiB, 32, kThroughput, kStream, 0.80},
      {"nvmf.write.1MiB.q32", true, kMiB, 32, kThroughput, kStream, 0.80},
  };
}

}  // namespace

Result<std::vector<NvmfCase>> select_nvmf_cases(const std::vector<std::string>& filters) {
  LARDER_ASSIGN(const NameFilter filter, NameFilter::create(filters));
  std::vector<NvmfCase> chosen;
  for (NvmfCase& one : all_cases()) {
    if (filter.matches(one.name)) chosen.push_back(std::move(one));
  }
  if (chosen.empty()) {
    return fail(Code::kInvalidArgument,
                "no case matches --case; `larder bench nvmf --list` names them all");
  }
  return chosen;
}

}  // namespace larder::apps
