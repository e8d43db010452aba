// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/score.h"

#include <gtest/gtest.h>

namespace larder::apps {
namespace {

LimitPlan plan(const char* text) {
  return plan_limit(parse_case(text).value());
}

TEST(PlanLimit, LocalReadsAreBoundByMemcpyAndSmallOnesAlsoByTheLookup) {
  EXPECT_EQ(plan("local.get_into.1MiB.b1.c1").kind, LimitKind::kMemcpy);
  EXPECT_EQ(plan("local.get_into.16MiB.b1.c2").kind, LimitKind::kMemcpy);
  EXPECT_EQ(plan("local.get_cached.4KiB.b1.c1").kind, LimitKind::kLookupMemcpy);
  EXPECT_EQ(plan("local.get_cached.4KiB.b1.c1").measure, Measure::kLatency);
}

TEST(PlanLimit, AnUncachedLocalReadIsOneRoundTrip) {
  EXPECT_EQ(plan("local.get.4KiB.b1.c1").kind, LimitKind::kRequestReply);
  EXPECT_EQ(plan("local.get.4KiB.b1.c1").measure, Measure::kLatency);
}

TEST(PlanLimit, LocalPutsAreBoundByCopyAndChecksum) {
  EXPECT_EQ(plan("local.put.1MiB.b1.c1").kind, LimitKind::kCopyChecksum);
  EXPECT_EQ(plan("local.put_shared.1MiB.b1.c1").kind, LimitKind::kCopyChecksum);
  EXPECT_EQ(plan("local.put.4KiB.b1.c1").kind, LimitKind::kRequestReply);
}

TEST(PlanLimit, OneAtATimeIsRequestReplyAndBigBatchesAreAStream) {
  EXPECT_EQ(plan("tcp.get_into.16MiB.b1.c1").kind, LimitKind::kRequestReply);
  EXPECT_EQ(plan("tcp.get_into.16MiB.b1.c1").measure, Measure::kLatency);
  EXPECT_EQ(plan("tcp.get_into.16MiB.b1.c2").measure, Measure::kThroughput);
  EXPECT_EQ(plan("tcp.put.1MiB.b16.c1").kind, LimitKind::kStream);
  EXPECT_EQ(plan("tcp.get.64KiB.b64.c1").kind, LimitKind::kStream);
  EXPECT_EQ(plan("tcp.get.4KiB.b16.c1").kind, LimitKind::kRequestReply);
  EXPECT_EQ(plan("tcp.get.4KiB.b1.c1").measure, Measure::kLatency);
}

TEST(PlanLimit, LookupsAreARoundTripAndTheTable) {
  EXPECT_EQ(plan("tcp.exists.16384.c1").kind, LimitKind::kRoundTripLookups);
  EXPECT_EQ(plan("unix.match_prefix.256.c1").measure, Measure::kLatency);
}

TEST(PlanLimit, TransfersAreBoundByWhatTheyMoveThrough) {
  const auto of = [](const char* text) { return plan_limit(parse_transfer_case(text).value()); };
  EXPECT_EQ(of("memcpy.read.4KiB.b128.t2").kind, LimitKind::kMemcpy);
  EXPECT_EQ(of("memcpy.read.4KiB.b128.t2").measure, Measure::kThroughput);
  EXPECT_EQ(of("shm.write.16MiB.b1.t1").kind, LimitKind::kMemcpy);
  EXPECT_EQ(of("shm.write.16MiB.b1.t1").measure, Measure::kLatency);
  EXPECT_EQ(of("tcp.read.4KiB.b1.t1").kind, LimitKind::kRequestReply);
  EXPECT_EQ(of("tcp.read.4KiB.b1.t1").measure, Measure::kLatency);
  EXPECT_EQ(of("tcp.read.4KiB.b1.t2").measure, Measure::kThroughput);
  EXPECT_EQ(of("tcp.write.4KiB.b128.t1").kind, LimitKind::kStream);
  EXPECT_EQ(of("file.read.128KiB.b32.t1").kind, LimitKind::kDisk);
  EXPECT_EQ(of("staging.read.16MiB.b1.t1").kind, LimitKind::kDiskOrCopy);
  EXPECT_EQ(of("file.read.128KiB.b32.t1").measure, Measure::kThroughput);
}

TEST(Ratio, OneIsPerfectInBothMeasures) {
  Summary ours;
  Summary limit;
  ours.ops_per_s = 90;
  limit.ops_per_s = 100;
  ours.latency.p50_us = 20;
  limit.latency.p50_us = 10;
  EXPECT_DOUBLE_EQ(ratio_of(Measure::kThroughput, ours, limit), 0.9);
  EXPECT_DOUBLE_EQ(ratio_of(Measure::kLatency, ours, limit), 0.5);
  EXPECT_DOUBLE_EQ(ratio_of(Measure::kThroughput, ours, Summary{}), 0);
  EXPECT_DOUBLE_EQ(ratio_of(Measure::kLatency, Summary{}, limit), 0);
}

TEST(Bars, NamedCasesHaveOneAndOthersNone) {
  EXPECT_DOUBLE_EQ(bar_of(parse_case("tcp.get.4KiB.b1.c1").value()).value(), 0.8);
  EXPECT_DOUBLE_EQ(bar_of(parse_case("local.get_cached.4KiB.b1.c1").value()).value(), 0.25);
  EXPECT_FALSE(bar_of(parse_case("unix.get.4KiB.b1.c1").value()));
}

TEST(Bars, TransfersHaveOneForBothDirections) {
  const auto of = [](const char* text) { return bar_of(parse_transfer_case(text).value()); };
  EXPECT_DOUBLE_EQ(of("tcp.read.1MiB.b16.t1").value(), 0.90);
  EXPECT_DOUBLE_EQ(of("tcp.write.16MiB.b16.t1").value(), 0.90);
  EXPECT_DOUBLE_EQ(of("tcp.read.4KiB.b1.t1").value(), 0.80);
  EXPECT_DOUBLE_EQ(of("shm.write.4KiB.b128.t2").value(), 0.60);
  EXPECT_DOUBLE_EQ(of("file.write.4MiB.b32.t1").value(), 0.95);
  EXPECT_DOUBLE_EQ(of("staging.read.16MiB.b1.t1").value(), 0.90);
  EXPECT_FALSE(of("memcpy.read.1MiB.b1.t1"));
  EXPECT_FALSE(of("tcp.read.1MiB.b16.t2"));
}

TEST(Bars, Judgement) {
  EXPECT_EQ(judge(std::nullopt, 0.1), Verdict::kNoBar);
  EXPECT_EQ(judge(0.9, 0.9), Verdict::kPass);
  EXPECT_EQ(judge(0.9, 0.899), Verdict::kMiss);
}

}  // namespace
}  // namespace larder::apps
