// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "apps/bench/commands.h"
#include "apps/bench/transfer_probe.h"
#include "apps/console.h"
#include "base/units.h"
#include "env/host_probe.h"

namespace larder::apps {
namespace {

template <class Is>
bool any(const std::vector<TransferCase>& cases, Is is) {
  return std::any_of(cases.begin(), cases.end(),
                     [&](const TransferCase& name) { return is(name.target); });
}

void note_disk(const DiskFile& file, const BenchOptions& options) {
  if (!file.direct()) {
    print_note(
        fmt::format("the file system of {} takes no direct I/O: both sides of the file "
                    "cases go through the page cache (--dir names another directory)",
                    base::quoted(options.directory, 256)));
  }
  if (env::probe_io_uring().setup_errno != 0) {
    print_note(
        "io_uring is forbidden here: both sides of the file cases are threads that pread "
        "and pwrite");
  }
}

Result<BenchRow> measure(const TransferCase& name, const TransferContext& context) {
  const LimitPlan plan = plan_limit(name);
  BenchRow row;
  row.name = to_string(name);
  row.measure = plan.measure;
  LARDER_ASSIGN(const auto bed, TransferBed::open(name, context.options, context.file));
  std::vector<ProbePtr> limits;
  if (context.options.limits) {
    LARDER_ASSIGN(limits, make_transfer_limits(name, context, *bed));
  }
  LARDER_ASSIGN(const ProbePtr ours, make_transfer_probe(name, context, *bed));
  LARDER_ASSIGN(const Pair pair, run_pair(limits, plan.measure, *ours, context.options.rhythm()));
  row.ours = pair.ours;
  if (!context.options.limits) return row;
  row.limit = pair.limit;
  row.limit_name = pair.limit_name;
  row.ratio = ratio_of(plan.measure, pair.ours, pair.limit);
  row.bar = bar_of(name);
  row.verdict = judge(row.bar, row.ratio);
  return row;
}

// A bar that cannot be measured is not reached.
BenchRow unsupported_row(const TransferCase& name, const Error& error) {
  BenchRow row;
  row.name = to_string(name);
  row.measure = plan_limit(name).measure;
  row.unsupported = error.message();
  row.bar = bar_of(name);
  row.verdict = judge(row.bar, 0);
  return row;
}

Result<void> measure_cases(const std::vector<TransferCase>& cases, const BenchOptions& options,
                           std::vector<BenchRow>& rows) {
  // The peer first: it forks, and engines have threads.
  std::unique_ptr<RawPeer> peer;
  if (options.limits &&
      any(cases, [](TransferTarget target) { return target == TransferTarget::kTcp; })) {
    LARDER_ASSIGN(peer, RawPeer::start(options.set_bytes));
  }
  std::unique_ptr<DiskFile> file;
  if (any(cases, on_file)) {
    LARDER_ASSIGN(file, DiskFile::create(options.directory, options.file_bytes, options.seed));
    note_disk(*file, options);
  }
  const TransferContext context{options, peer.get(), file.get()};
  for (const TransferCase& name : cases) {
    auto row = measure(name, context);
    if (!row && row.error().code() == Code::kUnsupported) row = unsupported_row(name, row.error());
    if (!row) {
      return fail(row.error().code(),
                  fmt::format("case {}: {}", to_string(name), row.error().message()));
    }
    LARDER_TRY(show_row(rows, std::move(*row)));
  }
  return {};
}

}  // namespace

Result<void> bench_transfer(const BenchOptions& options) {
  LARDER_ASSIGN(const auto cases, select_transfer_cases(options.cases));
  std::vector<BenchRow> rows;
  LARDER_TRY(print(table_head(true)));
  LARDER_TRY(measure_cases(cases, options, rows));
  if (!options.json_file.empty()) LARDER_TRY(write_json(options.json_file, rows));
  return judge_all(rows, options.check);
}

}  // namespace larder::apps
