// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "env/test_seeds.h"

namespace larder::tier {
namespace {

using env::kMilli;
using env::kSecond;

constexpr env::Nanos kNow = 1000 * kSecond;
constexpr std::uint64_t kMiB = 1U << 20U;

Admission make(const AdmissionOptions& options) {
  auto made = Admission::create(options);
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

Refusal why(Admission& admission, std::uint32_t device, std::uint64_t bytes, env::Nanos now) {
  return admission.try_begin(device, bytes, now).why;
}

TEST(Admission, RefusesBadOptions) {
  constexpr std::uint64_t kTooMuch = TokenBucket::kMax + 1;
  EXPECT_FALSE(Admission::create({.node = {.ops_per_s = kTooMuch}}));
  EXPECT_FALSE(Admission::create({.node = {.bytes_burst = kTooMuch}}));
  EXPECT_FALSE(Admission::create({.device = {.bytes_per_s = kTooMuch}}));
  EXPECT_FALSE(Admission::create({.device = {.bytes_in_flight = kTooMuch}}));
  EXPECT_FALSE(Admission::create({.devices_max = 0}));
  EXPECT_FALSE(Admission::create({.devices_max = 4097}));
  EXPECT_FALSE(Admission::create({.pause = -1}));
}

TEST(Admission, WithoutLimitsEverythingPasses) {
  Admission admission = make({});
  for (int i = 0; i < 10000; ++i) ASSERT_TRUE(admission.try_begin(63, 1ULL << 40U, kNow).ok());
  EXPECT_EQ(why(admission, 64, 1, kNow), Refusal::kNoDevice);
  EXPECT_EQ(admission.node_counts().ops_in_flight, 10000U);
  EXPECT_EQ(admission.device_counts(63).bytes_in_flight, 10000ULL << 40U);
  EXPECT_EQ(admission.device_counts(64).begun, 0U);
}

TEST(Admission, EveryRefusalHasAName) {
  for (const auto why : {Refusal::kNone, Refusal::kPaused, Refusal::kProbing, Refusal::kInFlight,
                         Refusal::kRate, Refusal::kNoDevice}) {
    EXPECT_NE(refusal_name(why), "unknown");
  }
}

TEST(TokenBucket, GivesItsRateToTheToken) {
  // A rate that no nanosecond divides, asked at odd times.
  TokenBucket bucket(7, 3);
  env::Nanos now = kNow;
  std::uint64_t taken = 0;
  for (int i = 0; i < 200000; ++i) {
    now += 777'777;
    if (bucket.wait_for(1, now) != 0) continue;
    bucket.take(1, now);
    ++taken;
  }
  const auto seconds = static_cast<double>(now - kNow) / static_cast<double>(kSecond);
  EXPECT_NEAR(static_cast<double>(taken), 3 + 7 * seconds, 1.0);
}

TEST(TokenBucket, SaysWhenToComeAgainToTheNanosecond) {
  TokenBucket bucket(3, 10);
  bucket.take(10, kNow);
  EXPECT_EQ(bucket.available(kNow), 0U);
  const env::Nanos wait = bucket.wait_for(1, kNow);
  EXPECT_EQ(wait, 333'333'334);
  EXPECT_GT(bucket.wait_for(1, kNow + wait - 1), 0);
  EXPECT_EQ(bucket.wait_for(1, kNow + wait), 0);
  EXPECT_EQ(bucket.wait_for(10, kNow + 4 * kSecond), 0);
  EXPECT_EQ(bucket.available(kNow + 1000 * kSecond), 10U);
}

TEST(TokenBucket, WhatIsLargerThanTheBurstWaitsForAFullOneAndPaysLater) {
  TokenBucket bucket(10, 10);
  bucket.take(1, kNow);
  EXPECT_EQ(bucket.wait_for(30, kNow), 100 * kMilli);
  bucket.take(30, kNow + 100 * kMilli);
  EXPECT_EQ(bucket.available(kNow + 100 * kMilli), 0U);
  EXPECT_EQ(bucket.wait_for(1, kNow + 100 * kMilli), 2100 * kMilli);
  EXPECT_EQ(bucket.available(kNow + 2 * kSecond), 0U);
  bucket.give_back(30, kNow + 100 * kMilli);
  EXPECT_EQ(bucket.available(kNow + 100 * kMilli), 10U);
}

TEST(TokenBucket, AClockThatStepsBackGivesNothing) {
  TokenBucket bucket(10, 10);
  bucket.take(10, kNow);
  EXPECT_EQ(bucket.wait_for(1, kNow - 500 * kSecond), 100 * kMilli);
  EXPECT_EQ(bucket.available(kNow - 500 * kSecond), 0U);
  bucket.give_back(1, kNow - 500 * kSecond);
  EXPECT_EQ(bucket.available(kNow), 1U);
}

TEST(TokenBucket, TheLargestNumbersDoNotWrap) {
  TokenBucket bucket(1, TokenBucket::kMax);
  bucket.take(TokenBucket::kMax, 0);
  bucket.take(TokenBucket::kMax, 0);
  EXPECT_EQ(bucket.available(0), 0U);
  EXPECT_EQ(bucket.wait_for(TokenBucket::kMax, 0), kAfterEnd - 1);
  TokenBucket quick(TokenBucket::kMax, 1);
  quick.take(1, std::numeric_limits<env::Nanos>::min() + 1);
  EXPECT_EQ(quick.available(std::numeric_limits<env::Nanos>::max()), 1U);
}

TEST(Admission, OperationsInFlightOfDeviceAndNode) {
  Admission admission = make({.node = {.ops_in_flight = 3}, .device = {.ops_in_flight = 2}});
  EXPECT_EQ(why(admission, 0, 5, kNow), Refusal::kNone);
  EXPECT_EQ(why(admission, 0, 5, kNow), Refusal::kNone);
  const Admitted third = admission.try_begin(0, 5, kNow);
  EXPECT_EQ(third.why, Refusal::kInFlight);
  EXPECT_EQ(third.again, kAfterEnd);
  EXPECT_EQ(why(admission, 1, 5, kNow), Refusal::kNone);
  EXPECT_EQ(why(admission, 1, 5, kNow), Refusal::kInFlight);  // the node's
  EXPECT_TRUE(admission.end(0, 5, true, kNow));
  EXPECT_EQ(why(admission, 1, 5, kNow), Refusal::kNone);
  EXPECT_EQ(admission.node_counts().refused, 2U);
  EXPECT_EQ(admission.device_counts(0).refused, 1U);
}

TEST(Admission, BytesInFlightAndOneLargerAlone) {
  Admission admission = make({.device = {.bytes_in_flight = 10}});
  EXPECT_EQ(why(admission, 0, 50, kNow), Refusal::kNone);
  EXPECT_EQ(why(admission, 0, 1, kNow), Refusal::kInFlight);
  EXPECT_TRUE(admission.end(0, 50, true, kNow));
  EXPECT_EQ(why(admission, 0, 6, kNow), Refusal::kNone);
  EXPECT_EQ(why(admission, 0, 5, kNow), Refusal::kInFlight);
  EXPECT_EQ(why(admission, 0, 4, kNow), Refusal::kNone);
  EXPECT_EQ(why(admission, 0, 0, kNow), Refusal::kInFlight);  // full
}

TEST(Admission, RatesOfNodeAndDeviceAndAnExactTime) {
  Admission admission = make({.node = {.bytes_per_s = 10 * kMiB, .bytes_burst = 4 * kMiB},
                              .device = {.ops_per_s = 4, .ops_burst = 2}});
  EXPECT_EQ(why(admission, 0, kMiB, kNow), Refusal::kNone);
  EXPECT_EQ(why(admission, 0, kMiB, kNow), Refusal::kNone);
  const Admitted refused = admission.try_begin(0, kMiB, kNow);
  EXPECT_EQ(refused.why, Refusal::kRate);
  EXPECT_EQ(refused.again, kNow + 250 * kMilli);
  EXPECT_EQ(why(admission, 1, 2 * kMiB, kNow), Refusal::kNone);
  const Admitted node = admission.try_begin(1, kMiB, kNow);
  EXPECT_EQ(node.why, Refusal::kRate);
  EXPECT_EQ(node.again, kNow + 100 * kMilli);
  EXPECT_EQ(why(admission, 1, kMiB, node.again - 1), Refusal::kRate);
  EXPECT_EQ(why(admission, 1, kMiB, node.again), Refusal::kNone);
}

TEST(Admission, ARefusalTakesNoToken) {
  Admission admission =
      make({.node = {.ops_per_s = 1, .ops_burst = 2}, .device = {.ops_in_flight = 1}});
  EXPECT_EQ(why(admission, 0, 1, kNow), Refusal::kNone);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(why(admission, 0, 1, kNow), Refusal::kInFlight);
  EXPECT_EQ(why(admission, 1, 1, kNow), Refusal::kNone);
  EXPECT_EQ(why(admission, 2, 1, kNow), Refusal::kRate);
}

TEST(Admission, WhatWasGivenBackNeverHappened) {
  Admission admission = make({.node = {.ops_per_s = 1, .ops_burst = 1},
                              .device = {.bytes_per_s = 1, .bytes_burst = 7},
                              .errors_max = 1});
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(why(admission, 0, 7, kNow), Refusal::kNone);
    ASSERT_TRUE(admission.give_back(0, 7, kNow));
  }
  EXPECT_EQ(admission.node_counts().ops_in_flight, 0U);
  EXPECT_EQ(admission.node_counts().bytes_in_flight, 0U);
  EXPECT_FALSE(admission.give_back(0, 7, kNow));
}

TEST(Admission, AnEndWithoutABeginChangesNothing) {
  Admission admission = make({.errors_max = 1});
  EXPECT_FALSE(admission.end(0, 1, false, kNow));
  EXPECT_FALSE(admission.end(64, 1, false, kNow));
  EXPECT_EQ(why(admission, 0, 5, kNow), Refusal::kNone);
  EXPECT_FALSE(admission.end(0, 6, false, kNow));
  EXPECT_FALSE(admission.end(1, 5, false, kNow));
  EXPECT_FALSE(admission.is_paused(0));
  EXPECT_EQ(admission.device_counts(0).bytes_in_flight, 5U);
}

// Begins and ends one operation.
void once(Admission& admission, std::uint32_t device, bool ok, env::Nanos now) {
  ASSERT_EQ(why(admission, device, 1, now), Refusal::kNone);
  ASSERT_TRUE(admission.end(device, 1, ok, now));
}

TEST(Admission, ADeviceThatFailsPausesAndIsProbedByOne) {
  Admission admission = make({});
  once(admission, 0, false, kNow);
  once(admission, 0, false, kNow);
  once(admission, 0, true, kNow);  // not in a row
  once(admission, 0, false, kNow);
  once(admission, 0, false, kNow);
  EXPECT_FALSE(admission.is_paused(0));
  once(admission, 0, false, kNow);
  EXPECT_TRUE(admission.is_paused(0));
  const Admitted refused = admission.try_begin(0, 1, kNow + kSecond - 1);
  EXPECT_EQ(refused.why, Refusal::kPaused);
  EXPECT_EQ(refused.again, kNow + kSecond);
  once(admission, 1, true, kNow);  // the others go on

  env::Nanos now = kNow + kSecond;
  EXPECT_EQ(why(admission, 0, 1, now), Refusal::kNone);
  const Admitted second = admission.try_begin(0, 1, now);
  EXPECT_EQ(second.why, Refusal::kProbing);
  EXPECT_EQ(second.again, kAfterEnd);
  now += 10 * kMilli;
  EXPECT_TRUE(admission.end(0, 1, false, now));
  EXPECT_EQ(why(admission, 0, 1, now + kSecond - 1), Refusal::kPaused);
  once(admission, 0, true, now + kSecond);
  EXPECT_FALSE(admission.is_paused(0));
  once(admission, 0, false, now + kSecond);  // the count is from zero again
  EXPECT_FALSE(admission.is_paused(0));
  EXPECT_EQ(admission.device_counts(0).pauses, 2U);
  EXPECT_EQ(admission.device_counts(0).errors, 7U);
  EXPECT_EQ(admission.node_counts().errors, 7U);
}

TEST(Admission, AProbeThatNeverWentLetsAnotherGo) {
  Admission admission = make({.errors_max = 1});
  once(admission, 0, false, kNow);
  EXPECT_EQ(why(admission, 0, 1, kNow + kSecond), Refusal::kNone);
  EXPECT_TRUE(admission.give_back(0, 1, kNow + kSecond));
  EXPECT_TRUE(admission.is_paused(0));
  EXPECT_EQ(why(admission, 0, 1, kNow + kSecond), Refusal::kNone);
  EXPECT_EQ(why(admission, 0, 1, kNow + kSecond), Refusal::kProbing);
}

TEST(Admission, LateEndsOfAPausedDevice) {
  Admission admission = make({.errors_max = 1});
  for (int i = 0; i < 4; ++i) ASSERT_EQ(why(admission, 0, 1, kNow), Refusal::kNone);
  admission.end(0, 1, false, kNow);
  admission.end(0, 1, false, kNow + kSecond / 2);  // of the same trouble: one pause, but longer
  EXPECT_EQ(admission.device_counts(0).pauses, 1U);
  EXPECT_EQ(why(admission, 0, 1, kNow + kSecond), Refusal::kPaused);
  admission.end(0, 1, true, kNow + kSecond);  // it answers
  EXPECT_FALSE(admission.is_paused(0));
}

TEST(Admission, ForgivesAndNeverPausesWithZero) {
  Admission admission = make({.errors_max = 1});
  once(admission, 0, false, kNow);
  admission.forgive(0);
  admission.forgive(64);
  once(admission, 0, true, kNow);
  Admission never = make({.errors_max = 0});
  for (int i = 0; i < 100; ++i) once(never, 0, false, kNow);
  EXPECT_EQ(never.node_counts().pauses, 0U);
}

// ---- against a record of everything that ever began ----

struct Begun {
  std::uint64_t bytes;
  env::Nanos at;
};

// In any window, no more than the burst and the rate allow (with the largest one on top).
void check_rate(const std::vector<Begun>& all, std::uint64_t ops_per_s, std::uint64_t burst) {
  for (std::size_t first = 0; first < all.size(); first += 7) {
    for (std::size_t last = first; last < all.size(); last += 5) {
      const auto passed = static_cast<double>(all[last].at - all[first].at);
      const double most =
          static_cast<double>(burst) + static_cast<double>(ops_per_s) * passed / 1e9;
      ASSERT_LE(static_cast<double>(last - first + 1), most + 1e-6);
    }
  }
}

void play(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t end) { return random() % end; };
  const AdmissionOptions options{
      .node = {.ops_per_s = 50 + below(200), .ops_burst = 1 + below(8), .ops_in_flight = 6},
      .device = {.ops_per_s = 100, .ops_burst = 5, .bytes_in_flight = 100},
      .devices_max = 3,
      .errors_max = 3,
      .pause = 20 * kMilli};
  Admission admission = make(options);
  std::vector<std::pair<std::uint32_t, std::uint64_t>> in_flight;
  std::vector<Begun> begun;
  std::array<std::uint64_t, 3> bytes{};
  env::Nanos now = kNow;
  for (int step = 0; step < 6000; ++step) {
    now += static_cast<env::Nanos>(below(4 * kMilli));
    if (below(2) == 0) {
      const auto device = static_cast<std::uint32_t>(below(3));
      const std::uint64_t size = 1 + below(120);
      const Admitted answer = admission.try_begin(device, size, now);
      if (answer.ok()) {
        in_flight.emplace_back(device, size);
        ASSERT_TRUE(bytes[device] == 0 || bytes[device] + size <= 100);
        bytes[device] += size;
        begun.push_back({size, now});
      } else {
        ASSERT_GT(answer.again, now);
        // With nothing else going on, the promised time is kept.
        Admission alone = admission;
        const bool timed = answer.again != kAfterEnd;
        if (timed && answer.why == Refusal::kRate) {
          ASSERT_EQ(why(alone, device, size, answer.again - 1), Refusal::kRate);
          ASSERT_EQ(why(alone, device, size, answer.again), Refusal::kNone);
        }
        ASSERT_TRUE(timed || !in_flight.empty());
      }
    } else if (!in_flight.empty()) {
      const auto at = in_flight.begin() + static_cast<std::ptrdiff_t>(below(in_flight.size()));
      const auto [device, size] = *at;
      in_flight.erase(at);
      bytes[device] -= size;
      ASSERT_TRUE(admission.end(device, size, below(3) != 0, now));
    }
    ASSERT_LE(in_flight.size(), 6U);
    ASSERT_EQ(admission.node_counts().ops_in_flight, in_flight.size());
    for (std::uint32_t d = 0; d < 3; ++d) {
      ASSERT_EQ(admission.device_counts(d).bytes_in_flight, bytes[d]);
    }
  }
  EXPECT_GT(begun.size(), 500U);
  check_rate(begun, options.node.ops_per_s, options.node.ops_burst);
}

TEST(Admission, KeepsItsLimitsInAnyWindow) {
  const auto seeds = env::test_seeds(8);
  for (std::uint64_t seed = seeds.first; seed != seeds.end(); ++seed) {
    SCOPED_TRACE(env::seed_trace(seed, "tier_cold_test", "Admission.KeepsItsLimitsInAnyWindow"));
    play(seed);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace larder::tier
