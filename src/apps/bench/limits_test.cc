// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "env/temp_directory.h"

namespace larder::apps {
namespace {

TEST(Walk, VisitsEverySlotOncePerLap) {
  for (const std::size_t slots : {1U, 2U, 3U, 6U, 32U, 1000U}) {
    Walk walk(slots, 5);
    std::set<std::size_t> seen;
    for (std::size_t i = 0; i < slots; ++i) seen.insert(walk.next());
    EXPECT_EQ(seen.size(), slots);
    EXPECT_EQ(*seen.rbegin(), slots - 1);
  }
}

// What the transfer cases rely on: requests that follow each other must not be neighbours.
TEST(Walk, NeverGoesOnWhereItIsWithFourSlotsOrMore) {
  for (std::size_t slots = 4; slots < 300; ++slots) {
    Walk walk(slots, 1);
    std::size_t last = walk.next();
    for (std::size_t i = 0; i < 2 * slots; ++i) {
      const std::size_t now = walk.next();
      EXPECT_NE(now, last + 1) << slots;
      last = now;
    }
  }
}

TEST(Pattern, DependsOnTheSeedEverywhere) {
  std::vector<std::byte> one(1001);
  std::vector<std::byte> same(1001);
  std::vector<std::byte> other(1001);
  fill_pattern(one, 7);
  fill_pattern(same, 7);
  fill_pattern(other, 8);
  EXPECT_EQ(one, same);
  std::size_t equal = 0;
  for (std::size_t i = 0; i < one.size(); ++i) equal += one[i] == other[i] ? 1 : 0;
  EXPECT_LT(equal, 30U);
}

TEST(BareTable, FindsItsKeysAndNoOthers) {
  std::vector<std::string> text;
  for (int i = 0; i < 5000; ++i) text.push_back("key-" + std::to_string(i));
  const std::vector<std::string_view> keys(text.begin(), text.end());
  const BareTable table(keys);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(table.find(keys[i]), static_cast<std::int64_t>(i));
  }
  EXPECT_EQ(table.find("key-5000"), -1);
  EXPECT_EQ(table.find(""), -1);
}

TEST(CopyLimit, CountsWhatItCopies) {
  auto shared = Mapping::shared_memory(1 << 20).value();
  auto local = Mapping::private_memory(1 << 20).value();
  fill_pattern(shared.bytes(), 1);
  auto probe = make_copy_limit(CopyKind::kOut, 4096, 2, shared.bytes(), local.bytes()).value();
  const auto round = run_round(*probe, env::kMilli);
  ASSERT_TRUE(round);
  EXPECT_GT(round->bytes_per_s, 0);
  EXPECT_NEAR(round->bytes_per_s / round->items_per_s, 4096, 1);
  EXPECT_TRUE(
      std::equal(shared.bytes().begin(), shared.bytes().begin() + 4096, local.bytes().begin()));
  EXPECT_FALSE(make_copy_limit(CopyKind::kOut, 1 << 20, 2, shared.bytes(), local.bytes()));
}

class RawExchange : public testing::TestWithParam<BenchPath> {};

TEST_P(RawExchange, MovesBytesBothWaysAndReturnsToBlocking) {
  const auto peer = RawPeer::start(4 << 20).value();
  auto memory = Mapping::private_memory(4 << 20).value();
  for (const Wait wait : {Wait::kBlock, Wait::kSpin, Wait::kBrief}) {
    ExchangeShape shape;
    shape.path = GetParam();
    shape.wait = wait;
    shape.up_bytes = 100'000;
    shape.down_bytes = 3 << 20;
    shape.value_bytes = shape.down_bytes;
    auto probe = make_exchange_limit(*peer, shape, memory.bytes()).value();
    const auto round = run_round(*probe, env::kMilli);
    ASSERT_TRUE(round) << round.error().to_string();
    EXPECT_GT(round->items_per_s, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, RawExchange, testing::Values(BenchPath::kUnix, BenchPath::kTcp));

TEST(Stream, CountsValues) {
  const auto peer = RawPeer::start(4 << 20).value();
  auto memory = Mapping::private_memory(4 << 20).value();
  auto probe = make_stream_limit(*peer, BenchPath::kUnix, Wait::kBlock, Direction::kUp, 2, 1 << 20,
                                 memory.bytes())
                   .value();
  const auto round = run_round(*probe, env::kMilli);
  ASSERT_TRUE(round) << round.error().to_string();
  EXPECT_NEAR(round->bytes_per_s / round->items_per_s, 1 << 20, 1);
}

class DiskLimit : public testing::TestWithParam<DiskShape> {};

TEST_P(DiskLimit, CountsItsBlocks) {
  const auto directory = env::TempDirectory::create("disk-limit-test").value();
  const auto file = DiskFile::create(directory.path(), 1 << 20, 1).value();
  auto memory = Mapping::private_memory(1 << 20).value();
  auto probe = make_disk_limit(*file, GetParam(), memory.bytes()).value();
  for (int i = 0; i < 2; ++i) {
    const auto round = run_round(*probe, env::kMilli);
    ASSERT_TRUE(round) << round.error().to_string();
    EXPECT_GT(round->items_per_s, 0);
    EXPECT_NEAR(round->bytes_per_s / round->items_per_s, 8192, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, DiskLimit,
                         testing::Values(DiskShape{false, 8192, 1, 1, false},
                                         DiskShape{false, 8192, 8, 2, false},
                                         DiskShape{false, 8192, 8, 1, true},
                                         DiskShape{true, 8192, 8, 2, true}));

TEST(DiskLimit, SaysWhenThereIsNoRoomForItsBlocks) {
  const auto directory = env::TempDirectory::create("disk-limit-test").value();
  const auto file = DiskFile::create(directory.path(), 1 << 20, 1).value();
  auto memory = Mapping::private_memory(1 << 20).value();
  const auto probe = make_disk_limit(*file, {false, 1 << 20, 1, 2, false}, memory.bytes());
  ASSERT_FALSE(probe);
  EXPECT_NE(probe.error().message().find("--file-bytes"), std::string::npos);
}

class FakeProbe final : public Probe {
 public:
  FakeProbe(std::string name, std::uint64_t items) : name_(std::move(name)), items_(items) {}
  std::string name() const override { return name_; }
  std::uint64_t items_per_call() const override { return items_; }
  std::uint64_t bytes_per_call() const override { return 1; }
  Result<void> step(std::size_t) override { return {}; }
  Result<void> settle(std::size_t) override {
    ++settled;
    return {};
  }
  int settled = 0;

 private:
  std::string name_;
  std::uint64_t items_;
};

TEST(RunPair, TheBestLimitCountsAndSettleRunsBetweenSpans) {
  std::vector<ProbePtr> limits;
  limits.push_back(std::make_unique<FakeProbe>("slow", 1));
  limits.push_back(std::make_unique<FakeProbe>("fast", 1'000'000));
  FakeProbe ours("ours", 1);
  const auto pair = run_pair(limits, Measure::kThroughput, ours, Rhythm{3, 10 * env::kMicro});
  ASSERT_TRUE(pair) << pair.error().to_string();
  EXPECT_EQ(pair->limit_name, "fast");
  EXPECT_GT(ours.settled, 3);
}

}  // namespace
}  // namespace larder::apps
