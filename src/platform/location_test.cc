// SPDX-License-Identifier: Apache-2.0
#include "platform/location.h"

#include <gtest/gtest.h>

#include <string>

namespace larder::platform {
namespace {

TEST(Location, ReadsEveryKind) {
  EXPECT_EQ(parse_location("cpu:0").value(), (Location{MemoryType::kCpu, 0}));
  EXPECT_EQ(parse_location("cuda:1").value(), (Location{MemoryType::kCuda, 1}));
  EXPECT_EQ(parse_location("npu:15").value(), (Location{MemoryType::kNpu, 15}));
  EXPECT_EQ(parse_location("npu:4095").value(), (Location{MemoryType::kNpu, 4095}));
  EXPECT_EQ(parse_location("cuda").value(), (Location{MemoryType::kCuda, -1}));
  EXPECT_EQ(parse_location("*").value(), Location{});
}

TEST(Location, WritesWhatItReads) {
  for (const std::string text : {"cpu:0", "cpu", "cuda:1", "npu:4095", "*"}) {
    EXPECT_EQ(format_location(parse_location(text).value()), text);
  }
  EXPECT_EQ(format_location({MemoryType::kUnknown, 3}), "*");
  EXPECT_EQ(format_location({MemoryType::kNpu, -7}), "npu");
}

TEST(Location, HasOneSpelling) {
  for (const std::string text :
       {"",          ":",       "cpu:",    "cpu:-1",   "cpu:+1",
        "cpu:00",    "cpu:01",  "cpu: 0",  " cpu:0",   "cpu:0 ",
        "CPU:0",     "cpu:0x1", "cpu:1:2", "cpu:4096", "cpu:99999999999999999999",
        "*:0",       "**",      "gpu:0",   "rocm:0",   "unknown",
        "unknown:0", "cpu;0",   "0"}) {
    const auto got = parse_location(text);
    ASSERT_FALSE(got) << text;
    EXPECT_EQ(got.error().code(), Code::kInvalidArgument);
    EXPECT_NE(got.error().message().find("'" + text + "'"), std::string::npos)
        << got.error().message();
  }
}

TEST(Location, ErrorsDoNotRepeatHostileText) {
  const std::string message = parse_location("cpu:\n" + std::string(10000, 'x')).error().message();
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_LT(message.size(), 400U);
}

}  // namespace
}  // namespace larder::platform
