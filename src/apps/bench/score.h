// SPDX-License-Identifier: Apache-2.0
// What bounds a case, how the ratio to that bound is formed, and the bar it must reach.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/bench/case_name.h"
#include "apps/bench/reservoir.h"
#include "apps/bench/transfer_case.h"

namespace larder::apps {

// How one side of a comparison did: medians over the rounds of a run.
struct Summary {
  double ops_per_s = 0;    // items (values, or keys asked) per second, all clients together
  double bytes_per_s = 0;  // bytes of values (or of keys asked)
  Percentiles latency;     // of one call
};

enum class Measure : std::uint8_t { kThroughput, kLatency };

enum class LimitKind : std::uint8_t {
  kMemcpy,            // node-like shared memory -> private memory
  kLookupMemcpy,      // one bare hash look-up, then that copy
  kCopyChecksum,      // private -> shared memory and XXH3-64, one pass
  kRequestReply,      // 64 B there, the value back (or the reverse)
  kStream,            // 1 MiB writes, one way
  kRoundTripLookups,  // the call's bytes there, its answer's bytes back, and the bare look-ups
  kDisk,              // as many reads or writes of the same size in flight, past the page cache
  kDiskOrCopy,        // that, or the device's copy engine: whichever is slower
};

struct LimitPlan {
  LimitKind kind = LimitKind::kMemcpy;
  Measure measure = Measure::kThroughput;
};

// Which limit bounds the case, and whether it is judged by throughput or by its p50.
LimitPlan plan_limit(const CaseName& name) noexcept;
LimitPlan plan_limit(const TransferCase& name) noexcept;

// Ours over the limit for throughput (items per second), the limit over ours for latency (p50):
// 1.0 is perfect in both. 0 when either side measured nothing.
double ratio_of(Measure measure, const Summary& ours, const Summary& limit) noexcept;

// The least ratio the case must reach, where there is one.
std::optional<double> bar_of(const CaseName& name);
std::optional<double> bar_of(const TransferCase& name);

enum class Verdict : std::uint8_t { kNoBar, kPass, kMiss };
Verdict judge(std::optional<double> bar, double ratio) noexcept;

// "memory.put.64KiB": bytes of node memory per stored object beyond the value.
inline constexpr double kBytesPerObjectMax = 256;

}  // namespace larder::apps
