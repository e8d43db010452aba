// SPDX-License-Identifier: Apache-2.0
#include "apps/replay/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/demo_trace.h"
#include "apps/replay/ideal.h"

namespace larder::apps {
namespace {

// A store in a map, shared by the workers, that can be made to misbehave.
struct Shelf {
  std::mutex mutex;
  std::map<std::string, std::vector<std::byte>, std::less<>> values;
  std::function<void(std::string_view key, GetResult&, MutableBytes)> on_get;
  std::function<Code(std::string_view key)> on_put;
  std::function<Result<void>()> on_call;
  std::size_t largest_batch = 0;
};

class FakeStore final : public BlockStore {
 public:
  explicit FakeStore(Shelf& shelf) : shelf_(shelf) {}

  Result<std::size_t> match_prefix(Keys keys) override {
    const std::scoped_lock lock(shelf_.mutex);
    if (shelf_.on_call) LARDER_TRY(shelf_.on_call());
    std::size_t found = 0;
    while (found < keys.size() && shelf_.values.contains(keys[found])) ++found;
    return found;
  }
  Result<std::vector<GetResult>> get(Keys keys, std::uint64_t block, MutableBytes out) override {
    const std::scoped_lock lock(shelf_.mutex);
    shelf_.largest_batch = std::max(shelf_.largest_batch, keys.size());
    std::vector<GetResult> results(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto found = shelf_.values.find(keys[i]);
      if (found == shelf_.values.end()) {
        results[i].code = Code::kNotFound;
        continue;
      }
      const auto to = out.subspan(i * block, block);
      std::memcpy(to.data(), found->second.data(), found->second.size());
      results[i].code = Code::kOk;
      results[i].size = found->second.size();
      if (shelf_.on_get) shelf_.on_get(keys[i], results[i], to);
    }
    return results;
  }
  Result<std::vector<PutResult>> put(Keys keys, std::uint64_t block, ConstBytes in) override {
    const std::scoped_lock lock(shelf_.mutex);
    shelf_.largest_batch = std::max(shelf_.largest_batch, keys.size());
    EXPECT_EQ(std::set<std::string_view>(keys.begin(), keys.end()).size(), keys.size());
    std::vector<PutResult> results(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      results[i].code = shelf_.on_put ? shelf_.on_put(keys[i]) : Code::kOk;
      if (results[i].code != Code::kOk) continue;
      const auto from = in.subspan(i * block, block);
      const auto [at, fresh] =
          shelf_.values.try_emplace(std::string(keys[i]), from.begin(), from.end());
      results[i].already_stored = !fresh;
    }
    return results;
  }
  Result<MutableBytes> buffer(std::uint64_t bytes) override {
    memory_.resize(bytes);
    return MutableBytes(memory_);
  }

 private:
  Shelf& shelf_;
  std::vector<std::byte> memory_;
};

class ReplayConcurrent : public testing::Test {
 protected:
  Result<ReplayReport> play(std::vector<TraceRequest> requests, std::size_t workers = 1) {
    requests_ = std::move(requests);
    TraceVector source(requests_);
    std::vector<std::unique_ptr<BlockStore>> stores;
    for (std::size_t i = 0; i < workers; ++i) stores.push_back(std::make_unique<FakeStore>(shelf_));
    Replay replay(settings_, source);
    return replay.run(std::move(stores));
  }
  static TraceRequest request(std::vector<std::uint64_t> ids, std::uint64_t ms = 0) {
    return {ms, 0, 0, std::move(ids)};
  }

  Shelf shelf_;
  ReplaySettings settings_{.block_bytes = 1000, .batch_bytes = 3000};
  std::vector<TraceRequest> requests_;
};

TEST_F(ReplayConcurrent, CountsHitsMissesAndBytes) {
  const auto report = play({request({1, 2, 3, 4, 5}), request({1, 2, 9, 4}), request({})});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->requests, 3U);
  EXPECT_EQ(report->blocks, 9U);
  EXPECT_EQ(report->hits, 2U);
  EXPECT_EQ(report->stored, 6U);
  EXPECT_EQ(report->already_stored, 1U);  // 4, behind the hole
  EXPECT_EQ(report->got_bytes, 2000U);
  EXPECT_EQ(report->put_bytes, 6000U);
  EXPECT_EQ(report->bytes_saved(), 2000U);
  EXPECT_EQ(report->wrong_bytes, 0U);
  EXPECT_EQ(report->errors, 0U);
  EXPECT_EQ(shelf_.largest_batch, 3U);
  ASSERT_EQ(report->operations.size(), 3U);
  EXPECT_EQ(report->operations[0].calls, 2U);
  EXPECT_GE(report->operations[0].max_us, report->operations[0].p50_us);
}

TEST_F(ReplayConcurrent, AnIdTwiceInARequestIsPutOnce) {
  const auto report = play({request({1, 1, 2, 1, 2, 3, 1, 4})});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->stored, 4U);
}

TEST_F(ReplayConcurrent, FindsEveryWrongByte) {
  shelf_.on_get = [](std::string_view, GetResult&, MutableBytes bytes) {
    bytes[17] ^= std::byte{1};
    bytes[999] ^= std::byte{128};
  };
  const auto report = play({request({1, 2}), request({1, 2})});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->wrong_bytes, 4U);
  EXPECT_EQ(report->wrong_blocks, 2U);
  EXPECT_NE(report->first_error.find("the first at 17"), std::string::npos) << report->first_error;
}

