// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/report.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace larder::apps {
namespace {

TEST(Report, WhatCouldNotBeMeasuredSaysWhy) {
  std::array<BenchRow, 1> rows;
  rows[0].name = "shm.read.4KiB.b1.t1";
  rows[0].unsupported = "no \"shm\" here";
  EXPECT_EQ(rows_to_json(rows),
            "[\n {\n  \"case\": \"shm.read.4KiB.b1.t1\",\n"
            "  \"unsupported\": \"no \\\"shm\\\" here\"\n }\n]\n");
  EXPECT_NE(table_line(rows[0]).find("unsupported: no \"shm\" here\n"), std::string::npos);
}

TEST(Report, MissedBarsAreAnErrorWhenAskedFor) {
  std::array<BenchRow, 2> rows;
  rows[0].name = "good";
  rows[0].verdict = Verdict::kPass;
  rows[1].name = "bad";
  rows[1].verdict = Verdict::kMiss;
  EXPECT_TRUE(judge_all(rows, false));
  const auto judged = judge_all(rows, true);
  ASSERT_FALSE(judged);
  EXPECT_NE(judged.error().message().find("bad"), std::string::npos);
  EXPECT_EQ(judged.error().message().find("good"), std::string::npos);
}

}  // namespace
}  // namespace larder::apps
