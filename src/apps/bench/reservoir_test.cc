// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/reservoir.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace larder::apps {
namespace {

TEST(NearestRank, PicksTheSmallestValueThatCoversTheFraction) {
  std::vector<env::Nanos> sorted;
  for (int i = 1; i <= 100; ++i) sorted.push_back(i);
  EXPECT_EQ(nearest_rank(sorted, 0.5), 50);
  EXPECT_EQ(nearest_rank(sorted, 0.99), 99);
  EXPECT_EQ(nearest_rank(sorted, 0.999), 100);
  EXPECT_EQ(nearest_rank(sorted, 1.0), 100);
}

TEST(NearestRank, OneSampleAndNone) {
  const std::vector<env::Nanos> one{7};
  EXPECT_EQ(nearest_rank(one, 0.5), 7);
  EXPECT_EQ(nearest_rank(one, 0.999), 7);
  EXPECT_EQ(nearest_rank({}, 0.5), 0);
}

TEST(Median, OddEvenAndEmpty) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(median({}), 0);
}

TEST(Reservoir, KeepsEverySampleWhileThereIsRoom) {
  Reservoir reservoir(1000);
  for (int i = 1000; i >= 1; --i) reservoir.add(i * env::kMicro);
  const Percentiles got = reservoir.percentiles();
  EXPECT_DOUBLE_EQ(got.p50_us, 500);
  EXPECT_DOUBLE_EQ(got.p99_us, 990);
  EXPECT_DOUBLE_EQ(got.p999_us, 999);
}

TEST(Reservoir, IsBoundedAndStaysUniform) {
  Reservoir reservoir(2000);
  for (int i = 0; i < 200'000; ++i) reservoir.add(i);
  EXPECT_EQ(reservoir.samples().size(), 2000U);
  EXPECT_EQ(reservoir.seen(), 200'000U);
  const auto late = std::count_if(reservoir.samples().begin(), reservoir.samples().end(),
                                  [](env::Nanos sample) { return sample >= 100'000; });
  EXPECT_NEAR(static_cast<double>(late), 1000, 150);
}

TEST(Reservoir, MergeCountsWhatTheOtherSaw) {
  Reservoir left(10);
  Reservoir right(10);
  for (int i = 0; i < 5; ++i) left.add(1);
  for (int i = 0; i < 25; ++i) right.add(2);
  left.merge(right);
  EXPECT_EQ(left.seen(), 30U);
  EXPECT_EQ(left.samples().size(), 10U);
}

TEST(Reservoir, EmptyHasNoPercentiles) {
  EXPECT_DOUBLE_EQ(Reservoir().percentiles().p999_us, 0);
}

}  // namespace
}  // namespace larder::apps
