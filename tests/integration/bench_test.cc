// SPDX-License-Identifier: Apache-2.0
// `larder bench` of NVMe over TCP as a process: that it measures, says what, and leaves nothing.
// How fast it is says nothing here: one short round each, beside other tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "program.h"

namespace larder::integration {
namespace {

using nlohmann::json;

class BenchTest : public testing::Test {
 protected:
  // One short round; the rows that it wrote.
  json rows_of(const std::string& words) {
    const std::string file = dir_.file("rows");
    outcome_ =
        run_program("bench " + words + " --seconds 0.05 --repeat 1 --json '" + file + "'", dir_);
    EXPECT_EQ(outcome_.exit, 0) << outcome_.err;
    return json::parse(dir_.read("rows"), nullptr, false);
  }
  // The text has a line for it that begins with its name.
  bool shown(const std::string& name) const {
    return outcome_.out.find("\n" + name + " ") != std::string::npos;
  }
  void expect_measured(json row, const std::string& name) {
    EXPECT_EQ(row["case"], name);
    for (const char* figure : {"ops_per_s", "bytes_per_s", "p50_us", "p99_us", "p999_us"}) {
      EXPECT_GT(row.value(figure, 0.0), 0) << name << " " << figure;
    }
    EXPECT_TRUE(shown(name)) << outcome_.out;
  }
  static void expect_judged(json row) {
    EXPECT_NE(row.value("limit", ""), "");
    for (const char* figure : {"ratio", "bar", "limit_ops_per_s", "limit_bytes_per_s"}) {
      EXPECT_GT(row.value(figure, 0.0), 0) << figure;
    }
    ASSERT_TRUE(row["pass"].is_boolean());
    EXPECT_EQ(row["pass"], row["ratio"].get<double>() >= row["bar"].get<double>());
  }

  const Directory dir_;
  Outcome outcome_;
};

TEST_F(BenchTest, NvmfBesideRawSockets) {
  json rows = rows_of(
      "nvmf --set-bytes 64MiB --case nvmf.read.4KiB.q1 --case nvmf.read.1MiB.q32 "
      "--case nvmf.write.128KiB.q32");
  ASSERT_EQ(rows.size(), 3U) << outcome_.out;
  const char* const names[] = {"nvmf.read.4KiB.q1", "nvmf.read.1MiB.q32", "nvmf.write.128KiB.q32"};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    expect_measured(rows[i], names[i]);
    expect_judged(rows[i]);
    EXPECT_TRUE(rows[i]["cpu_s_per_gb"].is_object());
  }
  EXPECT_EQ(rows[0]["measure"], "latency");
  EXPECT_EQ(rows[1]["measure"], "throughput");
  EXPECT_NE(outcome_.out.find("core seconds per GB"), std::string::npos) << outcome_.out;
  EXPECT_NE(outcome_.out.find(" of 3 bars reached"), std::string::npos) << outcome_.out;
}

TEST_F(BenchTest, NvmfWithoutItsLimits) {
  json rows = rows_of("nvmf --set-bytes 64MiB --case nvmf.write.4KiB.q1 --no-limits --check");
  ASSERT_EQ(rows.size(), 1U) << outcome_.out;
  expect_measured(rows[0], "nvmf.write.4KiB.q1");
  EXPECT_TRUE(rows[0]["limit"].is_null()) << rows[0];
  EXPECT_TRUE(rows[0]["pass"].is_null()) << rows[0];
}

TEST_F(BenchTest, ANodeOnARemoteDiskBesideBareReads) {
  json rows = rows_of("disk --remote --hot-bytes 16MiB --case remote.get.1MiB.b1");
  ASSERT_EQ(rows.size(), 1U) << outcome_.out;
  expect_measured(rows[0], "remote.get.1MiB.b1");
  expect_judged(rows[0]);
  EXPECT_NE(rows[0]["limit"].get<std::string>().find("nvme-tcp read 1MiB"), std::string::npos);
}

TEST_F(BenchTest, AFileThatCannotBeWrittenIsSaidSo) {
  const Outcome failed = run_program(
      "bench nvmf --set-bytes 64MiB --seconds 0.01 --repeat 1 --no-limits --case nvmf.read.4KiB.q1 "
      "--json /no/such/folder/rows",
      dir_);
  EXPECT_NE(failed.exit, 0);
  EXPECT_NE(failed.err.find("/no/such/folder/rows"), std::string::npos) << failed.err;
}

}  // namespace
}  // namespace larder::integration
