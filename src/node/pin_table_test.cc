// SPDX-License-Identifier: Apache-2.0
#include "node/pin_table.h"

#include <gtest/gtest.h>

#include "node/node_testing.h"

namespace larder::node {
namespace {

class PinTableTest : public testing::Test {
 protected:
  void SetUp() override {
    store_.store("a", make_value(1, 100));
    store_.store("b", make_value(2, 100));
  }
  std::uint32_t pins(std::string_view key) { return store_.find(key)->pins().load(); }
  route::KeyRef key(std::string_view name) { return route::key_in(store_.space, name); }
  TestStore store_;
};

TEST_F(PinTableTest, EachPinNeedsItsUnpin) {
  PinTable table;
  ASSERT_TRUE(table.pin(store_.find("a"), 0));
  ASSERT_TRUE(table.pin(store_.find("a"), 0));
  EXPECT_EQ(pins("a"), 2U);
  EXPECT_EQ(table.size(), 1U);
  ASSERT_TRUE(table.unpin(key("a")));
  EXPECT_EQ(pins("a"), 1U);
  ASSERT_TRUE(table.unpin(key("a")));
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.unpin(key("a")).error().code(), Code::kNotFound);
  EXPECT_EQ(table.unpin(key("b")).error().code(), Code::kNotFound);
}

TEST_F(PinTableTest, TablesEndAndPinsWithThem) {
  PinTable other;
  ASSERT_TRUE(other.pin(store_.find("a"), 0));
  {
    PinTable table;
    ASSERT_TRUE(table.pin(store_.find("a"), 0));
    ASSERT_TRUE(table.pin(store_.find("a"), 500));
    EXPECT_EQ(pins("a"), 3U);
  }
  EXPECT_EQ(pins("a"), 1U);
}

TEST_F(PinTableTest, LeasesOnlyGrow) {
  PinTable table;
  ASSERT_TRUE(table.pin(store_.find("a"), 100));
  ASSERT_TRUE(table.pin(store_.find("a"), 50));
  ASSERT_TRUE(table.pin(store_.find("b"), 100));
  ASSERT_TRUE(table.pin(store_.find("b"), 0));
  EXPECT_EQ(table.expire(99), 0U);
  EXPECT_EQ(table.expire(100), 1U);
  EXPECT_EQ(pins("a"), 0U);
  EXPECT_EQ(pins("b"), 2U);
  EXPECT_EQ(table.expire(1'000'000'000), 0U);
}

TEST_F(PinTableTest, APinKeepsTheBytesAndNotTheKey) {
  PinTable table;
  ASSERT_TRUE(table.pin(store_.find("a"), 0));
  EXPECT_FALSE(store_.core.routes->evict(store_.find("a")));
  const std::uint64_t used = store_.core.hot->used();
  ASSERT_TRUE(store_.core.routes->remove(key("a"), {}));
  EXPECT_FALSE(store_.find("a"));
  EXPECT_EQ(store_.core.hot->used(), used);
  // Another value under the key has its own pins; unpin ends one pin after the other.
  store_.store("a", make_value(3, 100));
  ASSERT_TRUE(table.pin(store_.find("a"), 0));
  EXPECT_EQ(table.size(), 2U);
  ASSERT_TRUE(table.unpin(key("a")));
  ASSERT_TRUE(table.unpin(key("a")));
  EXPECT_FALSE(table.unpin(key("a")));
  EXPECT_EQ(store_.core.hot->used(), used);
  EXPECT_TRUE(store_.adds_up());
}

}  // namespace
}  // namespace larder::node
