// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/transfer_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "apps/bench/score.h"

namespace larder::apps {
namespace {

TEST(TransferCase, EveryPartIsRead) {
  const auto got = parse_transfer_case("file.write.128KiB.b32.t2");
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(*got,
            (TransferCase{TransferTarget::kFile, Opcode::kWrite, std::uint64_t{128} << 10, 32, 2}));
}

TEST(TransferCase, TextRoundTrips) {
  for (const char* text :
       {"tcp.read.1MiB.b16.t1", "shm.write.16MiB.b1.t1", "file.read.4KiB.b256.t16",
        "memcpy.read.64MiB.b128.t2", "memcpy.read.12KiB.b3.t1", "staging.read.16MiB.b1.t1"}) {
    const auto got = parse_transfer_case(text);
    ASSERT_TRUE(got) << got.error().to_string();
    EXPECT_EQ(to_string(*got), text);
  }
}

TEST(TransferCase, SaysWhatIsWrong) {
  const auto message = [](const char* text) { return parse_transfer_case(text).error().message(); };
  EXPECT_NE(message("udp.read.4KiB.b1.t1").find("TARGET"), std::string::npos);
  EXPECT_NE(message("tcp.get.4KiB.b1.t1").find("read or write"), std::string::npos);
  EXPECT_NE(message("tcp.read.4QiB.b1.t1").find("4QiB"), std::string::npos);
  EXPECT_NE(message("tcp.read.2KiB.b1.t1").find("4 KiB to 64 MiB"), std::string::npos);
  EXPECT_NE(message("tcp.read.128MiB.b1.t1").find("4 KiB to 64 MiB"), std::string::npos);
  EXPECT_NE(message("tcp.read.5000B.b1.t1").find("whole pages"), std::string::npos);
  EXPECT_NE(message("tcp.read.4KiB.b257.t1").find("1 to 256"), std::string::npos);
  EXPECT_NE(message("tcp.read.4KiB.b1.t0").find("1 to 16"), std::string::npos);
  EXPECT_NE(message("tcp.read.4KiB.b1.c1").find("must be t"), std::string::npos);
  EXPECT_NE(message("").find("5 parts"), std::string::npos);
  EXPECT_NE(message("\x1b[31m").find("\\x1b"), std::string::npos);
}

TEST(SelectTransferCases, TheDefaultHasEveryCaseWithABar) {
  const auto cases = select_transfer_cases({}).value();
  EXPECT_EQ(cases.size(), 48U);
  EXPECT_EQ(std::count_if(cases.begin(), cases.end(),
                          [](const TransferCase& name) { return bar_of(name).has_value(); }),
            22);
}

TEST(SelectTransferCases, WritesToFilesComeLast) {
  const auto cases =
      select_transfer_cases({"file.write.4KiB.b1.t1", "file.read.4KiB.b1.t1", "^memcpy.read.1MiB"})
          .value();
  ASSERT_EQ(cases.size(), 3U);
  EXPECT_EQ(to_string(cases[0]), "file.read.4KiB.b1.t1");
  EXPECT_EQ(to_string(cases[1]), "memcpy.read.1MiB.b1.t1");
  EXPECT_EQ(to_string(cases[2]), "file.write.4KiB.b1.t1");
}

TEST(SelectTransferCases, AnExactNameNeedNotBeListedAndStandsOnce) {
  const auto cases =
      select_transfer_cases({"tcp.read.8KiB.b7.t3", "tcp.read.8KiB.b7.t3", "^shm.*16MiB"}).value();
  ASSERT_EQ(cases.size(), 3U);
  EXPECT_EQ(to_string(cases[0]), "tcp.read.8KiB.b7.t3");
}

TEST(SelectTransferCases, SaysWhenNothingMatchesOrTheExpressionIsBroken) {
  EXPECT_NE(select_transfer_cases({"nonsense"}).error().message().find("--list"),
            std::string::npos);
  EXPECT_NE(select_transfer_cases({"(tcp"}).error().message().find("(tcp"), std::string::npos);
}

}  // namespace
}  // namespace larder::apps
