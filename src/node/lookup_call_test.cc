// SPDX-License-Identifier: Apache-2.0
#include "node/lookup_call.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "node/node_testing.h"
#include "wire/keys.h"
#include "wire/message.h"

namespace larder::node {
namespace {

class LookupCallTest : public testing::Test {
 protected:
  static pb::Keys announce(std::size_t count, const std::string& object_set = "o") {
    pb::Keys keys;
    wire::announce_keys({"t", "d", object_set}, count, keys);
    return keys;
  }
  static Bytes stream_of(const std::vector<std::string>& keys) {
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    Bytes stream(wire::key_stream_bytes(views));
    wire::KeyWriter writer(views);
    EXPECT_EQ(writer.fill(stream), stream.size());
    return stream;
  }
  static void feed(LookupCall& call, ConstBytes bytes, std::size_t step) {
    while (!bytes.empty()) {
      iovec place{};
      ASSERT_EQ(call.next(std::span(&place, 1)), 1U);
      const std::size_t n = std::min({place.iov_len, step, bytes.size()});
      ASSERT_GT(n, 0U);
      std::memcpy(place.iov_base, bytes.data(), n);
      call.advance(n);
      bytes = bytes.subspan(n);
    }
  }
  template <class Reply>
  static Reply body_of(const Result<rpc::Reply>& reply) {
    Reply body;
    EXPECT_TRUE(reply) << reply.error().to_string();
    if (reply) {
      EXPECT_TRUE(body.ParseFromString(std::string(wire::frame_body(reply->frame))));
    }
    return body;
  }
  Result<rpc::Reply> run(LookupKind kind, const std::vector<std::string>& keys, bool routes,
                         std::size_t step = 1000) {
    LookupCall call(store_.core, kind);
    const Bytes stream = stream_of(keys);
    LARDER_TRY(call.begin(announce(keys.size()), routes, stream.size()));
    feed(call, stream, step);
    return call.finish();
  }
  // "k0" to "k<count - 1>", of which every third is stored.
  std::vector<std::string> every_third_stored(std::size_t count) {
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < count; ++i) {
      keys.push_back("k" + std::to_string(i));
      if (i % 3 == 0) store_.store(keys.back(), make_value(i, 10 + i % 50));
    }
    return keys;
  }

  TestStore store_;
};

TEST_F(LookupCallTest, SaysOfEachKeyWhetherItIsThere) {
  const std::vector<std::string> keys = every_third_stored(700);
  for (const std::size_t step : {1UL, 999UL, 1UL << 20}) {
    const auto reply = body_of<pb::LookupReply>(run(LookupKind::kEach, keys, true, step));
    ASSERT_EQ(reply.present().size(), (keys.size() + 7) / 8);
    int found = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto byte = static_cast<unsigned char>(reply.present()[i / 8]);
      ASSERT_EQ((byte >> (i % 8) & 1U) != 0, i % 3 == 0) << i;
      if (i % 3 != 0) continue;
      const route::EntryRef entry = store_.find(keys[i]);
      ASSERT_LT(found, reply.sizes_size());
      EXPECT_EQ(reply.sizes(found), 10 + i % 50);
      EXPECT_EQ(reply.versions(found), entry->version());
      EXPECT_EQ(reply.routes().slots(found), entry->hot().slot);
      EXPECT_EQ(reply.routes().offsets(found), entry->hot().offset);
      ++found;
    }
    EXPECT_EQ(reply.versions_size(), found);
  }
  const auto bare = body_of<pb::LookupReply>(run(LookupKind::kEach, keys, false));
  EXPECT_FALSE(bare.has_routes());
  EXPECT_EQ(bare.sizes_size(), 0);
}

TEST_F(LookupCallTest, APrefixEndsAtTheFirstGap) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < 300; ++i) {
    keys.push_back("p" + std::to_string(i));
    if (i != 200) store_.store(keys.back(), make_value(i, 1 + i));
  }
  const auto reply = body_of<pb::MatchReply>(run(LookupKind::kPrefix, keys, true));
  EXPECT_EQ(reply.matched(), 200U);
  ASSERT_EQ(reply.sizes_size(), 200);
  EXPECT_EQ(reply.versions_size(), 200);
  EXPECT_EQ(reply.sizes(199), 200U);
  EXPECT_EQ(body_of<pb::MatchReply>(run(LookupKind::kPrefix, {"none", "p0"}, true)).matched(), 0U);
}

TEST_F(LookupCallTest, AnUnknownSpaceHasNothing) {
  store_.store("a", make_value(1, 10));
  const Bytes stream = stream_of({"a"});
  LookupCall call(store_.core, LookupKind::kEach);
  ASSERT_TRUE(call.begin(announce(1, "other"), true, stream.size()));
  feed(call, stream, 100);
  EXPECT_EQ(body_of<pb::LookupReply>(call.finish()).present(), std::string(1, '\0'));
}

TEST_F(LookupCallTest, WhatIsWrongEndsTheCall) {
  const Bytes stream = stream_of({"a", "b"});
  const auto code_of_begin = [&](const pb::Keys& keys, std::uint64_t bytes) {
    LookupCall call(store_.core, LookupKind::kEach);
    const auto begun = call.begin(keys, false, bytes);
    return begun ? Code::kOk : begun.error().code();
  };
  EXPECT_EQ(code_of_begin(announce(0), stream.size()), Code::kInvalidArgument);
  EXPECT_EQ(code_of_begin(announce(65537), 1 << 20), Code::kInvalidArgument);
  EXPECT_EQ(code_of_begin(announce(2, ""), stream.size()), Code::kInvalidArgument);
  EXPECT_EQ(code_of_begin(announce(2), 3), Code::kInvalidArgument);
  pb::Keys listed = announce(2);
  listed.set_data("ab");
  EXPECT_EQ(code_of_begin(listed, stream.size()), Code::kInvalidArgument);

  LookupCall call(store_.core, LookupKind::kEach);
  ASSERT_TRUE(call.begin(announce(3), false, stream.size()));
  feed(call, stream, 100);
  EXPECT_EQ(call.finish().error().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace larder::node
