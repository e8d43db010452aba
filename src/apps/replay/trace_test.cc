// SPDX-License-Identifier: Apache-2.0
#include "apps/replay/trace.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <random>

namespace larder::apps {
namespace {

std::string error_of(std::string_view line) {
  TraceRequest request;
  const auto parsed = parse_trace_line(line, request);
  return parsed ? "" : parsed.error().message();
}

constexpr const char* kGood =
    R"({"timestamp": 7, "input_length": 40, "output_length": 6, "hash_ids": [0, 1, 5]})";

TEST(TraceLine, TakesWhatTheTracesHold) {
  TraceRequest request;
  ASSERT_TRUE(parse_trace_line(kGood, request));
  EXPECT_EQ(request.timestamp_ms, 7U);
  EXPECT_EQ(request.input_length, 40U);
  EXPECT_EQ(request.output_length, 6U);
  EXPECT_EQ(request.ids, (std::vector<std::uint64_t>{0, 1, 5}));
  EXPECT_EQ(format_trace_line(request), kGood);
}

TEST(TraceLine, ForgetsTheRequestBefore) {
  TraceRequest request;
  ASSERT_TRUE(parse_trace_line(kGood, request));
  ASSERT_TRUE(parse_trace_line(
      R"({"hash_ids":[18446744073709551615],"timestamp":1.5,"input_length":0,"output_length":0})",
      request));
  EXPECT_EQ(request.ids, std::vector<std::uint64_t>{~0ULL});
  EXPECT_EQ(request.timestamp_ms, 1U);
}

TEST(TraceLine, IgnoresOtherMembersHoweverOdd) {
  EXPECT_EQ(error_of(R"({"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[],)"
                     R"("x":{"hash_ids":[-1],"y":[[null,1.5,-3]]},"z":null,"t":true,"s":"a"})"),
            "");
}

struct BadLine {
  const char* line;
  const char* says;
};

TEST(TraceLine, RefusesWhatIsWrongAndSaysWhat) {
  const BadLine bad[] = {
      {"{", "not valid JSON at byte"},
      {"{} trailing", "not valid JSON at byte"},
      {"[]", "a list instead of an object"},
      {"7", "a number instead of an object"},
      {"-7", "a negative number instead of an object"},
      {"null", "null instead of an object"},
      {"\"x\"", "a string instead of an object"},
      {"\xff\xfe", "not valid JSON at byte"},
      {"{}", "'timestamp' is missing"},
      {R"({"timestamp":1,"input_length":1,"output_length":1})", "'hash_ids' is missing"},
      {R"({"timestamp":-1})", "'timestamp' is a negative number"},
      {R"({"timestamp":1e300})", "'timestamp' is not a whole number in range"},
      {R"({"timestamp":"1"})", "'timestamp' is a string"},
      {R"({"timestamp":9999999999999999})", "'timestamp' is too large"},
      {R"({"timestamp":1,"timestamp":1})", "'timestamp' appears twice"},
      {R"({"input_length":1.5})", "'input_length' is not a whole number in range"},
      {R"({"input_length":{}})", "'input_length' is an object"},
      {R"({"output_length":[1]})", "'output_length' is a list"},
      {R"({"hash_ids":3})", "'hash_ids' is a number, not a list"},
      {R"({"hash_ids":null})", "'hash_ids' is null"},
      {R"({"hash_ids":[1,-2]})", "a negative number among 'hash_ids' (entry 2)"},
      {R"({"hash_ids":[1,2,0.5]})", "among 'hash_ids' (entry 3)"},
      {R"({"hash_ids":[18446744073709551616]})", "among 'hash_ids' (entry 1)"},
      {R"({"hash_ids":["1"]})", "a string among 'hash_ids'"},
      {R"({"hash_ids":[[1]]})", "a list among 'hash_ids'"},
      {R"({"hash_ids":[{"a":1}]})", "an object among 'hash_ids'"},
  };
  for (const auto& [line, says] : bad) {
    EXPECT_NE(error_of(line).find(says), std::string::npos) << line << " -> " << error_of(line);
  }
}

TEST(TraceLine, BoundsDepthAndIds) {
  const std::string deep(100000, '[');
  EXPECT_NE(error_of("{\"x\":" + deep).find("nested too deeply"), std::string::npos);
  std::string many = R"({"hash_ids":[0)";
  for (std::size_t i = 0; i < kTraceIdsMax; ++i) many += ",0";
  EXPECT_NE(error_of(many + "]}").find("more than 1000000"), std::string::npos);
}

TEST(TraceLine, SurvivesEveryCutAndRandomDamage) {
  const std::string good = kGood;
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_NE(error_of(std::string_view(good).substr(0, cut)), "") << cut;
  }
  std::mt19937_64 dice(1);
  for (int round = 0; round < 20000; ++round) {
    std::string line = good;
    for (int i = 0; i < 3; ++i) line[dice() % line.size()] = static_cast<char>(dice());
    error_of(line);  // anything but a crash
  }
}

