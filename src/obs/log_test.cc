// SPDX-License-Identifier: Apache-2.0
#include "obs/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

namespace larder::obs {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class LogTest : public ::testing::Test {
 protected:
  void start(LogFormat format, Level level = Level::kInfo) {
    configure_log({.level = level, .format = format, .sink = [this](std::string_view line) {
                     lines_.emplace_back(line);
                   }});
  }
  void TearDown() override { configure_log({}); }

  std::vector<std::string> lines_;
};

TEST_F(LogTest, LogfmtLine) {
  start(LogFormat::kLogfmt);
  const std::string owned = "two words";
  log(Level::kInfo, "node_started",
      {{"port", 7411},
       {"bytes", std::uint64_t{1} << 63},
       {"ratio", 0.5},
       {"ok", true},
       {"path", "/run/larder.sock"},
       {"name", owned},
       {"delta", -3L},
       {"empty", ""}});
  ASSERT_EQ(lines_.size(), 1U);
  // "time=2024-05-01T12:00:00.000000Z", whatever the digits
  std::string stamp = lines_[0].substr(0, lines_[0].find(' '));
  for (char& c : stamp) c = c >= '0' && c <= '9' ? '0' : c;
  EXPECT_EQ(stamp, "time=0000-00-00T00:00:00.000000Z");
  EXPECT_THAT(lines_[0],
              EndsWith("Z level=info event=node_started port=7411 bytes=9223372036854775808 "
                       "ratio=0.5 ok=true path=/run/larder.sock name=\"two words\" delta=-3 "
                       "empty=\"\"\n"));
}

TEST_F(LogTest, JsonLineParses) {
  start(LogFormat::kJson);
  log(Level::kError, "disk_failed",
      {{"why", "a \"quote\"\n\x01\x7f \xff\xc3\xa9"},
       {"nan", std::numeric_limits<double>::quiet_NaN()},
       {"n", 5U}});
  ASSERT_EQ(lines_.size(), 1U);
  const auto line = nlohmann::json::parse(lines_[0]);
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["event"], "disk_failed");
  EXPECT_EQ(line["why"], "a \"quote\"\n\x01\x7f \xef\xbf\xbd\xc3\xa9");
  EXPECT_TRUE(line["nan"].is_null());
  EXPECT_EQ(line["n"], 5);
  EXPECT_TRUE(line["time"].get<std::string>().ends_with("Z"));
}

TEST_F(LogTest, HostileTextStaysOneAsciiLine) {
  for (const LogFormat format : {LogFormat::kLogfmt, LogFormat::kJson}) {
    start(format);
    lines_.clear();
    std::string all;
    for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
    log(Level::kWarn, "a\nlevel=error event", {{"k=\n\"", all}, {"u", "\xe2\x80\xa8\xc2\x85"}});
    ASSERT_EQ(lines_.size(), 1U);
    const std::string body = lines_[0].substr(0, lines_[0].size() - 1);
    for (const char c : body) ASSERT_TRUE(c >= 0x20 && c < 0x7f) << body;
    EXPECT_THAT(body, HasSubstr("a_level_error_event"));
  }
}

TEST_F(LogTest, LinesAreBounded) {
  start(LogFormat::kLogfmt);
  log(Level::kInfo, "big", {{"v", std::string(5000, 'x')}});
  EXPECT_THAT(lines_.at(0), HasSubstr("x...(+3976 bytes)"));
  const std::string text(1024, '\x01');  // six bytes each once escaped
  log(Level::kInfo, "big", {{"a", text}, {"b", text}, {"c", 1}});
  EXPECT_LE(lines_.at(1).size(), kLogLineBytesMax + 64);
  EXPECT_THAT(lines_.at(1), HasSubstr("fields_left_out=2"));
  log(Level::kInfo, std::string(1000, 'e'));
  EXPECT_LE(lines_.at(2).size(), 150U);
}

TEST_F(LogTest, LevelsFilterAtRunTime) {
  start(LogFormat::kLogfmt, Level::kWarn);
  log(Level::kInfo, "no");
  EXPECT_TRUE(lines_.empty());
  set_log_level(Level::kTrace);
  EXPECT_EQ(log_level(), Level::kTrace);
  log(Level::kTrace, "yes");
  EXPECT_EQ(lines_.size(), 1U);
  set_log_level(Level::kOff);
  log(Level::kError, "no");
  log(Level::kOff, "no");
  EXPECT_EQ(lines_.size(), 1U);
}

TEST_F(LogTest, NamesParse) {
  for (const char* name : {"trace", "debug", "info", "warn", "error", "off"}) {
    EXPECT_EQ(level_name(*parse_level(name)), name);
  }
  EXPECT_THAT(parse_level("loud").error().message(), HasSubstr("'loud' is not one of trace"));
  EXPECT_EQ(*parse_log_format("json"), LogFormat::kJson);
  EXPECT_EQ(*parse_log_format("logfmt"), LogFormat::kLogfmt);
  EXPECT_FALSE(parse_log_format("xml"));
}

TEST_F(LogTest, EveryCountsWhatItHoldsBack) {
  start(LogFormat::kLogfmt);
  LogEvery every(1000);
  log_every(every, 50, Level::kInfo, "peer_lost");
  for (std::uint64_t now = 51; now < 1050; ++now) log_every(every, now, Level::kInfo, "peer_lost");
  log_every(every, 1050, Level::kInfo, "peer_lost", {{"peer", "p"}});
  log_every(every, 9000, Level::kInfo, "peer_lost");
  log_every(every, 99999, Level::kDebug, "peer_lost");
  ASSERT_EQ(lines_.size(), 3U);
  EXPECT_THAT(lines_[0], Not(HasSubstr("suppressed")));
  EXPECT_THAT(lines_[1], HasSubstr("event=peer_lost suppressed=999 peer=p"));
  EXPECT_THAT(lines_[2], Not(HasSubstr("suppressed")));
}

TEST_F(LogTest, SinkThatThrowsCostsOnlyTheLine) {
  configure_log({.sink = [](std::string_view) { throw std::runtime_error("full"); }});
  log(Level::kInfo, "lost");
  start(LogFormat::kLogfmt);
  log(Level::kInfo, "kept");
  EXPECT_EQ(lines_.size(), 1U);
}

}  // namespace
}  // namespace larder::obs
