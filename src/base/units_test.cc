// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace larder::base {
namespace {

using std::chrono::nanoseconds;
using ::testing::HasSubstr;

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(UnitsTest, SizesParse) {
  const std::pair<const char*, std::uint64_t> cases[] = {
      {"0", 0},
      {"4096", 4096},
      {"12B", 12},
      {"64K", 64 << 10},
      {"64k", 64 << 10},
      {"64KiB", 64 << 10},
      {"512 MiB", 512ULL << 20},
      {" 4GiB ", 4ULL << 30},
      {"1.5GiB", 3ULL << 29},
      {"4GB", 4'000'000'000},
      {"1kb", 1000},
      {"2t", 2ULL << 40},
      {"15EiB", 15ULL << 60},
      {"1EB", 1'000'000'000'000'000'000},
      {"0.001KiB", 1},
      {"15.999EiB", (15ULL << 60) + (1ULL << 60) / 1000 * 999 + (1ULL << 60) % 1000 * 999 / 1000},
      {"18446744073709551615", kMax}};
  for (const auto& [text, bytes] : cases) {
    const auto got = parse_size(text);
    ASSERT_TRUE(got) << text << ": " << got.error().to_string();
    EXPECT_EQ(*got, bytes) << text;
  }
}

TEST(UnitsTest, SizesRefuseGarbageAndOverflow) {
  for (const char* text :
       {"", " ", "-1", "+1", "GiB", "4Gib4", "4 Q", "0x10", "1e9", "1.", ".5G", "1.2345G", "1..2G",
        "16EiB", "18446744073709551616", "99999999999999999999", "nan", "4 G B", "4GiB\n"}) {
    const auto got = parse_size(text);
    ASSERT_FALSE(got) << text << " gave " << *got;
    EXPECT_EQ(got.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(got.error().message(), HasSubstr("for example"));
  }
  EXPECT_THAT(parse_size("4 Q").error().message(), HasSubstr("'4 Q' has an unknown unit"));
  EXPECT_THAT(parse_size("16EiB").error().message(), HasSubstr("too large"));
}

TEST(UnitsTest, DurationsParse) {
  const std::pair<const char*, std::int64_t> cases[] = {{"0", 0},
                                                        {"0s", 0},
                                                        {"7ns", 7},
                                                        {"250us", 250'000},
                                                        {"250 \xc2\xb5s", 250'000},
                                                        {"10ms", 10'000'000},
                                                        {"1.5ms", 1'500'000},
                                                        {"5s", 5'000'000'000},
                                                        {"2m", 120'000'000'000},
                                                        {"2min", 120'000'000'000},
                                                        {"1h", 3'600'000'000'000},
                                                        {"1d", 86'400'000'000'000}};
  for (const auto& [text, ns] : cases) {
    const auto got = parse_duration(text);
    ASSERT_TRUE(got) << text << ": " << got.error().to_string();
    EXPECT_EQ(got->count(), ns) << text;
  }
}

TEST(UnitsTest, DurationsRefuseGarbageAndOverflow) {
  for (const char* text : {"", "5", "-5s", "5 sec", "5S", "5M", "s", "1h30m", "106752d", "300000h0",
                           "9223372036854775808ns", "1e3s"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
  EXPECT_TRUE(parse_duration("9223372036854775807ns"));
  EXPECT_THAT(parse_duration("5").error().message(), HasSubstr("has no unit"));
}

TEST(UnitsTest, RatiosNumbersAndSwitches) {
  EXPECT_DOUBLE_EQ(*parse_ratio("85%"), 0.85);
  EXPECT_DOUBLE_EQ(*parse_ratio("0.85"), 0.85);
  EXPECT_DOUBLE_EQ(*parse_ratio("12.5 %"), 0.125);
  EXPECT_DOUBLE_EQ(*parse_ratio("1"), 1.0);
  for (const char* text : {"", "%", "85", "101%", "-1%", "nan", "inf", "1e-1", "0.5x", "."}) {
    EXPECT_FALSE(parse_ratio(text)) << text;
  }
  EXPECT_EQ(*parse_u64("18446744073709551615"), kMax);
  for (const char* text : {"", "-1", "1.0", "18446744073709551616", "0x1", "1 2"}) {
    EXPECT_FALSE(parse_u64(text)) << text;
  }
  EXPECT_TRUE(*parse_bool("TRUE"));
  EXPECT_TRUE(*parse_bool("on"));
  EXPECT_FALSE(*parse_bool("No"));
  EXPECT_FALSE(parse_bool("maybe"));
}

TEST(UnitsTest, FormatsParseBackToTheSameValue) {
  std::mt19937_64 random(42);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t value = random() >> (random() % 64);
    const std::uint64_t round = (value >> (random() % 64)) << (random() % 40);
    for (const std::uint64_t bytes : {value, round}) {
      ASSERT_EQ(*parse_size(format_size(bytes)), bytes) << format_size(bytes);
      const nanoseconds duration(static_cast<std::int64_t>(bytes >> 1));
      ASSERT_EQ(*parse_duration(format_duration(duration)), duration) << format_duration(duration);
    }
  }
  EXPECT_EQ(format_size(4ULL << 30), "4GiB");
  EXPECT_EQ(format_size(0), "0B");
  EXPECT_EQ(format_size(1500), "1500B");
  EXPECT_EQ(format_duration(nanoseconds(0)), "0s");
  EXPECT_EQ(format_duration(nanoseconds(10'000'000)), "10ms");
  EXPECT_EQ(format_duration(nanoseconds(90'000'000'000)), "90s");
}

TEST(UnitsTest, HumanText) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes((1ULL << 30) - 1), "1.00 GiB");
  EXPECT_EQ(human_bytes(100ULL << 20), "100 MiB");
  EXPECT_EQ(human_bytes(kMax), "16.0 EiB");
  EXPECT_EQ(human_rate(-1), "0 B/s");
  EXPECT_EQ(human_rate(std::numeric_limits<double>::quiet_NaN()), "0 B/s");
  EXPECT_EQ(human_rate(std::numeric_limits<double>::infinity()), "7.98 EiB/s");
  EXPECT_EQ(human_rate(0.5), "0.50 B/s");
  EXPECT_EQ(human_rate(2.5 * (1ULL << 30)), "2.50 GiB/s");
  EXPECT_EQ(human_duration(nanoseconds(999)), "999 ns");
  EXPECT_EQ(human_duration(nanoseconds(12'340)), "12.3 us");
  EXPECT_EQ(human_duration(nanoseconds(999'600)), "1.00 ms");
  EXPECT_EQ(human_duration(nanoseconds(-4'560'000)), "-4.56 ms");
  EXPECT_EQ(human_duration(std::chrono::seconds(61)), "61.0 s");
  EXPECT_EQ(human_duration(std::chrono::seconds(125)), "2m 05s");
  EXPECT_EQ(human_duration(std::chrono::minutes(195)), "3h 15m");
  EXPECT_EQ(human_duration(std::chrono::hours(51)), "2d 03h");
  EXPECT_THAT(human_duration(nanoseconds::min()), HasSubstr("-106751d"));
}

TEST(UnitsTest, QuotedTextCannotForgeOrFlood) {
  EXPECT_EQ(quoted("plain"), "'plain'");
  EXPECT_EQ(quoted("a\nb'\x1b["), "'a\\x0ab\\x27\\x1b['");
  EXPECT_EQ(quoted(std::string(1000, 'x'), 4), "'xxxx' and 996 more bytes");
}

}  // namespace
}  // namespace larder::base