TEST_F(ReplayConcurrent, AShortBlockIsWrong) {
  shelf_.on_get = [](std::string_view, GetResult& result, MutableBytes) { result.size = 999; };
  const auto report = play({request({1}), request({1})});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->wrong_bytes, 1000U);
}

TEST_F(ReplayConcurrent, EvictedBetweenLookAndGetIsAMissAndPutAgain) {
  const std::string gone = BlockContent(0).key(2);
  shelf_.on_get = [&](std::string_view key, GetResult& result, MutableBytes bytes) {
    if (key != gone) return;
    result.code = Code::kNotFound;
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
  };
  const auto report = play({request({1, 2, 3, 4, 5}), request({1, 2, 3, 4, 5})});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->hits, 1U);  // the prefix ends where a block is gone
  EXPECT_EQ(report->evicted_between, 1U);
  EXPECT_EQ(report->got_bytes, 4000U);  // what came is checked all the same
  EXPECT_EQ(report->already_stored, 4U);
  EXPECT_EQ(report->wrong_bytes, 0U);
}

TEST_F(ReplayConcurrent, BackPressureIsCountedAndOtherErrorsAreKept) {
  shelf_.on_put = [n = 0](std::string_view) mutable {
    ++n;
    return n == 1 ? Code::kBackpressure : n == 2 ? Code::kTooLarge : Code::kOk;
  };
  const auto report = play({request({1, 2, 3})});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->backpressure, 1U);
  EXPECT_EQ(report->errors, 1U);
  EXPECT_EQ(report->first_error.find("put of block 2: too_large"), 0U) << report->first_error;
  EXPECT_EQ(report->stored, 1U);
}

TEST_F(ReplayConcurrent, AStoreThatWentAwayEndsAllWorkers) {
  shelf_.on_call = [n = 0]() mutable -> Result<void> {
    if (++n > 50) return fail(Code::kUnavailable, "gone");
    return {};
  };
  const auto report = play(make_demo_trace({}), 4);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Code::kUnavailable);
}

TEST_F(ReplayConcurrent, AStopEndsEarlyWithWhatThereIs) {
  std::atomic<int> stop{0};
  settings_.stop = &stop;
  shelf_.on_call = [&, n = 0]() mutable -> Result<void> {
    if (++n == 10) stop = 2;
    return {};
  };
  const auto report = play(make_demo_trace({}), 2);
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->interrupted);
  EXPECT_LE(report->requests, 12U);
  EXPECT_GE(report->requests, 9U);
}

TEST_F(ReplayConcurrent, OneWorkerWithRoomForAllMeetsTheIdeal) {
  const auto trace = make_demo_trace({.requests = 300});
  IdealLru ideal(1U << 20);
  for (const auto& r : trace) ideal.play(r.ids);
  const auto report = play(trace);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->hits, ideal.hits());
  EXPECT_EQ(report->blocks, ideal.asked());
}

TEST_F(ReplayConcurrent, ManyWorkersPlayEveryRequestOnce) {
  const auto trace = make_demo_trace({.requests = 500});
  const auto report = play(trace, 8);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->requests, 500U);
  EXPECT_EQ(report->workers, 8U);
  EXPECT_EQ(report->wrong_bytes, 0U);
  EXPECT_FALSE(report->interrupted);
}

TEST_F(ReplayConcurrent, KeepsTheTraceTimeScaled) {
  env::ManualClock clock;
  settings_.clock = &clock;
  settings_.speed = 100;
  const env::Nanos begin = clock.now();
  std::vector<env::Nanos> at;
  shelf_.on_call = [&]() -> Result<void> {
    at.push_back((clock.now() - begin) / env::kMilli);
    return {};
  };
  const auto report =
      play({request({1}, 0), request({2}, 5000), request({3}, 100000), request({4}, 90000)});
  ASSERT_TRUE(report);
  EXPECT_EQ(at, (std::vector<env::Nanos>{0, 50, 1000, 1000}));
}

TEST(ReplayReport, JsonHasTheDocumentedMembers) {
  ReplayReport report;
  report.trace = "bad \xff name";
  report.requests = 3;
  report.blocks = 8;
  report.hits = 2;
  report.ideal_hits = 4;
  report.block_bytes = 10;
  report.got_bytes = 100;
  report.seconds = 2;
  report.operations = {{"get", 5, 1, 2, 3, 4, 5}};
  const auto json = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(json["requests"], 3);
  EXPECT_EQ(json["blocks"], 8);
  EXPECT_EQ(json["hit_rate"], 0.25);
  EXPECT_EQ(json["ideal_hit_rate"], 0.5);
  EXPECT_EQ(json["wrong_bytes"], 0);
  EXPECT_EQ(json["bytes_saved"], 20);
  EXPECT_EQ(json["bytes_per_s"], 50.0);
  EXPECT_EQ(json["evictions"], 0);
  EXPECT_EQ(json["backpressure"], 0);
  EXPECT_EQ(json["latency"]["get"]["p999_us"], 4.0);
  EXPECT_NE(report_table(report).find("25.00%"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(report_json({}))["hit_rate"], 0.0);
}

}  // namespace
}  // namespace larder::apps
