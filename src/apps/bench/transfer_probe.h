// SPDX-License-Identifier: Apache-2.0
// The engine's side of a transfer case, and the limits that go with it.
#pragma once

#include <vector>

#include "apps/bench/limits.h"
#include "apps/bench/options.h"
#include "apps/bench/transfer_bed.h"
#include "apps/bench/transfer_case.h"

namespace larder::apps {

// What the cases of one run share. Outlives every probe made with it.
struct TransferContext {
  const BenchOptions& options;
  const RawPeer* peer = nullptr;   // where a tcp case has its limit beside it
  const DiskFile* file = nullptr;  // where there is a file case
};

// One call is what a user does for a batch: allocate it, submit, wait, look at the outcome, free
// it. Every place of a target in memory was visited once, so that its pages are mapped. The bed
// outlives the probe.
Result<ProbePtr> make_transfer_probe(const TransferCase& name, const TransferContext& context,
                                     const TransferBed& bed);

// One or more probes (ways to wait, to keep a disk busy) of the limit that plan_limit() names.
Result<std::vector<ProbePtr>> make_transfer_limits(const TransferCase& name,
                                                   const TransferContext& context,
                                                   const TransferBed& bed);

}  // namespace larder::apps
