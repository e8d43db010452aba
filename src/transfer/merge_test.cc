// SPDX-License-Identifier: Apache-2.0
#include "transfer/merge.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace larder::transfer {

static void PrintTo(const MergedRun& run, std::ostream* out) {
  *out << run.first << ".." << run.last << " of " << run.bytes;
}

namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

// Requests one behind the other, of 100 bytes each.
std::vector<MergeItem> chain(std::size_t count) {
  std::vector<MergeItem> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i].local_address = 1000 + i * 100;
    out[i].target_offset = 5000 + i * 100;
    out[i].length = 100;
  }
  return out;
}

std::vector<MergedRun> runs_of(const std::vector<MergeItem>& items,
                               std::uint64_t bytes_max = kMax) {
  std::vector<MergedRun> out;
  MergedRuns runs(items, bytes_max);
  while (const auto run = runs.next()) out.push_back(*run);
  return out;
}

// Each makes an item one that may not join its neighbours.
struct Difference {
  std::string_view what;
  std::function<void(MergeItem&)> make;
};

const std::vector<Difference>& differences() {
  static const std::vector<Difference> all = {
      {"opcode", [](MergeItem& item) { item.opcode = Opcode::kWrite; }},
      {"staged", [](MergeItem& item) { item.staged = true; }},
      {"intent", [](MergeItem& item) { item.intent = Intent::kCheckpoint; }},
      {"class", [](MergeItem& item) { item.traffic_class = TrafficClass::kHigh; }},
      {"hint", [](MergeItem& item) { item.hint = TransportType::kTcp; }},
      {"transport", [](MergeItem& item) { item.transport = TransportType::kShm; }},
      {"rule", [](MergeItem& item) { item.rule = 3; }},
      {"tenant", [](MergeItem& item) { item.tenant = 7; }},
      {"deadline", [](MergeItem& item) { item.deadline = 1; }},
      {"target", [](MergeItem& item) { item.target.value = 9; }},
      {"local buffer", [](MergeItem& item) { item.local_buffer = 4; }},
      {"target buffer", [](MergeItem& item) { item.target_buffer = 4; }},
  };
  return all;
}

TEST(Merge, NothingOfNothing) {
  EXPECT_TRUE(runs_of({}).empty());
}

TEST(Merge, NeighboursInBothPlacesAreOneRun) {
  EXPECT_EQ(runs_of(chain(1)), (std::vector<MergedRun>{{0, 0, 100}}));
  EXPECT_EQ(runs_of(chain(5)), (std::vector<MergedRun>{{0, 4, 500}}));
  EXPECT_EQ(runs_of(chain(5)).front().count(), 5u);
}

TEST(Merge, AGapInOnePlaceSeparates) {
  auto items = chain(3);
  items[1].local_address += 1;
  EXPECT_EQ(runs_of(items), (std::vector<MergedRun>{{0, 0, 100}, {1, 1, 100}, {2, 2, 100}}));
  items = chain(3);
  items[2].target_offset -= 1;
  EXPECT_EQ(runs_of(items), (std::vector<MergedRun>{{0, 1, 200}, {2, 2, 100}}));
}

TEST(Merge, OnlyConsecutiveRequestsAndOnlyForwards) {
  auto items = chain(3);
  std::swap(items[0], items[2]);
  EXPECT_EQ(runs_of(items).size(), 3u);
  items = chain(2);
  items[1] = items[0];  // the same bytes twice
  EXPECT_EQ(runs_of(items).size(), 2u);
}

TEST(Merge, EveryDifferenceSeparates) {
  for (const Difference& difference : differences()) {
    auto items = chain(3);
    difference.make(items[1]);
    EXPECT_EQ(runs_of(items), (std::vector<MergedRun>{{0, 0, 100}, {1, 1, 100}, {2, 2, 100}}))
        << difference.what;
  }
}

TEST(Merge, TheTraceDoesNotSeparate) {
  auto items = chain(3);
  items[1].trace_id = 77;
  EXPECT_EQ(runs_of(items), (std::vector<MergedRun>{{0, 2, 300}}));
}

TEST(Merge, BytesAreLimitedButOneRequestIsNeverCut) {
  EXPECT_EQ(runs_of(chain(5), 250),
            (std::vector<MergedRun>{{0, 1, 200}, {2, 3, 200}, {4, 4, 100}}));
  EXPECT_EQ(runs_of(chain(4), 200), (std::vector<MergedRun>{{0, 1, 200}, {2, 3, 200}}));
  EXPECT_EQ(runs_of(chain(2), 99), (std::vector<MergedRun>{{0, 0, 100}, {1, 1, 100}}));
  EXPECT_EQ(runs_of(chain(2), 0).size(), 2u);
}