class TraceFile : public testing::Test {
 protected:
  TraceFile() : path_(testing::TempDir() + "trace_test_" + std::to_string(::getpid())) {}
  ~TraceFile() override { ::unlink(path_.c_str()); }
  void write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  std::unique_ptr<TraceReader> open(TraceOptions options = {}) {
    auto reader = TraceReader::open(path_, options);
    EXPECT_TRUE(reader) << reader.error().message();
    return std::move(*reader);
  }
  std::string path_;
  TraceRequest request_;
};

TEST_F(TraceFile, ReadsLinesWithAndWithoutTheLastNewline) {
  write(std::string(kGood) + "\n\n  \r\n" + kGood + "\r\n" + kGood);
  auto reader = open();
  for (int i = 0; i < 3; ++i) {
    const auto more = reader->next(request_);
    ASSERT_TRUE(more) << more.error().message();
    EXPECT_TRUE(*more);
  }
  EXPECT_FALSE(*reader->next(request_));
  EXPECT_FALSE(*reader->next(request_));
}

TEST_F(TraceFile, NamesFileAndLineOfABrokenOne) {
  write(std::string(kGood) + "\n\n{\"timestamp\": -3}\n");
  auto reader = open();
  ASSERT_TRUE(*reader->next(request_));
  const auto bad = reader->next(request_);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(bad.error().message().find(path_ + ":3: 'timestamp' is a negative number"), 0U)
      << bad.error().message();
  EXPECT_NE(bad.error().message().find("--skip-broken"), std::string::npos);
}

TEST_F(TraceFile, SkipsBrokenLinesWhenAsked) {
  const std::string huge(kTraceLineBytesMax + (3U << 20), 'x');
  write("nonsense\n" + std::string(kGood) + '\n' + huge + '\n' + kGood + "\n{");
  auto reader = open({.skip_broken = true});
  EXPECT_TRUE(*reader->next(request_));
  EXPECT_TRUE(*reader->next(request_));
  EXPECT_FALSE(*reader->next(request_));
  EXPECT_EQ(reader->broken_lines(), 3U);
  EXPECT_EQ(reader->first_broken(), path_ + ":1: not valid JSON at byte 2");
}

TEST_F(TraceFile, RefusesALineBeyondTheBound) {
  write(std::string(kTraceLineBytesMax + 1, 'x'));
  auto reader = open();
  const auto bad = reader->next(request_);
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message().find(":1: the line is longer than"), std::string::npos);
}

TEST_F(TraceFile, StopsAfterAsManyRequestsAsAsked) {
  write(std::string(kGood) + '\n' + kGood + "\nbroken\n");
  auto reader = open({.requests_max = 2});
  EXPECT_TRUE(*reader->next(request_));
  EXPECT_TRUE(*reader->next(request_));
  EXPECT_FALSE(*reader->next(request_));
}

TEST_F(TraceFile, RefusesWhatIsNoFile) {
  EXPECT_EQ(TraceReader::open(path_, {}).error().code(), Code::kNotFound);
  EXPECT_EQ(TraceReader::open("/", {}).error().code(), Code::kInvalidArgument);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const auto fifo = TraceReader::open(path_, {});
  ASSERT_FALSE(fifo);
  EXPECT_NE(fifo.error().message().find("not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace larder::apps
