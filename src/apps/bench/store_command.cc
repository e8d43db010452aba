// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "apps/bench/case_list.h"
#include "apps/bench/commands.h"
#include "apps/bench/store_probe.h"
#include "apps/console.h"
#include "base/units.h"

namespace larder::apps {
namespace {

constexpr std::uint64_t kLocalBytesMin = 64ULL << 20;  // twice a large last-level cache
constexpr std::size_t kSetValuesMax = 131072;

// Room for the set that gets read and as much again for puts, below the mark where eviction begins.
std::uint64_t capacity_for(const BenchOptions& options) {
  return options.set_bytes * 3;
}

std::uint64_t local_bytes_for(const BenchOptions& options, const std::vector<CaseName>& cases) {
  std::uint64_t bytes = options.cached_buffers ? 0 : kLocalBytesMin;
  for (const CaseName& name : cases) {
    bytes = std::max<std::uint64_t>(
        bytes, name.clients * std::max<std::size_t>(name.batch, 2) * name.value_bytes);
  }
  return bytes;
}

std::size_t set_count(const BenchOptions& options, std::uint64_t value_bytes) {
  const auto fits = static_cast<std::size_t>(options.set_bytes / value_bytes);
  return std::min(options.keys > 0 ? std::min(options.keys, fits) : fits, kSetValuesMax);
}

class StoreRun {
 public:
  StoreRun(const BenchOptions& options, const NodeSession& session, const RawPeer& peer,
           std::span<std::byte> local, std::span<std::byte> shared)
      : options_(options), context_{options, session, peer, local, shared} {}
  ~StoreRun() {
    if (set_ && keeper_) (void)set_->remove(*keeper_);  // best effort: the node may be gone
  }
  StoreRun(const StoreRun&) = delete;
  StoreRun& operator=(const StoreRun&) = delete;

  Result<BenchRow> measure(const CaseName& name) {
    LARDER_TRY(bring_set(set_value_bytes(name)));
    const LimitPlan plan = plan_limit(name);
    std::vector<ProbePtr> limits;
    if (options_.limits) {
      LARDER_ASSIGN(limits, make_case_limits(name, context_));
    }
    LARDER_ASSIGN(const ProbePtr ours, make_store_probe(name, context_));
    LARDER_ASSIGN(const Pair pair, run_pair(limits, plan.measure, *ours, options_.rhythm()));
    BenchRow row;
    row.name = to_string(name);
    row.ours = pair.ours;
    row.measure = plan.measure;
    if (!options_.limits) return row;
    row.limit = pair.limit;
    row.limit_name = pair.limit_name;
    row.ratio = ratio_of(plan.measure, pair.ours, pair.limit);
    row.bar = bar_of(name);
    row.verdict = judge(row.bar, row.ratio);
    return row;
  }

 private:
  // The node holds the set of one value size at a time.
  Result<void> bring_set(std::uint64_t value_bytes) {
    if (value_bytes == 0 || (set_ && set_->value_bytes() == value_bytes)) return {};
    if (!keeper_) {
      const bool local = context_.session.reaches(BenchPath::kLocal);
      LARDER_ASSIGN(keeper_,
                    context_.session.connect(local ? BenchPath::kUnix : BenchPath::kTcp, 0));
    }
    if (set_) LARDER_TRY(set_->remove(*keeper_));
    set_.reset();
    const std::size_t count = set_count(options_, value_bytes);
    if (count == 0) return fail(Code::kInvalidArgument, "the case needs a larger --set-bytes");
    LARDER_ASSIGN(set_, Dataset::store(*keeper_, value_bytes, count));
    context_.data = &*set_;
    return {};
  }

  const BenchOptions& options_;
  StoreContext context_;
  std::unique_ptr<Client> keeper_;
  std::optional<Dataset> set_;
};

Result<void> check_capacity(const NodeSession& session, const BenchOptions& options) {
  const auto path = session.reaches(BenchPath::kUnix) ? BenchPath::kUnix : BenchPath::kTcp;
  LARDER_ASSIGN(const auto client, session.connect(path, 0));
  LARDER_ASSIGN(const NodeInfo info, client->info());
  const std::uint64_t room = info.capacity_bytes - std::min(info.capacity_bytes, info.used_bytes);
  if (room / 5 * 4 >= 2 * options.set_bytes) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("the node has {} of DRAM to spare; sets of {} would make it evict: use "
                          "--set-bytes {} or less",
                          base::human_bytes(room), base::human_bytes(options.set_bytes),
                          base::format_size(room / 5 * 2 / kLookupValueBytes * kLookupValueBytes)));
}

Result<std::string> pages_of(const NodeSession& session) {
  if (!session.reaches(BenchPath::kUnix)) return std::string("4KiB");
  LARDER_ASSIGN(const auto client, session.connect(BenchPath::kUnix, 0));
  LARDER_ASSIGN(const NodeInfo info, client->info());
  return info.segment_pages;
}

Result<void> measure_cases(const std::vector<CaseName>& cases, const BenchOptions& options,
                           std::vector<BenchRow>& rows) {
  // The peer first: it forks, and the clients and the node's helper have threads.
  LARDER_ASSIGN(const auto peer, RawPeer::start(options.set_bytes));
  LARDER_ASSIGN(const auto session, NodeSession::open(options, capacity_for(options)));
  LARDER_TRY(check_capacity(*session, options));
  LARDER_ASSIGN(const std::string pages, pages_of(*session));
  LARDER_ASSIGN(const Mapping local, Mapping::private_memory(local_bytes_for(options, cases)));
  LARDER_ASSIGN(const Mapping shared, Mapping::shared_memory(options.set_bytes, pages));
  StoreRun run(options, *session, *peer, local.bytes(), shared.bytes());
  for (const CaseName& name : cases) {
    if (!session->reaches(name.path)) {
      print_note(fmt::format("{} left out: no --address of that kind", to_string(name)));
      continue;
    }
    auto row = run.measure(name);
    if (!row) {
      return fail(row.error().code(),
                  fmt::format("case {}: {}", to_string(name), row.error().message()));
    }
    LARDER_TRY(show_row(rows, std::move(*row)));
  }
  return {};
}

}  // namespace

Result<void> bench_store(const BenchOptions& options) {
  LARDER_ASSIGN(CaseList list, select_cases(options.cases, options.all));
  std::vector<BenchRow> rows;
  LARDER_TRY(print(table_head(true)));
  if (!list.cases.empty()) LARDER_TRY(measure_cases(list.cases, options, rows));
  if (list.memory && options.addresses.empty()) {
    LARDER_ASSIGN(BenchRow row, measure_memory(options));
    LARDER_TRY(show_row(rows, std::move(row)));
  }
  if (!options.json_file.empty()) LARDER_TRY(write_json(options.json_file, rows));
  return judge_all(rows, options.check);
}

}  // namespace larder::apps
