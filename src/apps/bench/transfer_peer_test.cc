// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/transfer_peer.h"

#include <gtest/gtest.h>

namespace larder::apps {
namespace {

TEST(PeerOffer, RoundTrips) {
  const auto got = parse_offer(offer_to_json({"tcp:127.0.0.1:4711", 0x7f0012345000, 1 << 20}));
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(got->address, "tcp:127.0.0.1:4711");
  EXPECT_EQ(got->memory, 0x7f0012345000U);
  EXPECT_EQ(got->bytes, 1U << 20);
}

TEST(PeerOffer, AnErrorArrivesAsItWas) {
  const auto got = parse_offer(failure_to_json(Error(Code::kUnsupported, "no transport 'tcp'")));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kUnsupported);
  EXPECT_EQ(got.error().message(), "no transport 'tcp'");
}

TEST(PeerOffer, AnythingElseIsRefused) {
  for (const char* line :
       {"", "{", "[]", "null", "{}", R"({"address":"tcp:h:1"})",
        R"({"address":1,"memory":1,"bytes":1})", R"({"address":"a","memory":-1,"bytes":1})",
        R"({"error":7,"code":99999999999})"}) {
    const auto got = parse_offer(line);
    ASSERT_FALSE(got) << line;
    EXPECT_EQ(got.error().code(), Code::kInternal) << line;
  }
}

}  // namespace
}  // namespace larder::apps
