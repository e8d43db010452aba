// SPDX-License-Identifier: Apache-2.0
#include "route/spaces.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace larder::route {
namespace {

TEST(Spaces, GivesEachNameOneSpace) {
  Spaces spaces;
  Space found;
  EXPECT_FALSE(spaces.find("t", "d", "s", found));
  const auto made = spaces.intern("t", "d", "s");
  ASSERT_TRUE(made);
  EXPECT_NE(made->id, 0U);
  ASSERT_TRUE(spaces.find("t", "d", "s", found));
  EXPECT_EQ(found.id, made->id);
  EXPECT_EQ(found.seed, made->seed);
  EXPECT_EQ(spaces.intern("t", "d", "s")->id, made->id);
}

TEST(Spaces, NamesThatJoinAlikeStayApart) {
  Spaces spaces;
  std::set<std::uint32_t> ids;
  std::set<std::uint64_t> seeds;
  const char* names[][3] = {{"ab", "c", "d"}, {"a", "bc", "d"}, {"a", "b", "cd"},  {"abcd", "", ""},
                            {"", "abcd", ""}, {"", "", "abcd"}, {"a", "\x01", "b"}};
  for (const auto& name : names) {
    const auto space = spaces.intern(name[0], name[1], name[2]);
    ASSERT_TRUE(space);
    EXPECT_TRUE(ids.insert(space->id).second);
    EXPECT_TRUE(seeds.insert(space->seed).second);
  }
}

TEST(Spaces, RefusesPartsItCannotTellApart) {
  Spaces spaces;
  const std::string longest(255, 'x');
  EXPECT_TRUE(spaces.intern(longest, longest, longest));
  // Its length byte would be 0: followed by these bytes it would pass for another space.
  const std::string longer(256, 'x');
  Space found;
  EXPECT_EQ(spaces.intern(longer, "d", "s").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(spaces.intern("t", longer, "s").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(spaces.intern("t", "d", longer).error().code(), Code::kInvalidArgument);
  EXPECT_FALSE(spaces.find(longer, "d", "s", found));
}

TEST(Spaces, AreBounded) {
  Spaces spaces;
  for (std::size_t i = 0; i < Spaces::kSpacesMax; ++i) {
    ASSERT_TRUE(spaces.intern("t", "d", std::to_string(i)));
  }
  const auto refused = spaces.intern("t", "d", "one more");
  EXPECT_EQ(refused.error().code(), Code::kExhausted);
  EXPECT_NE(refused.error().message().find("65536"), std::string::npos);
  EXPECT_TRUE(spaces.intern("t", "d", "0"));  // known ones go on
}

TEST(Spaces, KeysOfTwoSpacesHashApart) {
  Spaces spaces;
  const Space one = *spaces.intern("t", "d", "1");
  const Space two = *spaces.intern("t", "d", "2");
  EXPECT_EQ(key_in(one, "k").hash, key_in(one, "k").hash);
  EXPECT_NE(key_in(one, "k").hash, key_in(two, "k").hash);
  EXPECT_EQ(key_in(two, "k").space, two.id);
  EXPECT_EQ(key_in(two, "k").key, "k");
}

}  // namespace
}  // namespace larder::route
