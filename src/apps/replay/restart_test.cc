// SPDX-License-Identifier: Apache-2.0
#include "apps/replay/restart.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace larder::apps {
namespace {

std::vector<TraceRequest> trace_of(std::vector<std::uint64_t> times) {
  std::vector<TraceRequest> trace;
  for (const std::uint64_t time : times) {
    TraceRequest request;
    request.timestamp_ms = time;
    request.ids = {time};
    trace.push_back(request);
  }
  return trace;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> part(const std::vector<TraceRequest>& trace,
                                                          std::uint64_t from, std::uint64_t to) {
  TracePart source(std::make_unique<TraceVector>(trace), from, to);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> out;
  TraceRequest request;
  while (source.next(request).value()) out.emplace_back(request.ids.front(), request.timestamp_ms);
  return out;
}

// Each part begins at once, also where times go back.
TEST(TracePart, TimesBeginWithThePart) {
  using Pairs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  const auto trace = trace_of({100, 150, 300, 280, 400});
  EXPECT_EQ(part(trace, 0, 2), (Pairs{{100, 0}, {150, 50}}));
  EXPECT_EQ(part(trace, 2, 5), (Pairs{{300, 0}, {280, 0}, {400, 100}}));
  EXPECT_EQ(part(trace, 4, 9), (Pairs{{400, 0}}));
  EXPECT_EQ(part(trace, 5, 9), Pairs{});
  EXPECT_EQ(part(trace, 1, 1), Pairs{});
}

TEST(RestartReport, AddsTheHalvesUp) {
  RestartReport report;
  report.first.blocks = 100;
  report.first.hits = 20;
  report.first.ideal_hits = 30;
  report.second.blocks = 300;
  report.second.hits = 60;
  report.second.ideal_hits = 90;
  report.second.wrong_bytes = 7;
  report.kept_blocks = 1234;
  report.lost_blocks = 56;
  EXPECT_DOUBLE_EQ(report.hit_rate(), 0.2);
  EXPECT_DOUBLE_EQ(report.ideal_hit_rate(), 0.3);
  const auto json = nlohmann::json::parse(restart_json(report));
  EXPECT_EQ(json["kept_blocks"], 1234);
  EXPECT_EQ(json["lost_blocks"], 56);
  EXPECT_EQ(json["wrong_bytes"], 7);
  EXPECT_EQ(json["first_half"]["hits"], 20);
  EXPECT_EQ(json["second_half"]["hits"], 60);
  const std::string table = restart_table(report);
  for (const char* text : {"1,234", "56", "20.00%", "30.00%"}) {
    EXPECT_NE(table.find(text), std::string::npos) << text << " in\n" << table;
  }
  EXPECT_DOUBLE_EQ(RestartReport().hit_rate(), 0.0);
}

}  // namespace
}  // namespace larder::apps
