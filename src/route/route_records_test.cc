// SPDX-License-Identifier: Apache-2.0
// Routes that lead to records on devices.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "route/route_table.h"

namespace larder::route {
namespace {

class CountingRecords final : public RecordOwner {
 public:
  void on_forgotten(std::uint64_t place) noexcept override { forgotten.push_back(place); }
  std::vector<std::uint64_t> forgotten;
};

class CountingHot final : public ReplicaOwner {
 public:
  void on_unlink(const Entry&) noexcept override { ++unlinked; }
  void on_release(const Entry&) noexcept override { ++released; }
  int unlinked = 0;
  int released = 0;
};

class RouteRecordsTest : public testing::Test {
 protected:
  RouteRecordsTest() { table_.set_record_owner(&records_); }

  EntryRef make(std::string_view key, std::uint64_t version, bool hot, std::uint64_t place = 0) {
    EntryFields fields;
    fields.key = {1, key, hash64(key)};
    fields.version = version;
    fields.length = 5000;
    fields.checksum = 77;
    fields.cold = place;
    if (hot) fields.owner = &hot_;
    if (!hot) fields.hot.segment = kNoSegment;
    return fields.make();
  }
  // A route with a hot copy and no record yet.
  EntryRef publish(std::string_view key) {
    EntryRef entry = make(key, table_.next_version(), true);
    EXPECT_TRUE(table_.publish(0, entry).applied);
    return entry;
  }
  EntryRef find(std::string_view key) { return table_.find({1, key, hash64(key)}); }
  bool evict(std::string_view key) {
    const EntryRef entry = find(key);
    return table_.evict(entry);
  }
  void remove(std::string_view key) { ASSERT_TRUE(table_.remove({1, key, hash64(key)}, {})); }

