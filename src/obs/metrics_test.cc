// SPDX-License-Identifier: Apache-2.0
#include "obs/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

namespace larder::obs {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LatencyBucketsTest, BucketsTileTheRangeAndStayNarrow) {
  std::uint64_t expected = 0;
  for (std::size_t i = 0; i < LatencyBuckets::kCount; ++i) {
    const std::uint64_t low = LatencyBuckets::lower(i);
    const std::uint64_t next = LatencyBuckets::lower(i + 1);
    ASSERT_EQ(low, expected);
    ASSERT_GT(next, low);
    ASSERT_EQ(LatencyBuckets::index(low), i);
    ASSERT_EQ(LatencyBuckets::index(next - 1), i);
    ASSERT_LE((next - low - 1) * 16, low);
    expected = next;
  }
  EXPECT_EQ(expected, LatencyBuckets::kValueMax + 1);
  EXPECT_EQ(LatencyBuckets::index(~0ULL), LatencyBuckets::kCount - 1);
  EXPECT_GT(LatencyBuckets::kValueMax, 1000ULL * 1'000'000'000);
}

// Any distribution, any percentile: within 1/16 of the exact order statistic.
TEST(LatencyRecorderTest, PercentilesAreWithinOneSixteenth) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    LatencyRecorder recorder;
    std::vector<std::uint64_t> values(1 + random() % 2000);
    const unsigned shift = 24 + static_cast<unsigned>(random() % 36);
    std::uint64_t sum = 0;
    for (std::uint64_t& value : values) {
      value = random() >> (shift + random() % 4);
      recorder.record(value);
      sum += value;
    }
    std::sort(values.begin(), values.end());
    ASSERT_EQ(recorder.count(), values.size());
    ASSERT_EQ(recorder.sum_ns(), sum);
    for (const double percent : {0.0, 0.1, 1.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 100.0}) {
      const auto size = static_cast<double>(values.size());
      const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(percent / 100 * size)));
      const std::uint64_t exact = values[std::min(rank, values.size()) - 1];
      const std::uint64_t got = recorder.percentile(percent);
      const std::uint64_t error = got > exact ? got - exact : exact - got;
      ASSERT_LE(error * 16, exact) << "p" << percent << " of " << values.size();
    }
  }
}

