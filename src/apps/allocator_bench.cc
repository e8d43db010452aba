// SPDX-License-Identifier: Apache-2.0
// The space of a record store under KV blocks of mixed sizes: how full it gets, and how long a
// reservation takes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "apps/console.h"
#include "apps/exit_codes.h"
#include "apps/extent_bench.h"
#include "env/clock.h"
#include "extent/record_table.h"

namespace larder::apps {
namespace {

using Json = nlohmann::ordered_json;

// KV blocks are 0.1 to 130 MiB, most of them 128 KiB to 16 MiB: one in a hundred is larger.
std::uint64_t draw_size(std::mt19937_64& random) {
  const bool large = random() % 100 == 0;
  const double low = large ? 16.0 : 0.125;
  const double high = large ? 130.0 : 16.0;
  const double at = static_cast<double>(random() >> 11U) * 0x1.0p-53;
  return static_cast<std::uint64_t>(low * std::pow(high / low, at) * (1U << 20U));
}

struct Times {
  std::vector<std::uint32_t> nanos;
  double at(double share) {
    const auto n = static_cast<std::ptrdiff_t>(static_cast<double>(nanos.size() - 1) * share);
    std::nth_element(nanos.begin(), nanos.begin() + n, nanos.end());
    return nanos[static_cast<std::size_t>(n)];
  }
  void add(env::Nanos start) {
    nanos.push_back(static_cast<std::uint32_t>(env::monotonic_now() - start));
  }
};

class Churn {
 public:
  Churn(extent::RecordTable& table, std::uint64_t seed) : table_(table), random_(seed) {}

  // False: there was no space.
  bool add() {
    const std::uint64_t size = draw_size(random_);
    const env::Nanos start = env::monotonic_now();
    const auto slot = table_.reserve(size);
    if (timed) reserve.add(start);
    if (!slot) return false;
    live.push_back(*slot);
    payload += size;
    return true;
  }
  void remove_any() {
    std::swap(live[random_() % live.size()], live.back());
    payload -= table_.payload_bytes(live.back());
    const env::Nanos start = env::monotonic_now();
    table_.give_back(live.back());
    if (timed) give_back.add(start);
    live.pop_back();
  }

  Times reserve;
  Times give_back;
  std::vector<std::uint32_t> live;
  std::uint64_t payload = 0;
  bool timed = false;

 private:
  extent::RecordTable& table_;
  std::mt19937_64 random_;
};

}  // namespace

Result<int> run_allocator_bench(const AllocatorBenchFlags& flags) {
  if (flags.records < 1000 || flags.records > 10000000) {
    return fail(Code::kInvalidArgument, "from 1000 to 10000000 records");
  }
  std::mt19937_64 random(7);
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i < flags.records; ++i) bytes += draw_size(random);
  extent::Layout layout{4096, 0, static_cast<std::uint32_t>(flags.records * 2), 0, 0};
  layout.data_bytes = std::min<std::uint64_t>(bytes / 4096 * 4096, OffsetAllocator::kCapacityMax);
  LARDER_ASSIGN(const auto table, extent::RecordTable::create(layout, 1));
  LARDER_TRY(table->build({}));
  Churn churn(*table, 11);
  while (churn.add()) {
  }
  churn.timed = true;
  const std::uint64_t replaced = churn.live.size() * flags.churn;
  double low = 1;
  double sum = 0;
  std::uint64_t fulls = 0;
  for (std::uint64_t i = 0; i < replaced;) {
    churn.remove_any();
    ++i;
    while (churn.add()) {
    }
    extent::StoreStats stats;
    table->fill(stats);
    const double used = static_cast<double>(stats.used) / static_cast<double>(stats.capacity);
    low = std::min(low, used);
    sum += used;
    ++fulls;
  }
  extent::StoreStats stats;
  table->fill(stats);
  const Json json{
      {"records", churn.live.size()},
      {"capacity_bytes", stats.capacity},
      {"replaced", replaced},
      {"used_when_full_mean", sum / static_cast<double>(fulls)},
      {"used_when_full_min", low},
      {"split_records", stats.split_records},
      {"space_amplification", static_cast<double>(stats.used) / static_cast<double>(churn.payload)},
      {"reserve_ns", {{"p50", churn.reserve.at(0.5)}, {"p99", churn.reserve.at(0.99)}}},
      {"give_back_ns", {{"p50", churn.give_back.at(0.5)}, {"p99", churn.give_back.at(0.99)}}},
      {"memory_bytes_a_record",
       static_cast<double>(stats.memory_bytes) / static_cast<double>(churn.live.size())}};
  LARDER_TRY(print(json.dump(flags.json ? -1 : 2) + '\n'));
  return kExitOk;
}

}  // namespace larder::apps
