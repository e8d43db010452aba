// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/transfer_probe.h"

namespace larder::apps {
namespace {

Result<ProbePtr> copy_limit(const TransferCase& name, const TransferBed& bed) {
  const bool read = name.op == Opcode::kRead;
  return make_copy_limit(CopyKind::kAlike, name.bytes, name.threads,
                         read ? bed.beside() : bed.local(), read ? bed.local() : bed.beside());
}

Result<ProbePtr> exchange_limit(const TransferCase& name, const TransferContext& context,
                                const TransferBed& bed, Wait wait) {
  ExchangeShape shape;
  shape.wait = wait;
  shape.connections = name.threads;
  shape.value_bytes = name.bytes;
  (name.op == Opcode::kRead ? shape.down_bytes : shape.up_bytes) = name.bytes;
  return make_exchange_limit(*context.peer, shape, bed.local());
}

Result<ProbePtr> stream_limit(const TransferCase& name, const TransferContext& context,
                              const TransferBed& bed, Wait wait) {
  const Direction direction = name.op == Opcode::kRead ? Direction::kDown : Direction::kUp;
  return make_stream_limit(*context.peer, BenchPath::kTcp, wait, direction, name.threads,
                           name.bytes, bed.local());
}

// The engine spins briefly and then sleeps, and cannot be told otherwise. Where other processes
// keep the cores busy, spinning peers lose to those that sleep at once: then these are the limit.
std::vector<Wait> waits_beside(Measure measure) {
  auto waits = waits_for(measure, Wait::kSpin);
  if (measure == Measure::kLatency) waits.push_back(Wait::kBlock);
  return waits;
}

// A batch that waits for its last one leaves the disk idle at its end, a refilled queue does not;
// but at depth 1 there is no difference.
Result<std::vector<ProbePtr>> disk_limits(const TransferCase& name, const TransferContext& context,
                                          const TransferBed& bed) {
  DiskShape shape{name.op == Opcode::kWrite, name.bytes, name.batch, name.threads};
  const auto memory = bed.on_device() ? bed.beside() : bed.local();
  std::vector<ProbePtr> limits;
  for (const bool refill : {false, true}) {
    if (refill && name.batch == 1) continue;
    shape.refill = refill;
    LARDER_ASSIGN(ProbePtr limit, make_disk_limit(*context.file, shape, memory));
    limits.push_back(std::move(limit));
  }
  return limits;
}

double speed_of(const Summary& side, Measure measure) {
  return measure == Measure::kLatency ? -side.latency.p50_us : side.ops_per_s;
}

// Both stages have to be passed, so the slower one bounds the whole: a short look at each says
// which that is.
Result<std::vector<ProbePtr>> staging_limits(const TransferCase& name,
                                             const TransferContext& context, const TransferBed& bed,
                                             Measure measure) {
  const Rhythm brief{3, 100 * env::kMilli};
  LARDER_ASSIGN(std::vector<ProbePtr> disks, disk_limits(name, context, bed));
  LARDER_ASSIGN(ProbePtr copier, make_copier_limit(name.op == Opcode::kWrite, name.bytes,
                                                   name.threads, bed.beside()));
  LARDER_ASSIGN(const Summary copied, run_alone(*copier, brief));
  for (const ProbePtr& disk : disks) {
    LARDER_ASSIGN(const Summary moved, run_alone(*disk, brief));
    if (speed_of(moved, measure) < speed_of(copied, measure)) continue;
    disks.clear();
    disks.push_back(std::move(copier));
    break;
  }
  return disks;
}

}  // namespace

Result<std::vector<ProbePtr>> make_transfer_limits(const TransferCase& name,
                                                   const TransferContext& context,
                                                   const TransferBed& bed) {
  const LimitPlan plan = plan_limit(name);
  if (plan.kind == LimitKind::kDisk) return disk_limits(name, context, bed);
  if (plan.kind == LimitKind::kDiskOrCopy) {
    return staging_limits(name, context, bed, plan.measure);
  }
  std::vector<ProbePtr> limits;
  if (plan.kind == LimitKind::kMemcpy) {
    LARDER_ASSIGN(ProbePtr limit, copy_limit(name, bed));
    limits.push_back(std::move(limit));
    return limits;
  }
  for (const Wait wait : waits_beside(plan.measure)) {
    LARDER_ASSIGN(ProbePtr limit, plan.kind == LimitKind::kStream
                                      ? stream_limit(name, context, bed, wait)
                                      : exchange_limit(name, context, bed, wait));
    limits.push_back(std::move(limit));
  }
  return limits;
}

}  // namespace larder::apps
