// SPDX-License-Identifier: Apache-2.0
#include "apps/replay/ideal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <random>

#include "apps/demo_trace.h"
#include "apps/replay/session.h"
#include "apps/replay/trace.h"

namespace larder::apps {
namespace {

using Ids = std::vector<std::uint64_t>;

TEST(IdealLru, CountsOnlyThePrefix) {
  IdealLru lru(10);
  EXPECT_EQ(lru.play(Ids{1, 2, 3}), 0U);
  EXPECT_EQ(lru.play(Ids{1, 2, 9, 3}), 2U);  // 3 is there, but behind a hole
  EXPECT_EQ(lru.play(Ids{7, 1, 2}), 0U);
  EXPECT_EQ(lru.play(Ids{}), 0U);
  EXPECT_EQ(lru.asked(), 10U);
  EXPECT_EQ(lru.hits(), 2U);
  EXPECT_DOUBLE_EQ(lru.hit_rate(), 0.2);
}

TEST(IdealLru, ForgetsTheLeastRecentlyTouched) {
  IdealLru lru(3);
  lru.play(Ids{1, 2, 3});
  EXPECT_EQ(lru.play(Ids{1}), 1U);  // now 2 is the oldest
  lru.play(Ids{4});
  EXPECT_EQ(lru.play(Ids{2}), 0U);  // takes the place of 3
  EXPECT_EQ(lru.play(Ids{3}), 0U);  // takes the place of 1
  EXPECT_EQ(lru.play(Ids{4}), 1U);
  EXPECT_EQ(lru.size(), 3U);
}

TEST(IdealLru, ARequestBeyondTheCapacityKeepsItsTail) {
  IdealLru lru(2);
  EXPECT_EQ(lru.play(Ids{1, 2, 3}), 0U);
  EXPECT_EQ(lru.play(Ids{1}), 0U);
  EXPECT_EQ(lru.play(Ids{3}), 1U);
  EXPECT_EQ(lru.size(), 2U);
}

TEST(IdealLru, NothingFitsInNothing) {
  IdealLru lru(0);
  EXPECT_EQ(lru.play(Ids{1}), 0U);
  EXPECT_EQ(lru.play(Ids{1}), 0U);
  EXPECT_EQ(lru.size(), 0U);
}

// The same rules, written as plainly as can be.
std::uint64_t plain(std::deque<std::uint64_t>& held, std::size_t capacity, const Ids& ids) {
  std::uint64_t hits = 0;
  while (hits < ids.size() && std::count(held.begin(), held.end(), ids[hits]) > 0) ++hits;
  for (const auto id : ids) {
    held.erase(std::remove(held.begin(), held.end(), id), held.end());
    held.push_back(id);
    if (held.size() > capacity) held.pop_front();
  }
  return hits;
}

TEST(IdealLru, AgreesWithThePlainOne) {
  std::mt19937_64 dice(5);
  for (const std::size_t capacity : {1, 2, 5, 17}) {
    IdealLru lru(capacity);
    std::deque<std::uint64_t> held;
    for (int round = 0; round < 2000; ++round) {
      if (dice() % 4 == 0) {
        const std::uint64_t id = dice() % 24;
        lru.forget(id);
        std::erase(held, id);
      }
      Ids ids(dice() % 8);
      for (auto& id : ids) id = dice() % 24;
      ASSERT_EQ(lru.play(ids), plain(held, capacity, ids));
      ASSERT_EQ(lru.size(), held.size());
    }
  }
}

TEST(DemoTrace, IsTheSameForTheSameSeedAndWorthCaching) {
  const auto trace = make_demo_trace({});
  const auto again = make_demo_trace({});
  ASSERT_EQ(trace.size(), 2000U);
  for (std::size_t i = 0; i < trace.size(); ++i) ASSERT_EQ(trace[i].ids, again[i].ids);
  EXPECT_NE(make_demo_trace({.seed = 1})[5].ids, trace[5].ids);
  TraceVector source(trace);
  const auto survey = survey_trace(source, 4096);
  ASSERT_TRUE(survey);
  EXPECT_EQ(survey->requests, 2000U);
  const double rate = static_cast<double>(survey->ideal_hits) / static_cast<double>(survey->blocks);
  EXPECT_GT(rate, 0.5);
  EXPECT_LT(rate, 0.98);
  std::uint64_t last = 0;
  for (const auto& request : trace) {
    EXPECT_GE(request.timestamp_ms, last);
    last = request.timestamp_ms;
  }
  EXPECT_TRUE(make_demo_trace({.open_conversations = 0}).empty());
}

// Figures of the published traces, found independently of this code.
struct Known {
  const char* file;
  std::uint64_t requests;
  std::uint64_t blocks;
  std::uint64_t capacity;
  int percent;
};

TEST(IdealLru, KnownFiguresOfTheRealTraces) {
  const char* directory = std::getenv("LARDER_TRACES");
  if (directory == nullptr) {
    std::cerr << "SKIPPED: set LARDER_TRACES to the folder of the published *_trace.jsonl files\n";
    GTEST_SKIP() << "LARDER_TRACES is not set: the real traces were NOT checked";
  }
  const Known known[] = {
      {"conversation_trace.jsonl", 12031, 288500, 1000, 4},
      {"conversation_trace.jsonl", 12031, 288500, 10000, 21},
      {"conversation_trace.jsonl", 12031, 288500, 100000, 36},
      {"synthetic_trace.jsonl", 3993, 121877, 1000, 8},
      {"synthetic_trace.jsonl", 3993, 121877, 10000, 42},
      {"synthetic_trace.jsonl", 3993, 121877, 100000, 64},
  };
  for (const auto& k : known) {
    auto reader = TraceReader::open(std::string(directory) + '/' + k.file, {});
    ASSERT_TRUE(reader) << reader.error().message();
    const auto survey = survey_trace(**reader, k.capacity);
    ASSERT_TRUE(survey) << survey.error().message();
    EXPECT_EQ(survey->requests, k.requests);
    EXPECT_EQ(survey->blocks, k.blocks);
    const double rate =
        100.0 * static_cast<double>(survey->ideal_hits) / static_cast<double>(survey->blocks);
    EXPECT_NEAR(rate, k.percent, 0.75) << k.file << ' ' << k.capacity;
  }
}

}  // namespace
}  // namespace larder::apps
