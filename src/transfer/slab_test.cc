// SPDX-License-Identifier: Apache-2.0
#include "transfer/slab.h"

#include <gtest/gtest.h>

#include <set>

namespace larder::transfer {
namespace {

struct Thing {
  int value = 7;
};

TEST(Slab, GivesEachIndexOnceUpToItsLimit) {
  Slab<Thing> slab(600);
  std::set<std::uint32_t> taken;
  for (int i = 0; i < 600; ++i) {
    const auto index = slab.take();
    ASSERT_TRUE(index);
    EXPECT_TRUE(taken.insert(*index).second);
    EXPECT_EQ(slab.at(*index)->value, 7);
  }
  EXPECT_FALSE(slab.take());
  EXPECT_EQ(slab.in_use(), 600U);
  slab.give(13);
  EXPECT_EQ(slab.in_use(), 599U);
  EXPECT_EQ(slab.take(), 13U);
  EXPECT_FALSE(slab.take());
  for (const std::uint32_t index : taken) slab.give(index);
  EXPECT_EQ(slab.in_use(), 0U);
}

TEST(Slab, ObjectsStayWhereTheyAreAndAsTheyWere) {
  Slab<Thing> slab(600);
  const std::uint32_t index = slab.take().value();
  Thing* const thing = slab.at(index);
  thing->value = 8;
  slab.give(index);
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(slab.take());
  EXPECT_EQ(slab.at(index), thing);
  EXPECT_EQ(thing->value, 8);  // whoever takes it is to make it new
}

TEST(Slab, WhatNeverWasIsNull) {
  Slab<Thing> slab(300);
  EXPECT_EQ(slab.at(0), nullptr);
  EXPECT_EQ(slab.at(299), nullptr);
  EXPECT_EQ(slab.at(0xffffffff), nullptr);
  ASSERT_TRUE(slab.take());
  EXPECT_NE(slab.at(0), nullptr);
  EXPECT_EQ(slab.at(256), nullptr);  // of the next chunk
  EXPECT_EQ(slab.at(10000), nullptr);
}

}  // namespace
}  // namespace larder::transfer
