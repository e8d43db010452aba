// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/case_name.h"

#include <gtest/gtest.h>

namespace larder::apps {
namespace {

TEST(CaseName, EveryPartIsRead) {
  const auto got = parse_case("tcp.get.64KiB.b64.c4");
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(*got, (CaseName{BenchPath::kTcp, Op::kGet, 64 << 10, 64, 4}));
}

TEST(CaseName, LookupsCountKeysAndHaveNoBatch) {
  const auto got = parse_case("tcp.exists.16384.c1");
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(got->op, Op::kExists);
  EXPECT_EQ(got->batch, 16384U);
  EXPECT_EQ(got->value_bytes, 0U);
  EXPECT_FALSE(parse_case("tcp.exists.16384.b2.c1"));
  EXPECT_FALSE(parse_case("tcp.exists.65537.c1"));
  EXPECT_FALSE(parse_case("tcp.match_prefix.4KiB.c1"));
}

TEST(CaseName, TextRoundTrips) {
  for (const char* text :
       {"local.get_into.1MiB.b1.c1", "local.put_shared.1MiB.b1.c1", "unix.put.100B.b256.c2",
        "tcp.match_prefix.1.c1", "local.get_cached.4KiB.b1.c1", "tcp.put_over.16MiB.b16.c4"}) {
    const auto got = parse_case(text);
    ASSERT_TRUE(got) << got.error().to_string();
    EXPECT_EQ(to_string(*got), text);
  }
}

TEST(CaseName, SaysWhatIsWrong) {
  const auto message = [](const char* text) { return parse_case(text).error().message(); };
  EXPECT_NE(message("udp.get.4KiB.b1.c1").find("PATH"), std::string::npos);
  EXPECT_NE(message("tcp.fetch.4KiB.b1.c1").find("get_into"), std::string::npos);
  EXPECT_NE(message("tcp.get.4QiB.b1.c1").find("4QiB"), std::string::npos);
  EXPECT_NE(message("tcp.get.4KiB.1.c1").find("must be b"), std::string::npos);
  EXPECT_NE(message("tcp.get.4KiB.b1.c0").find("1 to 64"), std::string::npos);
  EXPECT_NE(message("tcp.put_shared.4KiB.b1.c1").find("local"), std::string::npos);
  EXPECT_NE(message("tcp.get.0.b1.c1").find("1 GiB"), std::string::npos);
  EXPECT_NE(message("").find("too few"), std::string::npos);
}

}  // namespace
}  // namespace larder::apps
