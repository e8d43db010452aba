// SPDX-License-Identifier: Apache-2.0
// Both ends have a core each, and so have those of the raw sockets; both run in turns.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "apps/bench/commands.h"
#include "apps/bench/limits.h"
#include "apps/bench/memory.h"
#include "apps/bench/nvmf_probe.h"
#include "apps/bench/nvmf_target_process.h"
#include "apps/console.h"
#include "block/blocking.h"
#include "env/thread.h"
#include "nvmf/host/device.h"

namespace larder::apps {
namespace {

constexpr std::uint64_t kCapsuleBytes = 24;  // what an answer takes besides its data
constexpr std::uint64_t kCheckBytes = 1U << 20U;

struct NvmfBed {
  std::unique_ptr<NvmfTargetProcess> target;
  std::unique_ptr<RawPeer> peer;
  std::shared_ptr<nvmf::NvmeDevice> device;
  Mapping memory;
};

// The children first: they get the first core, and this process has no threads yet.
Result<NvmfBed> make_bed(const BenchOptions& options) {
  NvmfBed bed;
  static_cast<void>(env::core_count());  // of all, before the pinning: it decides who may spin
  const bool pinned = pin_to_core(0);
  LARDER_ASSIGN(bed.target, NvmfTargetProcess::start(options.set_bytes));
  LARDER_ASSIGN(bed.peer, RawPeer::start(options.set_bytes));
  if (!pinned || !pin_to_core(1)) {
    print_note("both ends share one core here: the figures say little about two");
  }
  nvmf::NvmeDeviceOptions device;
  LARDER_ASSIGN(device.url, nvmf::parse_nvme_url(bed.target->url()));
  LARDER_ASSIGN(bed.device, nvmf::NvmeDevice::open(device));
  LARDER_ASSIGN(bed.memory, Mapping::private_memory(options.set_bytes));
  return bed;
}

// That what is measured does what it says.
Result<void> check_bytes(const NvmfBed& bed) {
  LARDER_ASSIGN(const auto queue, bed.device->open_queue(1));
  const auto out = bed.memory.bytes().first(kCheckBytes);
  const auto in = bed.memory.bytes().subspan(kCheckBytes, kCheckBytes);
  fill_pattern(out, 3);
  LARDER_TRY(block::write_all(*queue, 3 * kCheckBytes, out));
  LARDER_TRY(block::read_all(*queue, 3 * kCheckBytes, in));
  if (std::memcmp(out.data(), in.data(), in.size()) == 0) return {};
  return fail(Code::kCorrupt, "other bytes came back than were written");
}

Result<std::vector<ProbePtr>> limits_of(const NvmfCase& name, const NvmfBed& bed) {
  std::vector<ProbePtr> out;
  const auto add = [&out](Result<ProbePtr> probe) -> Result<void> {
    if (!probe) return fail(probe.error());
    out.push_back(std::move(*probe));
    return {};
  };
  for (const Wait wait : waits_for(name.measure, Wait::kSpin)) {
    if (name.limit == LimitKind::kStream) {
      LARDER_TRY(add(make_stream_limit(*bed.peer, BenchPath::kTcp, wait,
                                       name.write ? Direction::kUp : Direction::kDown, 1,
                                       name.bytes, bed.memory.bytes())));
      continue;
    }
    ExchangeShape shape;
    shape.wait = wait;
    shape.up_bytes = name.write ? name.bytes : 0;
    shape.down_bytes = kCapsuleBytes + (name.write ? 0 : name.bytes);
    shape.value_bytes = name.bytes;
    if (name.depth == 1) {
      LARDER_TRY(add(make_exchange_limit(*bed.peer, shape, bed.memory.bytes())));
      continue;
    }
    for (const std::size_t burst : {std::size_t{1}, name.depth / 2}) {
      LARDER_TRY(add(make_pipeline_limit(*bed.peer, shape, name.depth, burst, bed.memory.bytes())));
    }
  }
  return out;
}

double per_gb(env::Nanos time, std::uint64_t bytes) {
  return bytes == 0 ? 0 : static_cast<double>(time) / static_cast<double>(bytes);
}

Result<BenchRow> measure(const NvmfCase& name, const NvmfBed& bed, const BenchOptions& options) {
  BenchRow row;
  row.name = name.name;
  row.measure = name.measure;
  std::vector<ProbePtr> limits;
  if (options.limits) {
    LARDER_ASSIGN(limits, limits_of(name, bed));
  }
  std::vector<CpuUse> raw(limits.size());
  for (std::size_t i = 0; i < limits.size(); ++i) {
    limits[i] = with_cpu(std::move(limits[i]), bed.peer->pid(), raw[i]);
  }
  CpuUse own;
  LARDER_ASSIGN(ProbePtr probe, make_nvmf_probe(name, *bed.device, bed.memory.bytes()));
  const ProbePtr ours = with_cpu(std::move(probe), bed.target->pid(), own);
  LARDER_ASSIGN(const Pair pair, run_pair(limits, name.measure, *ours, options.rhythm()));
  row.ours = pair.ours;
  row.cpu = CpuPerGb{per_gb(own.here, own.bytes), per_gb(own.there, own.bytes), 0, 0};
  if (limits.empty()) return row;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    if (limits[i]->name() != pair.limit_name) continue;
    row.cpu->limit = per_gb(raw[i].here, raw[i].bytes);
    row.cpu->limit_far = per_gb(raw[i].there, raw[i].bytes);
  }
  row.limit = pair.limit;
  row.limit_name = pair.limit_name;
  row.ratio = ratio_of(name.measure, pair.ours, pair.limit);
  row.bar = name.bar;
  row.verdict = judge(row.bar, row.ratio);
  return row;
}

}  // namespace

Result<void> list_nvmf_cases(const BenchOptions& options) {
  LARDER_ASSIGN(const auto cases, select_nvmf_cases(options.cases));
  std::string text;
  for (const NvmfCase& name : cases) text += name.name + "\n";
  return print(text);
}

Result<void> bench_nvmf(const BenchOptions& options) {
  LARDER_ASSIGN(const auto cases, select_nvmf_cases(options.cases));
  LARDER_ASSIGN(const NvmfBed bed, make_bed(options));
  LARDER_TRY(check_bytes(bed));
  std::vector<BenchRow> rows;
  LARDER_TRY(print(table_head(true)));
  for (const NvmfCase& name : cases) {
    auto row = measure(name, bed, options);
    if (!row) {
      return fail(row.error().code(), fmt::format("case {}: {}", name.name, row.error().message()));
    }
    LARDER_TRY(show_row(rows, std::move(*row)));
  }
  if (!options.json_file.empty()) LARDER_TRY(write_json(options.json_file, rows));
  return judge_all(rows, options.check);
}

}  // namespace larder::apps
