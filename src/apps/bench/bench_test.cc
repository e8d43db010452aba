// SPDX-License-Identifier: Apache-2.0
// The words of `larder bench nvmf` and `disk`: what they name, and what is refused before any work.
// What they measure: tests/integration/bench_test.cc.
#include "apps/bench/bench.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "apps/bench/disk_case.h"
#include "apps/bench/nvmf_case.h"
#include "apps/exit_codes.h"

namespace larder::apps {
namespace {

struct Outcome {
  int exit = -1;
  std::string out;
  std::string err;
};

Outcome bench(const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.exit = run_bench(words);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(Bench, ListsTheCasesOfNvmf) {
  const Outcome listed = bench({"nvmf", "--list"});
  EXPECT_EQ(listed.exit, kExitOk) << listed.err;
  EXPECT_EQ(listed.out,
            "nvmf.read.4KiB.q1\nnvmf.read.4KiB.q32\nnvmf.read.128KiB.q32\nnvmf.read.1MiB.q32\n"
            "nvmf.write.4KiB.q1\nnvmf.write.128KiB.q32\nnvmf.write.1MiB.q32\n");
  EXPECT_EQ(bench({"nvmf", "--list", "--case", "write.*q1$"}).out, "nvmf.write.4KiB.q1\n");
}

TEST(Bench, LocalAndRemoteDisksHaveCasesOfTheirOwn) {
  const Outcome remote = bench({"disk", "--remote", "--list"});
  EXPECT_EQ(remote.exit, kExitOk) << remote.err;
  EXPECT_EQ(remote.out, "remote.get.1MiB.b1\nremote.get.1MiB.b64\nremote.get.128KiB.b256\n");
  const Outcome local = bench({"disk", "--list"});
  EXPECT_EQ(local.exit, kExitOk) << local.err;
  EXPECT_EQ(local.out.find("disk."), 0U) << local.out;
  EXPECT_EQ(local.out.find("remote."), std::string::npos) << local.out;
}

TEST(Bench, WrongWordsExitTwo) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"fly"},
      {"nvmf", "--nonsense"},
      {"nvmf", "--case", "nonsense"},
      {"nvmf", "--case", "(nvmf"},
      {"nvmf", "--seconds", "0"},
      {"nvmf", "--repeat", "0"},
      {"nvmf", "--set-bytes", "1MiB"},
      {"nvmf", "--set-bytes", "much"},
      {"nvmf", "--remote"},
      {"disk", "--remote", "--case", "disk.get.1MiB.b1"},
      {"disk", "--case", "remote.get.1MiB.b1"},
      {"disk", "--remote", "--case", "(remote"},
      {"disk", "--remote", "--seconds", "soon"},
      {"disk", "--remote", "--hot-bytes", "1MiB"},
      {"disk", "--remote", "--hot-bytes", "1TiB"},
      {"disk", "--file-bytes", "1KiB"},
  };
  for (const auto& words : wrong) {
    const Outcome outcome = bench(words);
    const std::string what = words.empty() ? "(none)" : words.back();
    EXPECT_EQ(outcome.exit, kExitUsage) << what << ": " << outcome.err;
    EXPECT_EQ(outcome.err.find("larder: error: "), 0U) << what << ": " << outcome.err;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "") << what;
  }
}

// What is shown and judged beside a limit must be the same work.
TEST(NvmfCase, EachIsWhatItsNameSays) {
  const auto all = select_nvmf_cases({}).value();
  for (const NvmfCase& one : all) {
    EXPECT_NE(one.name.find(one.write ? ".write." : ".read."), std::string::npos) << one.name;
    EXPECT_TRUE(one.name.ends_with(".q" + std::to_string(one.depth))) << one.name;
    EXPECT_EQ(one.measure, one.depth == 1 ? Measure::kLatency : Measure::kThroughput) << one.name;
  }
}

TEST(DiskCase, RemoteOnesAreGetsAndHaveBars) {
  const auto all = select_disk_cases({}, true).value();
  for (const DiskCase& one : all) {
    EXPECT_EQ(one.op, DiskOp::kGet) << one.name;  // beside bare reads
    EXPECT_TRUE(one.bar.has_value()) << one.name;
  }
}

}  // namespace
}  // namespace larder::apps
