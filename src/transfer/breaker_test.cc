// SPDX-License-Identifier: Apache-2.0
#include "transfer/breaker.h"

#include <gtest/gtest.h>

namespace larder::transfer {
namespace {

constexpr SegmentId kTarget{5};
constexpr SegmentId kOther{6};
constexpr auto kTcp = TransportType::kTcp;
constexpr auto kShm = TransportType::kShm;

class BreakersTest : public testing::Test {
 protected:
  bool open(env::Nanos now, SegmentId target = kTarget) {
    return breakers_.open_for(target, now).contains(kTcp);
  }
  void fail_times(int times, env::Nanos now) {
    for (int i = 0; i < times; ++i) breakers_.failed(kTarget, kTcp, now);
  }
  Breakers breakers_;
};

TEST_F(BreakersTest, OpensAfterFailuresInARow) {
  EXPECT_FALSE(open(0));
  fail_times(Breakers::kFailuresMax - 1, 0);
  EXPECT_FALSE(open(0));
  breakers_.worked(kTarget, kTcp);
  fail_times(Breakers::kFailuresMax - 1, 0);
  EXPECT_FALSE(open(0));  // not in a row
  fail_times(1, 0);
  EXPECT_TRUE(open(0));
  EXPECT_TRUE(open(Breakers::kOpenMin - 1));
}

TEST_F(BreakersTest, KeepsNothingElseAway) {
  fail_times(Breakers::kFailuresMax, 0);
  EXPECT_TRUE(breakers_.open_for(kTarget, 0) == TransportSet({kTcp}));
  EXPECT_TRUE(breakers_.open_for(kOther, 0).empty());
  breakers_.worked(kTarget, kShm);
  breakers_.worked(kOther, kTcp);
  EXPECT_TRUE(open(0));
}

TEST_F(BreakersTest, HalfOpenLetsOneThrough) {
  fail_times(Breakers::kFailuresMax, 0);
  const env::Nanos later = Breakers::kOpenMin;
  EXPECT_FALSE(open(later));  // the probe
  EXPECT_TRUE(open(later));
  EXPECT_TRUE(open(later + Breakers::kOpenMin - 1));
  breakers_.worked(kTarget, kTcp);
  EXPECT_FALSE(open(later));
  EXPECT_FALSE(open(later));
  EXPECT_EQ(breakers_.open(), 0U);
}

TEST_F(BreakersTest, AProbeThatFailsOpensItForTwiceAsLong) {
  fail_times(Breakers::kFailuresMax, 0);
  env::Nanos now = 0;
  env::Nanos expected = Breakers::kOpenMin;
  for (int i = 0; i < 12; ++i) {
    EXPECT_TRUE(open(now + expected - 1)) << i;
    now += expected;
    EXPECT_FALSE(open(now)) << i;
    breakers_.failed(kTarget, kTcp, now);
    expected = std::min(expected * 2, Breakers::kOpenMax);
  }
  EXPECT_EQ(expected, Breakers::kOpenMax);
  // And begins anew after a success.
  breakers_.worked(kTarget, kTcp);
  fail_times(Breakers::kFailuresMax, now);
  EXPECT_FALSE(open(now + Breakers::kOpenMin));
}

// Those that were under way when it opened tell nothing new.
TEST_F(BreakersTest, StragglersDoNotOpenItForLonger) {
  fail_times(Breakers::kFailuresMax + 50, 0);
  EXPECT_TRUE(open(Breakers::kOpenMin - 1));
  EXPECT_FALSE(open(Breakers::kOpenMin));
}

TEST_F(BreakersTest, AProbeWithoutAnAnswerIsFollowedByAnother) {
  fail_times(Breakers::kFailuresMax, 0);
  EXPECT_FALSE(open(Breakers::kOpenMin));
  EXPECT_FALSE(open(2 * Breakers::kOpenMin));
}

TEST_F(BreakersTest, ForgetsAClosedTarget) {
  fail_times(Breakers::kFailuresMax, 0);
  breakers_.failed(kTarget, kShm, 0);
  breakers_.failed(kOther, kTcp, 0);
  EXPECT_EQ(breakers_.open(), 3U);
  breakers_.forget(kTarget);
  EXPECT_EQ(breakers_.open(), 1U);
  EXPECT_FALSE(open(0));
  breakers_.forget(kTarget);
}

TEST_F(BreakersTest, IsBounded) {
  for (std::uint64_t i = 0; i < Breakers::kEntriesMax + 10; ++i) {
    for (int n = 0; n < Breakers::kFailuresMax; ++n) breakers_.failed({100 + i}, kTcp, 0);
  }
  EXPECT_EQ(breakers_.open(), Breakers::kEntriesMax);
  EXPECT_TRUE(open(0, {100}));
  EXPECT_FALSE(open(0, {100 + Breakers::kEntriesMax + 5}));
}

}  // namespace
}  // namespace larder::transfer
