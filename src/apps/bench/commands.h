// SPDX-License-Identifier: Apache-2.0
// The measurements of `larder bench`. Each prints its table as it goes and writes the JSON
// file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/bench/node_session.h"
#include "apps/bench/options.h"
#include "apps/bench/report.h"
#include "larder/status.h"

namespace larder::apps {

// kInternal, naming them, when `check` is set and bars were missed.
Result<void> bench_limits(const BenchOptions& options);
Result<void> bench_store(const BenchOptions& options);
Result<void> bench_transfer(const BenchOptions& options);
Result<void> bench_disk(const BenchOptions& options);
Result<void> bench_nvmf(const BenchOptions& options);
Result<void> list_nvmf_cases(const BenchOptions& options);
Result<void> list_disk_cases(const BenchOptions& options);

// Bytes of node memory (private pages, and whatever a value takes in the segments beyond its own
// bytes) for each of many stored objects of 64 KiB, on a fresh node of our own.
Result<BenchRow> measure_memory(const BenchOptions& options);

}  // namespace larder::apps
