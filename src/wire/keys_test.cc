// SPDX-License-Identifier: Apache-2.0
#include "wire/keys.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "larder.pb.h"

namespace larder::wire {
namespace {

pb::Keys packed(const std::vector<std::string_view>& keys, const KeySpace& space = {}) {
  pb::Keys message;
  pack_keys(space, keys, message);
  return message;
}

Code refused(const pb::Keys& message) {
  KeyList list;
  const auto done = unpack_keys(message, list);
  return done ? Code::kOk : done.error().code();
}

TEST(Keys, ComeBackInOrder) {
  const std::string binary("\0\xff\n", 3);
  const std::vector<std::string_view> keys = {"first", "", binary, "first", "last"};
  const pb::Keys message = packed(keys, {"tenant", "domain", "set"});
  KeyList list;
  ASSERT_TRUE(unpack_keys(message, list));
  EXPECT_EQ(list.tenant, "tenant");
  EXPECT_EQ(list.domain, "domain");
  EXPECT_EQ(list.object_set, "set");
  EXPECT_EQ(list.keys, keys);
}

TEST(Keys, SurviveTheWire) {
  const std::vector<std::string_view> keys = {"a", "bb", "ccc"};
  pb::Keys parsed;
  ASSERT_TRUE(parsed.ParseFromString(packed(keys).SerializeAsString()));
  KeyList list;
  ASSERT_TRUE(unpack_keys(parsed, list));
  EXPECT_EQ(list.keys, keys);
}

TEST(Keys, PackingAndUnpackingReuseTheirTargets) {
  pb::Keys message = packed({"old", "older", "oldest"});
  const std::vector<std::string_view> keys = {"new"};
  pack_keys({}, keys, message);
  KeyList list;
  list.keys = {"stale", "stale"};
  ASSERT_TRUE(unpack_keys(message, list));
  EXPECT_EQ(list.keys, keys);
}

TEST(Keys, OverlongKeyIsCutJustAboveTheLimit) {
  const std::string longest(kKeyBytesMax, 'k');
  const std::string too_long(10 << 20, 'k');
  const pb::Keys message = packed({longest, too_long, "next"});
  KeyList list;
  ASSERT_TRUE(unpack_keys(message, list));  // judged per item, by the server
  EXPECT_EQ(list.keys[0], longest);
  EXPECT_EQ(list.keys[1].size(), kKeyBytesMax + 1);
  EXPECT_EQ(list.keys[2], "next");
}

TEST(Keys, LengthsAndDataMustAgree) {
  pb::Keys message = packed({"abc", "de"});
  message.set_data("abcd");
  EXPECT_EQ(refused(message), Code::kCorrupt);
  message.set_data("abcdef");
  EXPECT_EQ(refused(message), Code::kCorrupt);
  message = packed({"abc"});
  message.add_lengths(0xffffffff);
  EXPECT_EQ(refused(message), Code::kCorrupt);
  message = packed({"abc"});
  message.set_lengths(0, 0xffffffff);
  EXPECT_EQ(refused(message), Code::kCorrupt);
}

TEST(Keys, TheNumberOfKeysIsBounded) {
  EXPECT_EQ(refused(packed({})), Code::kInvalidArgument);
  std::vector<std::string_view> keys(kBatchItemsMax, "k");
  EXPECT_EQ(refused(packed(keys)), Code::kOk);
  keys.push_back("k");
  EXPECT_EQ(refused(packed(keys)), Code::kInvalidArgument);
}

TEST(Keys, SpaceNamesAreBounded) {
  const std::string longest(kSpaceNameBytesMax, 's');
  const std::string too_long(kSpaceNameBytesMax + 1, 's');
  const auto judge = [](const KeySpace& space) {
    const auto valid = validate_space(space);
    const Code code = valid ? Code::kOk : valid.error().code();
    EXPECT_EQ(refused(packed({"k"}, space)), code);  // both sides agree
    return code;
  };
  EXPECT_EQ(judge({}), Code::kOk);
  EXPECT_EQ(judge({longest, longest, longest}), Code::kOk);
  EXPECT_EQ(judge({"", "d", "s"}), Code::kInvalidArgument);
  EXPECT_EQ(judge({"t", "", "s"}), Code::kInvalidArgument);
  EXPECT_EQ(judge({"t", "d", ""}), Code::kInvalidArgument);
  EXPECT_EQ(judge({too_long, "d", "s"}), Code::kInvalidArgument);
  EXPECT_EQ(judge({"t", too_long, "s"}), Code::kInvalidArgument);
  EXPECT_EQ(judge({"t", "d", too_long}), Code::kInvalidArgument);
}

TEST(Keys, ErrorsSayWhichName) {
  const auto valid = validate_space({"t", "", "s"});
  ASSERT_FALSE(valid);
  EXPECT_NE(valid.error().message().find("domain"), std::string::npos);
}

}  // namespace
}  // namespace larder::wire
