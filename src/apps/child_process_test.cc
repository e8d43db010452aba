// SPDX-License-Identifier: Apache-2.0
#include "apps/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "apps/stop_signal.h"

namespace larder::apps {
namespace {

class Child : public testing::Test {
 protected:
  Child() : output_(testing::TempDir() + "child_" + std::to_string(::getpid())) {}
  ~Child() override { ::unlink(output_.c_str()); }
  Result<ChildProcess> shell(const std::string& script) {
    return ChildProcess::start({"/bin/sh", {"-c", script}, output_});
  }
  std::string output() {
    std::stringstream text;
    text << std::ifstream(output_).rdbuf();
    return text.str();
  }
  std::string output_;
};

TEST_F(Child, RunsWritesAndTellsHowItEnded) {
  auto child = shell("echo out; echo err >&2; read line || exit 7");
  ASSERT_TRUE(child) << child.error().message();
  std::optional<std::string> how;
  while (!how) how = child->ended();
  EXPECT_EQ(*how, "exit code 7");
  EXPECT_EQ(child->code(), 7);
  EXPECT_EQ(output(), "out\nerr\n");
  EXPECT_EQ(child->ended(), "exit code 7");
}

TEST_F(Child, AProgramThatIsNotThereIsAnError) {
  const auto child = ChildProcess::start({"/no/such/program", {}, output_});
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().code(), Code::kNotFound);
  EXPECT_NE(child.error().message().find("/no/such/program"), std::string::npos);
  EXPECT_FALSE(ChildProcess::start({"/bin/sh", {}, "/no/such/dir/log"}));
}

TEST_F(Child, StopAsksFirst) {
  auto child = shell("trap 'exit 3' TERM; echo ready; while :; do :; done");
  ASSERT_TRUE(child);
  while (output().empty()) ASSERT_FALSE(child->ended());
  child->stop(10 * env::kSecond);
  EXPECT_EQ(child->code(), 3);
}

TEST_F(Child, StopKillsWhoDoesNotListen) {
  auto child = shell("trap '' TERM; echo ready; while :; do :; done");
  ASSERT_TRUE(child);
  while (output().empty()) ASSERT_FALSE(child->ended());
  child->stop(20 * env::kMilli);
  EXPECT_EQ(child->code(), 128 + SIGKILL);
  EXPECT_EQ(child->ended(), "signal 9");
}

TEST_F(Child, IsGoneWithItsOwner) {
  pid_t pid = -1;
  {
    auto child = shell("while :; do :; done");
    ASSERT_TRUE(child);
    pid = child->pid();
    ASSERT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST(StopSignals, TheFirstIsAFlagAndWakesTheWaiter) {
  auto signals = StopSignal::install();
  ASSERT_TRUE(signals) << signals.error().message();
  EXPECT_EQ(StopSignal::received(), 0);
  ::raise(SIGTERM);
  EXPECT_EQ(StopSignal::received(), SIGTERM);
  EXPECT_EQ(signals->wait(), SIGTERM);
}

TEST(StopSignals, AHangupWakesTheWaiterAndEndsNothing) {
  auto signals = StopSignal::install(true);
  ASSERT_TRUE(signals);
  ::raise(SIGHUP);
  EXPECT_EQ(signals->wait(), SIGHUP);
  EXPECT_EQ(StopSignal::received(), 0);
  ::raise(SIGHUP);
  ::raise(SIGTERM);  // says more
  EXPECT_EQ(signals->wait(), SIGTERM);
}

TEST(StopSignalsDeathTest, TheSecondEndsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const auto signals = StopSignal::install();
        ::raise(SIGINT);
        ::raise(SIGINT);
      },
      testing::ExitedWithCode(128 + SIGINT), "");
}

}  // namespace
}  // namespace larder::apps
