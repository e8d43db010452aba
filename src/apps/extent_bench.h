// SPDX-License-Identifier: Apache-2.0
// `larder extent bench`: a record store in a file against the bare file, in one run.
#pragma once

#include <cstdint>
#include <string>

#include "larder/status.h"

namespace larder::apps {

struct ExtentBenchFlags {
  std::string path;  // a file that is not there yet; removed afterwards
  std::uint64_t bytes = 4ULL << 30U;
  std::uint64_t record = 1U << 20U;
  std::uint64_t rounds = 3;
  bool json = false;
};
// Writes records, reads them, recovers them; prints each with what the bare file does.
Result<int> run_extent_bench(const ExtentBenchFlags& flags);

struct AllocatorBenchFlags {
  std::uint64_t records = 1000000;
  std::uint64_t churn = 2;  // how often each is replaced
  bool json = false;
};
// KV blocks of mixed sizes in a space that is full.
Result<int> run_allocator_bench(const AllocatorBenchFlags& flags);

}  // namespace larder::apps