TEST(Merge, EmptyRequestsJoinNothing) {
  auto items = chain(3);
  items[1].length = 0;
  items[2].local_address = items[1].local_address;
  items[2].target_offset = items[1].target_offset;
  EXPECT_EQ(runs_of(items), (std::vector<MergedRun>{{0, 0, 100}, {1, 1, 0}, {2, 2, 100}}));
}

TEST(Merge, NoSumWraps) {
  auto items = chain(2);
  items[0].local_address = kMax - 99;  // ends at 2^64, which is where the next one seems to be
  items[1].local_address = 0;
  EXPECT_EQ(runs_of(items).size(), 2u);
  items = chain(2);
  items[0].length = kMax - 10;  // both together do not fit in 64 bits
  items[1].local_address = items[0].local_address + items[0].length;
  items[1].target_offset = items[0].target_offset + items[0].length;
  EXPECT_EQ(runs_of(items).size(), 2u);
  items = chain(2);
  items[1].length = kMax;
  EXPECT_EQ(runs_of(items).size(), 2u);
}

// ---------------------------------------------------------------------- properties

std::vector<MergeItem> make_items(std::mt19937_64& random) {
  std::vector<MergeItem> items(random() % 60);
  std::uint64_t local = 1 << 20;
  std::uint64_t target = 1 << 30;
  const bool mixed = random() % 4 == 0;
  for (MergeItem& item : items) {
    if (random() % 8 == 0) local += 1 + random() % 3;
    if (random() % 8 == 0) target -= random() % 3;
    item.local_address = local;
    item.target_offset = target;
    item.length = random() % 16 == 0 ? 0 : 1 + random() % 50;
    item.trace_id = random();
    local += item.length;
    target += item.length;
    for (const Difference& difference : differences()) {
      if (random() % (mixed ? 4 : 64) == 0) difference.make(item);
    }
  }
  return items;
}

// Written apart from `continues`: field by field, as a reviewer would list them.
bool may_join(const MergeItem& a, const MergeItem& b) {
  return a.opcode == b.opcode && a.traffic_class == b.traffic_class && a.intent == b.intent &&
         a.rule == b.rule && a.tenant == b.tenant && a.deadline == b.deadline &&
         a.local_buffer == b.local_buffer && a.target_buffer == b.target_buffer &&
         a.hint == b.hint && a.transport == b.transport && a.staged == b.staged &&
         a.target == b.target && a.length > 0 && b.length > 0 &&
         a.local_address + a.length == b.local_address &&
         a.target_offset + a.length == b.target_offset;
}

void check_run(const std::vector<MergeItem>& items, const MergedRun& run, std::uint64_t bytes_max) {
  ASSERT_LE(run.first, run.last);
  ASSERT_LT(run.last, items.size());
  std::uint64_t bytes = items[run.first].length;
  for (std::size_t i = run.first + 1; i <= run.last; ++i) {
    ASSERT_TRUE(may_join(items[i - 1], items[i])) << i - 1 << " and " << i;
    bytes += items[i].length;
  }
  ASSERT_EQ(run.bytes, bytes);
  ASSERT_TRUE(run.first == run.last || bytes <= bytes_max);
  if (run.last + 1 == items.size()) return;
  const bool longer = may_join(items[run.last], items[run.last + 1]) &&
                      bytes + items[run.last + 1].length <= bytes_max;
  ASSERT_FALSE(longer) << "the run could have gone on";
}

TEST(Merge, PropertiesHoldForManySeeds) {
  constexpr std::uint64_t kSeed = 20250102;
  constexpr int kRounds = 10'000;
  std::mt19937_64 random(kSeed);
  std::size_t joined = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    const auto items = make_items(random);
    const std::uint64_t bytes_max = random() % 3 == 0 ? kMax : 1 + random() % 200;
    std::size_t next = 0;
    for (const MergedRun& run : runs_of(items, bytes_max)) {
      ASSERT_EQ(run.first, next) << "every request once, in order";
      check_run(items, run, bytes_max);
      if (testing::Test::HasFatalFailure()) return;
      next = run.last + 1;
      joined += run.count() - 1;
    }
    ASSERT_EQ(next, items.size());
  }
  EXPECT_GT(joined, 10'000u) << "the cases are worth something";
}

}  // namespace
}  // namespace larder::transfer