  CountingRecords records_;
  CountingHot hot_;
  RouteTable table_{1};
};

TEST_F(RouteRecordsTest, EvictionLeavesTheRecord) {
  const std::uint64_t version = publish("a")->version();
  ASSERT_TRUE(table_.add_record(find("a"), 9));
  ASSERT_TRUE(evict("a"));
  EXPECT_EQ(hot_.unlinked, 1);
  EXPECT_EQ(hot_.released, 1);
  const EntryRef left = find("a");
  ASSERT_TRUE(left);
  EXPECT_FALSE(left->has_hot());
  EXPECT_EQ(left->cold(), 9U);
  EXPECT_EQ(left->version(), version);
  EXPECT_EQ(left->length(), 5000U);
  EXPECT_EQ(left->checksum(), 77U);
  EXPECT_TRUE(left->linked());
  EXPECT_EQ(table_.size(), 1U);
  EXPECT_TRUE(records_.forgotten.empty());
  RouteView view;
  const KeyRef key{1, "a", hash64("a")};
  table_.look_up({&key, 1}, {&view, 1});
  EXPECT_EQ(view.version, version);
  EXPECT_FALSE(view.hot.present());
  EXPECT_TRUE(view.cold);
}

TEST_F(RouteRecordsTest, WithoutARecordEvictionForgets) {
  publish("a");
  ASSERT_TRUE(evict("a"));
  EXPECT_FALSE(find("a"));
  EXPECT_EQ(table_.size(), 0U);
}

TEST_F(RouteRecordsTest, ReadersKeepAHotCopy) {
  publish("a");
  ASSERT_TRUE(table_.add_record(find("a"), 9));
  const EntryRef reader = find("a");
  EXPECT_FALSE(evict("a"));
  EXPECT_TRUE(find("a")->has_hot());
}

TEST_F(RouteRecordsTest, OneRecordToARoute) {
  const EntryRef entry = publish("a");
  ASSERT_TRUE(table_.add_record(entry, 9));
  EXPECT_FALSE(table_.add_record(entry, 10));
  EXPECT_EQ(entry->cold(), 9U);
}

TEST_F(RouteRecordsTest, ARecordThatComesTooLateIsRefused) {
  const EntryRef removed = publish("a");
  remove("a");
  EXPECT_FALSE(table_.add_record(removed, 9));
  const EntryRef replaced = publish("b");
  ASSERT_TRUE(table_.publish(replaced->version(), make("b", table_.next_version(), true)).applied);
  EXPECT_FALSE(table_.add_record(replaced, 10));
  EXPECT_TRUE(records_.forgotten.empty());  // they are the caller's still
}

TEST_F(RouteRecordsTest, PromotionMovesTheRecord) {
  publish("a");
  ASSERT_TRUE(table_.add_record(find("a"), 9));
  ASSERT_TRUE(evict("a"));
  const EntryRef cold = find("a");
  ASSERT_TRUE(table_.promote(cold, make("a", cold->version(), true)).applied);
  EXPECT_EQ(cold->cold(), 0U);
  EXPECT_FALSE(cold->linked());
  const EntryRef hot = find("a");
  EXPECT_TRUE(hot->has_hot());
  EXPECT_EQ(hot->cold(), 9U);
  EXPECT_EQ(table_.size(), 1U);
  // Once more the same: it is the route no longer.
  EXPECT_FALSE(table_.promote(cold, make("a", cold->version(), true)).applied);
  EXPECT_TRUE(records_.forgotten.empty());
}

TEST_F(RouteRecordsTest, ReplacementAndRemovalForgetOnce) {
  const EntryRef entry = publish("a");
  ASSERT_TRUE(table_.add_record(entry, 9));
  ASSERT_TRUE(table_.publish(entry->version(), make("a", table_.next_version(), true)).applied);
  EXPECT_EQ(records_.forgotten, std::vector<std::uint64_t>{9});
  EXPECT_EQ(entry->cold(), 0U);
}

TEST_F(RouteRecordsTest, ARemoverReleasesTheRecordItself) {
  ASSERT_TRUE(table_.add_record(publish("a"), 9));
  const EntryRef entry = table_.begin_remove({1, "a", hash64("a")});
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->cold(), 9U);
  EXPECT_FALSE(find("a"));
  EXPECT_FALSE(table_.drop_record(entry, 9));  // the remover has it
  table_.end_remove(entry);
  EXPECT_EQ(entry->cold(), 0U);
  EXPECT_TRUE(records_.forgotten.empty());
  EXPECT_EQ(table_.size(), 0U);
}

TEST_F(RouteRecordsTest, DroppingARecordLeavesTheHotCopy) {
  const EntryRef entry = publish("a");
  ASSERT_TRUE(table_.add_record(entry, 9));
  EXPECT_FALSE(table_.drop_record(entry, 8));
  ASSERT_TRUE(table_.drop_record(entry, 9));
  EXPECT_EQ(find("a")->cold(), 0U);
  EXPECT_EQ(records_.forgotten, std::vector<std::uint64_t>{9});
  EXPECT_FALSE(table_.drop_record(entry, 9));
}

TEST_F(RouteRecordsTest, DroppingTheLastCopyForgetsTheRoute) {
  ASSERT_TRUE(table_.publish(0, make("a", 5, false, 9)).applied);
  ASSERT_TRUE(table_.drop_record(find("a"), 9));
  EXPECT_FALSE(find("a"));
  EXPECT_EQ(table_.size(), 0U);
  EXPECT_EQ(records_.forgotten, std::vector<std::uint64_t>{9});
}

TEST_F(RouteRecordsTest, ARecordMovesToAnotherPlace) {
  const EntryRef entry = publish("a");
  EXPECT_FALSE(table_.move_record(entry, 9, 10));
  ASSERT_TRUE(table_.add_record(entry, 9));
  EXPECT_FALSE(table_.move_record(entry, 8, 10));
  ASSERT_TRUE(table_.move_record(entry, 9, 10));
  EXPECT_EQ(entry->cold(), 10U);
  EXPECT_EQ(records_.forgotten, std::vector<std::uint64_t>{9});
  remove("a");
  EXPECT_FALSE(table_.move_record(entry, 10, 11));
}

TEST_F(RouteRecordsTest, FindsARouteByItsRecord) {
  ASSERT_TRUE(table_.publish(0, make("a", 5, false, 9)).applied);
  ASSERT_TRUE(table_.publish(0, make("b", 6, false, 10)).applied);
  EXPECT_EQ(table_.find_record(hash64("b"), 10)->key(), "b");
  EXPECT_FALSE(table_.find_record(hash64("b"), 9));
  EXPECT_FALSE(table_.find_record(hash64("c"), 9));
}

TEST_F(RouteRecordsTest, TheTablesEndForgetsNoRecord) {
  CountingRecords records;
  {
    RouteTable table(1);
    table.set_record_owner(&records);
    ASSERT_TRUE(table.publish(0, make("a", 5, false, 9)).applied);
  }
  EXPECT_TRUE(records.forgotten.empty());
}

TEST_F(RouteRecordsTest, VersionsGrowPastWhatWasSeen) {
  const std::uint64_t stored = (std::uint64_t{9} << 40) + 3;
  table_.see_version(stored);
  EXPECT_GT(table_.next_version(), stored);
  table_.see_version(5);
  EXPECT_GT(table_.next_version(), stored);
}

}  // namespace
}  // namespace larder::route
