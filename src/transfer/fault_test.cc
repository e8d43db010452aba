// SPDX-License-Identifier: Apache-2.0
// The parts of the engine over transports that do everything wrong. Whatever happens below: each
// request gets one outcome, completed means that the bytes are there, memory that was given back is
// never touched again, and nothing is left over.
//
// Each seed is one run. Runs are the same every time, but for breakers, which read the clock; the
// file runs have threads. A failure says how to run its seed alone; LARDER_SEEDS=n runs n seeds.
#include <gtest/gtest.h>

#include "env/test_seeds.h"
#include "transfer/fault_storm_testing.h"

namespace larder::transfer {
namespace {

constexpr std::uint64_t kSeeds = 1000;

TEST(TransferFaults, NeverHarmMemoryOrLie) {
  const env::TestSeeds seeds = env::test_seeds(kSeeds);
  Totals totals;
  for (std::uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    SCOPED_TRACE(env::seed_trace(seed, "transfer_test", "'TransferFaults.*'"));
    Storm storm(seed, totals);
    storm.run();
    if (testing::Test::HasFailure()) return;
  }
  if (seeds.alone || seeds.count < kSeeds) return;
  // The test is only worth something if all of it happened.
  EXPECT_GT(totals.outcomes[Outcome::kCompleted], 10000U);
  EXPECT_GT(totals.outcomes[Outcome::kFailed], 1000U);
  EXPECT_GT(totals.outcomes[Outcome::kCancelled], 1000U);
  EXPECT_GT(totals.outcomes[Outcome::kTimedOut], 500U);
  EXPECT_GT(totals.rejected, 500U);
  EXPECT_GT(totals.merged, 3000U);
  EXPECT_GT(totals.sliced, 1000U);
  EXPECT_GT(totals.failed_over, 1000U);
  EXPECT_GT(totals.quarantined, 1000U);
  EXPECT_GT(totals.refused_unregister, 500U);
  EXPECT_GT(totals.freed_busy, 500U);
  EXPECT_GT(totals.resubmits, 500U);
  EXPECT_GT(totals.deaths, 100U);
  EXPECT_GT(totals.faults.partial, 500U);
  EXPECT_GT(totals.faults.too_late, 500U);
  EXPECT_GT(totals.faults.at_once, 1000U);
  EXPECT_GT(totals.faults.after_cancel, 1000U);
  EXPECT_GT(totals.faults.strays, 5000U);
}

}  // namespace
}  // namespace larder::transfer