TEST(LatencyRecorderTest, EdgesAndMerge) {
  LatencyRecorder recorder;
  EXPECT_EQ(recorder.percentile(50), 0U);
  EXPECT_EQ(recorder.mean_ns(), 0.0);
  recorder.record(std::chrono::nanoseconds(-5));
  recorder.record(~0ULL);
  EXPECT_EQ(recorder.min_ns(), 0U);
  EXPECT_GT(recorder.max_ns(), 1000ULL * 1'000'000'000);
  EXPECT_EQ(recorder.percentile(std::nan("")), 0U);
  LatencyRecorder other;
  other.record(10, 8);
  other.merge(recorder);
  EXPECT_EQ(other.count(), 10U);
  EXPECT_EQ(other.percentile(50), 10U);
  EXPECT_EQ(other.sum_ns(), 80 + LatencyBuckets::kValueMax);
  EXPECT_EQ(other.count_below_power(3), 1U);
  EXPECT_EQ(other.count_below_power(4), 9U);
  EXPECT_EQ(other.count_below_power(63), 10U);
  Histogram histogram;
  histogram.merge(other);
  EXPECT_EQ(histogram.count(), 10U);
  EXPECT_EQ(histogram.sum_ns(), other.sum_ns());
  other.clear();
  EXPECT_EQ(other.count(), 0U);
}

TEST(RegistryTest, SameSeriesSameObject) {
  Registry registry;
  Counter* first = *registry.counter("larder_x_total", "x", {{"op", "get"}, {"tier", "hot"}});
  Counter* again = *registry.counter("larder_x_total", "x", {{"tier", "hot"}, {"op", "get"}});
  Counter* other = *registry.counter("larder_x_total", "x", {{"op", "put"}, {"tier", "hot"}});
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
  EXPECT_EQ(registry.series(), 2U);
  EXPECT_EQ(registry.gauge("larder_x_total", "x").error().code(), Code::kInvalidArgument);
}

TEST(RegistryTest, RefusesBadNamesAndLabels) {
  Registry registry;
  for (const char* name : {"", "1x", "a-b", "a b", "a\n", "\xff"}) {
    EXPECT_FALSE(registry.counter(name, "help")) << name;
  }
  EXPECT_FALSE(registry.counter(std::string(200, 'a'), "help"));
  EXPECT_FALSE(registry.counter("a_total", "two\nlines"));
  EXPECT_FALSE(registry.counter("a_total", "x", {{"le", "1"}}));
  EXPECT_FALSE(registry.counter("a_total", "x", {{"a-b", "1"}}));
  EXPECT_FALSE(registry.counter("a_total", "x", {{"a", "1"}, {"a", "2"}}));
  EXPECT_FALSE(registry.counter("a_total", "x", {{"a", "\xff\xfe"}}));
  EXPECT_FALSE(registry.counter("a_total", "x", {{"a", std::string(257, 'v')}}));
  EXPECT_FALSE(registry.counter("a_total", "x", Labels(9, {"a", "b"})));
  EXPECT_EQ(registry.series(), 0U);
}

TEST(RegistryTest, SeriesAreBounded) {
  Registry registry(3);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(registry.counter("a_total", "a", {{"i", std::to_string(i)}}));
  }
  const auto refused = registry.gauge("b", "b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kExhausted);
  EXPECT_THAT(refused.error().message(), HasSubstr("all 3 series"));
  EXPECT_TRUE(registry.counter("a_total", "a", {{"i", "1"}}));  // those that exist still answer
}

TEST(RegistryTest, TextIsPrometheus) {
  Registry registry;
  (*registry.counter("larder_get_total", "gets", {{"why", "a\"b\\c"}}))->add(3);
  (*registry.gauge("larder_used_bytes", "used"))->set(-7);
  Histogram* histogram = *registry.histogram("larder_get_seconds", "latency");
  histogram->record(std::chrono::microseconds(1));
  histogram->record(std::chrono::milliseconds(2));
  histogram->record(std::chrono::seconds(500));
  const std::string text = registry.text();
  EXPECT_THAT(text, HasSubstr("# HELP larder_get_total gets\n# TYPE larder_get_total counter\n"));
  EXPECT_THAT(text, HasSubstr("larder_get_total{why=\"a\\\"b\\\\c\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("larder_used_bytes -7\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE larder_get_seconds histogram\n"));
  EXPECT_THAT(text, HasSubstr("larder_get_seconds_count 3\n"));
  EXPECT_THAT(text, HasSubstr("larder_get_seconds_bucket{le=\"1.024e-06\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("larder_get_seconds_bucket{le=\"+Inf\"} 3\n"));
  std::size_t buckets = 0;
  for (std::size_t at = 0; (at = text.find("_bucket{", at)) != std::string::npos; ++at) ++buckets;
  EXPECT_EQ(buckets, 15U);
}

TEST(RegistryTest, StatsAreJson) {
  Registry registry;
  (*registry.counter("c_total", "c", {{"op", "g\xc3\xa9t"}}))->add(~0ULL);
  (*registry.gauge("g", "g"))->set(-3);
  Histogram* histogram = *registry.histogram("h_seconds", "h");
  for (std::uint64_t i = 1; i <= 1000; ++i) histogram->record(i * 1000);
  const auto stats = nlohmann::json::parse(registry.stats_json());
  EXPECT_EQ(stats["c_total"]["type"], "counter");
  EXPECT_EQ(stats["c_total"]["series"][0]["value"].get<std::uint64_t>(), ~0ULL);
  EXPECT_EQ(stats["c_total"]["series"][0]["labels"]["op"], "g\xc3\xa9t");
  EXPECT_EQ(stats["g"]["series"][0]["value"], -3);
  const auto& series = stats["h_seconds"]["series"][0];
  EXPECT_EQ(series["count"], 1000);
  EXPECT_EQ(series["sum_ns"], 500'500'000);
  EXPECT_NEAR(series["p50_ns"].get<double>(), 500e3, 500e3 / 16);
  EXPECT_NEAR(series["p99_ns"].get<double>(), 990e3, 990e3 / 16);
  EXPECT_NEAR(series["p999_ns"].get<double>(), 999e3, 999e3 / 16);
}

TEST(RegistryTest, CallbackGaugesLiveAsLongAsTheirHandle) {
  auto registry = std::make_unique<Registry>(3);
  auto handle = registry->callback("free_bytes", "free", [] { return 1.5; }, {{"a", "b"}});
  ASSERT_TRUE(handle);
  EXPECT_THAT(registry->text(), HasSubstr("free_bytes{a=\"b\"} 1.5\n"));
  EXPECT_EQ(
      registry->callback("free_bytes", "free", [] { return 2.0; }, {{"a", "b"}}).error().code(),
      Code::kAlreadyExists);
  EXPECT_FALSE(registry->gauge("free_bytes", "free", {{"a", "b"}}));
  EXPECT_FALSE(registry->callback("x", "x", nullptr));
  auto broken =
      registry->callback("broken", "throws", []() -> double { throw std::runtime_error("no"); });
  ASSERT_TRUE(broken);
  EXPECT_THAT(registry->text(), HasSubstr("free_bytes{a=\"b\"} 1.5\n"));
  EXPECT_THAT(registry->text(), Not(HasSubstr("\nbroken")));
  auto counter = registry->callback("seen_total", "seen", [] { return 3.0; });
  ASSERT_TRUE(counter);
  EXPECT_THAT(registry->text(), HasSubstr("# TYPE seen_total counter\nseen_total 3\n"));
  EXPECT_FALSE(registry->counter("seen_total", "seen"));
  counter->reset();
  CallbackHandle moved = std::move(*handle);
  moved.reset();
  EXPECT_THAT(registry->text(), Not(HasSubstr("free_bytes")));
  EXPECT_EQ(registry->series(), 1U);
  EXPECT_TRUE(registry->gauge("free_bytes", "free"));
  registry.reset();  // `broken` outlives it
}

}  // namespace
}  // namespace larder::obs
