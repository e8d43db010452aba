// SPDX-License-Identifier: Apache-2.0
#include "apps/cli.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "apps/cli_connection.h"
#include "apps/console.h"
#include "apps/exit_codes.h"

namespace larder::apps {
namespace {

struct Outcome {
  int exit = -1;
  std::string out;
  std::string err;
};

Outcome run(std::vector<std::string> arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.exit = run_larder(arguments);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(Cli, WrongArgumentsAreOneLineAndExitTwo) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"fly"},
      {"--nonsense"},
      {"get"},
      {"get", "a", "b"},
      {"put"},
      {"exists"},
      {"ls", "--limit", "-3"},
      {"get", "k", "--timeout", "soon"},
      {"get", "k", "--timeout", "0"},
      {"get", "k", "--path", "pigeon"},
      {"get", "k", "--tenant", ""},
      {"get", "k", "--address", "tcp:h:1", "--socket", "/s"},
      {"replay"},
      {"replay", "--trace", "t", "--requests", "-1"},
      {"replay", "--trace", "t", "--salt", "-1"},
      {"replay", "--trace", "t", "--hot-blocks", "-5"},
      {"replay", "--trace", "t", "--tensor-parallel", "-1"},
      {"demo", "--seed", "-1"},
      {"replay", "--trace", "t", "--workers", "0"},
      {"replay", "--trace", "t", "--workers", "9999"},
      {"replay", "--trace", "t", "--speed", "0"},
      {"replay", "--trace", "t", "--speed", "2", "--recorded"},
      {"replay", "--trace", "t", "--hot-blocks", "0"},
      {"replay", "--trace", "t", "--hot-blocks", "5", "--socket", "/s"},
      {"replay", "--trace", "t", "--model", "gpt-5"},
      {"replay", "--trace", "t", "--kill-and-restart"},
      {"replay", "--trace", "t", "--disk", "/d"},
      {"replay", "--trace", "t", "--block-bytes", "huge"},
      {"replay", "--trace", "t", "--batch-bytes", "1GiB"},
      {"node", "--no.such.key", "1"},
  };
  for (const auto& arguments : wrong) {
    const Outcome outcome = run(arguments);
    const std::string what = arguments.empty() ? "(none)" : arguments.back();
    EXPECT_EQ(outcome.exit, kExitUsage) << what << ": " << outcome.err;
    EXPECT_EQ(outcome.err.find("larder: error: "), 0U) << what << ": " << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "") << what;
  }
}

TEST(Cli, AMissingTraceIsNamed) {
  const Outcome outcome = run({"replay", "--trace", "/no/such.jsonl", "--hot-blocks", "5"});
  EXPECT_NE(outcome.exit, kExitOk);
  EXPECT_NE(outcome.err.find("/no/such.jsonl"), std::string::npos) << outcome.err;
}

TEST(Cli, NobodyThereExitsThree) {
  const std::string socket = "/tmp/larder-cli-test-" + std::to_string(::getpid()) + ".sock";
  for (const char* command : {"get", "exists", "rm", "stat", "ls"}) {
    const Outcome outcome = run({command, "k", "--socket", socket});
    EXPECT_EQ(outcome.exit, kExitUnreachable) << command << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(socket), std::string::npos) << outcome.err;
  }
}

TEST(Cli, HelpEverywhere) {
  const Outcome top = run({"--help"});
  EXPECT_EQ(top.exit, kExitOk);
  EXPECT_NE(top.out.find("Exit codes"), std::string::npos);
  for (const char* command : {"node", "put", "get", "exists", "rm", "stat", "ls", "device", "bench",
                              "replay", "demo", "doctor", "version"}) {
    EXPECT_NE(top.out.find(command), std::string::npos) << command;
    const Outcome help = run({command, "--help"});
    EXPECT_EQ(help.exit, kExitOk) << command;
    EXPECT_NE(help.out.find("--help"), std::string::npos) << command;
  }
  EXPECT_EQ(run({"version"}).out.find("larder "), 0U);
}

TEST(ConnectionOptions, FlagsWinOverTheEnvironment) {
  ::setenv("LARDER_SOCKET", "/from/env", 1);
  ConnectionFlags flags;
  EXPECT_EQ(connection_options(flags)->address, "unix:/from/env");
  flags.socket = "/flag";
  EXPECT_EQ(connection_options(flags)->address, "unix:/flag");
  flags.socket.clear();
  flags.address = "tcp:h:1";
  EXPECT_EQ(connection_options(flags)->address, "tcp:h:1");
  ::unsetenv("LARDER_SOCKET");
  flags.address.clear();
  flags.timeout = "1500us";
  flags.path = "shm";
  flags.object_set = "os";
  const auto options = connection_options(flags);
  ASSERT_TRUE(options);
  EXPECT_EQ(options->address, "");
  EXPECT_EQ(options->timeout.count(), 2);  // rounded up
  EXPECT_EQ(options->path, Path::kSharedMemory);
  EXPECT_EQ(options->space.object_set, "os");
}

TEST(ExitCodes, FollowTheKindOfError) {
  EXPECT_EQ(exit_code(Code::kOk), 0);
  EXPECT_EQ(exit_code(Code::kNotFound), 1);
  EXPECT_EQ(exit_code(Code::kInvalidArgument), 2);
  EXPECT_EQ(exit_code(Code::kUnavailable), 3);
  EXPECT_EQ(exit_code(Code::kDeadlineExceeded), 3);
  EXPECT_EQ(exit_code(Code::kCorrupt), 4);
  EXPECT_EQ(exit_code(Code::kBackpressure), 5);
}

TEST(Console, TablesAndNumbersAndHostileKeys) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(printable("a\x1b[2J\n"), "a\\x1b[2J\\x0a");
  EXPECT_EQ(format_table({{"a", "1"}, {"bbb", "22"}, {"c"}}), "a     1\nbbb  22\nc\n");
}

}  // namespace
}  // namespace larder::apps
