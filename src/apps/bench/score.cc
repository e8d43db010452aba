// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/score.h"

#include <array>
#include <string_view>

namespace larder::apps {
namespace {

// Below these the fixed costs (a round trip, a look-up) are what bounds a call, above them the
// bytes.
constexpr std::uint64_t kLatencyBytesMax = 16 << 10;
constexpr std::uint64_t kLookupBytesMax = 32 << 10;
constexpr std::uint64_t kStreamBytesMin = 1 << 20;

struct Bar {
  std::string_view name;
  double ratio;
};
constexpr std::array<Bar, 14> kBars = {{
    {"local.get_into.1MiB.b1.c1", 0.90},
    {"local.get_into.16MiB.b1.c1", 0.90},
    {"local.get_cached.4KiB.b1.c1", 0.25},
    {"local.get.4KiB.b1.c1", 1 / 1.25},
    {"local.put.1MiB.b1.c1", 0.80},
    {"tcp.get_into.1MiB.b1.c1", 0.90},
    {"tcp.get_into.16MiB.b1.c1", 0.90},
    {"tcp.put.1MiB.b1.c1", 0.90},
    {"tcp.put.16MiB.b1.c1", 0.90},
    {"tcp.get_into.1MiB.b16.c1", 0.90},
    {"tcp.put.1MiB.b16.c1", 0.90},
    {"tcp.get.4KiB.b1.c1", 1 / 1.25},
    {"tcp.get.64KiB.b64.c1", 0.85},
    {"tcp.exists.16384.c1", 1 / 1.5},
}};

// Of reading and writing alike.
struct TransferBar {
  TransferTarget target;
  std::uint64_t bytes;
  std::size_t batch;
  std::size_t threads;
  double ratio;
};
constexpr std::array<TransferBar, 11> kTransferBars = {{
    {TransferTarget::kTcp, 1 << 20, 16, 1, 0.90},
    {TransferTarget::kTcp, 16 << 20, 16, 1, 0.90},
    {TransferTarget::kTcp, 4 << 10, 1, 1, 0.80},
    {TransferTarget::kTcp, 4 << 10, 128, 1, 0.60},
    {TransferTarget::kShm, 1 << 20, 1, 1, 0.95},
    {TransferTarget::kShm, 16 << 20, 1, 1, 0.95},
    {TransferTarget::kShm, 4 << 10, 128, 1, 0.60},
    {TransferTarget::kShm, 4 << 10, 128, 2, 0.60},
    {TransferTarget::kFile, 128 << 10, 32, 1, 0.95},
    {TransferTarget::kFile, 4 << 20, 32, 1, 0.95},
    {TransferTarget::kStaging, 16 << 20, 1, 1, 0.90},
}};

LimitPlan plan_kind(const CaseName& name) noexcept;

LimitPlan plan_local(const CaseName& name, std::uint64_t call_bytes) noexcept {
  if (is_put(name.op)) {
    if (call_bytes <= kLatencyBytesMax) return {LimitKind::kRequestReply, Measure::kLatency};
    return {LimitKind::kCopyChecksum, Measure::kThroughput};
  }
  if (name.op == Op::kGet && call_bytes <= kLatencyBytesMax) {
    return {LimitKind::kRequestReply, Measure::kLatency};
  }
  if (name.value_bytes <= kLookupBytesMax) return {LimitKind::kLookupMemcpy, Measure::kThroughput};
  return {LimitKind::kMemcpy, Measure::kThroughput};
}

}  // namespace

LimitPlan plan_limit(const CaseName& name) noexcept {
  LimitPlan plan = plan_kind(name);
  // One caller, one value at a time: the medians of single calls, on both sides. A mean would carry
  // every stall of a shared machine that happened to fall into one side's rounds.
  if (name.batch == 1 && name.clients == 1) plan.measure = Measure::kLatency;
  return plan;
}

namespace {

LimitPlan plan_kind(const CaseName& name) noexcept {
  if (is_lookup(name.op)) return {LimitKind::kRoundTripLookups, Measure::kLatency};
  const std::uint64_t call_bytes = name.value_bytes * name.batch;
  if (name.path == BenchPath::kLocal) return plan_local(name, call_bytes);
  if (name.batch > 1 && call_bytes >= kStreamBytesMin) {
    return {LimitKind::kStream, Measure::kThroughput};
  }
  const bool small = name.batch == 1 && name.clients == 1 && call_bytes <= kLatencyBytesMax;
  return {LimitKind::kRequestReply, small ? Measure::kLatency : Measure::kThroughput};
}

}  // namespace

LimitPlan plan_limit(const TransferCase& name) noexcept {
  LimitPlan plan;
  if (name.target == TransferTarget::kFile) plan.kind = LimitKind::kDisk;
  if (name.target == TransferTarget::kStaging) plan.kind = LimitKind::kDiskOrCopy;
  if (name.target == TransferTarget::kTcp) {
    plan.kind = name.batch == 1 ? LimitKind::kRequestReply : LimitKind::kStream;
  }
  if (name.batch == 1 && name.threads == 1) plan.measure = Measure::kLatency;
  return plan;
}

double ratio_of(Measure measure, const Summary& ours, const Summary& limit) noexcept {
  const bool latency = measure == Measure::kLatency;
  const double over = latency ? limit.latency.p50_us : ours.ops_per_s;
  const double under = latency ? ours.latency.p50_us : limit.ops_per_s;
  return under > 0 ? over / under : 0;
}

std::optional<double> bar_of(const CaseName& name) {
  const std::string text = to_string(name);
  for (const Bar& bar : kBars) {
    if (bar.name == text) return bar.ratio;
  }
  return std::nullopt;
}

std::optional<double> bar_of(const TransferCase& name) {
  for (const TransferBar& bar : kTransferBars) {
    if (bar.target == name.target && bar.bytes == name.bytes && bar.batch == name.batch &&
        bar.threads == name.threads) {
      return bar.ratio;
    }
  }
  return std::nullopt;
}

Verdict judge(std::optional<double> bar, double ratio) noexcept {
  if (!bar) return Verdict::kNoBar;
  return ratio >= *bar ? Verdict::kPass : Verdict::kMiss;
}

}  // namespace larder::apps
