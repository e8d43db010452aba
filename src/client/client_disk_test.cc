// SPDX-License-Identifier: Apache-2.0
// Clients of a node with a disk: what does not fit into DRAM comes from there, and nothing tells
// the difference but the time.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "client/disk_testing.h"

namespace larder::client {
namespace {

class ClientDiskTest : public testing::TestWithParam<Path>, protected DiskBed {
 protected:
  ClientDiskTest() : DiskBed(GetParam()) {}
  void TearDown() override { end(); }
};

// No put is refused, however far the disk is behind, and every value comes back.
TEST_P(ClientDiskTest, HoldsMoreThanDram) {
  start();
  put_many(0, kMore);
  for (std::uint64_t i = 0; i < kMore; ++i) {
    const auto got = client_->get(key(i));
    ASSERT_TRUE(got) << key(i) << ": " << words(got);
    ASSERT_TRUE(same(got->bytes(), make_value(i, kValue + i))) << key(i);
  }
}

// One call for all of them: several rounds, of which the caller sees nothing.
TEST_P(ClientDiskTest, OneCallForMoreThanDramHolds) {
  for (const char* promotion : {"on_hit", "never"}) {
    client_.reset();
    nodes_.node.reset();
    start(promotion);
    put_many(0, kMore);
    settle(kMore);
    std::vector<std::string> names;
    std::vector<Bytes> rooms;
    std::vector<MutableBytes> pieces;
    std::vector<GetItem> items;
    for (std::uint64_t i = 0; i < kMore; ++i) {
      names.push_back(i % 50 == 7 ? "no such key" : key(i));
      rooms.emplace_back(kValue + 1000);
    }
    for (Bytes& room : rooms) pieces.emplace_back(room);
    for (std::uint64_t i = 0; i < kMore; ++i) items.push_back({names[i], std::span(&pieces[i], 1)});
    const auto results = client_->get_into(items);
    ASSERT_TRUE(results) << words(results);
    for (std::uint64_t i = 0; i < kMore; ++i) {
      const GetResult& result = (*results)[i];
      if (i % 50 == 7) {
        EXPECT_EQ(result.code, Code::kNotFound);
        continue;
      }
      ASSERT_EQ(result.code, Code::kOk) << key(i) << ": " << result.message;
      ASSERT_EQ(result.size, kValue + i);
      ASSERT_TRUE(same(ConstBytes(rooms[i]).first(result.size), make_value(i, kValue + i))) << i;
    }
  }
}

TEST_P(ClientDiskTest, SaysWhereValuesAre) {
  start();
  put_many(0, kMore);
  settle(kMore);
  std::vector<std::string> names;
  for (std::uint64_t i = 0; i < kMore; ++i) names.push_back(key(i));
  names.emplace_back("no such key");
  std::vector<std::string_view> views(names.begin(), names.end());
  const auto match = client_->match_prefix(views);
  ASSERT_TRUE(match) << words(match);
  EXPECT_EQ(match->keys, kMore);
  ASSERT_EQ(match->tiers.size(), kMore);
  const auto count = [&](Tier tier) {
    return std::count(match->tiers.begin(), match->tiers.end(), tier);
  };
  EXPECT_GT(count(Tier::kCold), 100);
  EXPECT_GT(count(Tier::kHotAndCold), 20);
  EXPECT_EQ(match->sizes[3], kValue + 3);
  const auto present = client_->exists(views);
  ASSERT_TRUE(present);
  EXPECT_EQ(std::count(present->begin(), present->end(), true), kMore);
  EXPECT_EQ(tier_of(key(0)), Tier::kCold);
}

TEST_P(ClientDiskTest, APinBringsTheValueIntoDram) {
  start("never");
  put_many(0, kMore);
  settle(kMore);
  ASSERT_EQ(tier_of(key(0)), Tier::kCold);
  if (GetParam() == Path::kSharedMemory) {
    const auto view = client_->view(key(0));
    ASSERT_TRUE(view) << words(view);
    EXPECT_TRUE(same(view->bytes(), make_value(0, kValue)));
    EXPECT_EQ(tier_of(key(0)), Tier::kHotAndCold);
    return;
  }
  const auto pinned = client_->pin(key(0));
  ASSERT_TRUE(pinned) << words(pinned);
  EXPECT_EQ(tier_of(key(0)), Tier::kHotAndCold);
  ASSERT_TRUE(client_->unpin(key(0)));
}

TEST_P(ClientDiskTest, RemovedAndReplacedAreGoneAfterARestart) {
  start();
  put_many(0, kMore);
  settle(kMore);
  ASSERT_TRUE(client_->remove(key(0)));
  EXPECT_EQ(client_->get(key(0)).error().code(), Code::kNotFound);
  ASSERT_TRUE(client_->put(key(1), make_value(4711, kValue)));
  client_.reset();
  nodes_.node.reset();  // in good order: what is owed is written first
  start();
  ASSERT_TRUE(soon([&] { return client_->get(key(2)).has_value(); }));
  ASSERT_TRUE(soon([&] { return client_->get(key(1)).has_value(); }));
  EXPECT_TRUE(same(client_->get(key(1))->bytes(), make_value(4711, kValue)));
  ASSERT_TRUE(soon(
      [&] { return nodes_.node->metrics().find("larder_cold_scanning 0") != std::string::npos; }));
  EXPECT_EQ(client_->get(key(0)).error().code(), Code::kNotFound);
  for (std::uint64_t i = 2; i < kMore; ++i) {
    const auto got = client_->get(key(i));
    ASSERT_TRUE(got) << key(i) << ": " << words(got);
    ASSERT_TRUE(same(got->bytes(), make_value(i, kValue + i))) << key(i);
  }
}

// Putting what is there already moves nothing to disk a second time, and brings it back into DRAM.
TEST_P(ClientDiskTest, ThePresentValueIsNotWrittenAgain) {
  start("never");
  put_many(0, kMore);
  settle(kMore);
  ASSERT_EQ(tier_of(key(0)), Tier::kCold);
  const auto again = client_->put(key(0), make_value(0, kValue));
  ASSERT_TRUE(again) << words(again);
  EXPECT_TRUE(again->already_stored);
  EXPECT_NE(tier_of(key(0)), Tier::kHot);
  EXPECT_TRUE(same(client_->get(key(0))->bytes(), make_value(0, kValue)));
}

INSTANTIATE_TEST_SUITE_P(, ClientDiskTest, kEveryPath, path_test_name);

}  // namespace
}  // namespace larder::client
