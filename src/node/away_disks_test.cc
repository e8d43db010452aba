// SPDX-License-Identifier: Apache-2.0
#include "node/away_disks.h"

#include <gtest/gtest.h>

#include "obs/log.h"

namespace larder::node {
namespace {

class AwayDisksTest : public testing::Test {
 protected:
  void add(const std::string& disk) { disks_.add(disk, Error(Code::kUnavailable, "no answer"), 0); }
  std::vector<std::string> tried_;
  Code answer_ = Code::kUnavailable;
  int numbers_ = 1;
  AwayDisks disks_{[this](const std::string& disk) -> Result<void> {
                     tried_.push_back(disk);
                     if (answer_ == Code::kOk) return {};
                     return fail(answer_, "no answer");
                   },
                   [this]() -> Result<void> {
                     if (numbers_ > 0) return {};
                     return fail(Code::kExhausted, "no number is left");
                   }};
};

TEST_F(AwayDisksTest, TriesAtLongerAndLongerIntervalsUntilItIsBack) {
  add("a");
  env::Nanos now = 0;
  std::vector<env::Nanos> at;
  for (; now < 300 * env::kSecond; now += env::kSecond) {
    const std::size_t before = tried_.size();
    disks_.step(now);
    if (tried_.size() > before) at.push_back(now / env::kSecond);
  }
  EXPECT_EQ(at, (std::vector<env::Nanos>{1, 3, 7, 15, 31, 63, 123, 183, 243}));
  answer_ = Code::kOk;
  disks_.step(now + AwayDisks::kDelayMax);
  EXPECT_TRUE(disks_.names().empty());
  const std::size_t before = tried_.size();
  disks_.step(now + 10 * AwayDisks::kDelayMax);
  EXPECT_EQ(tried_.size(), before);
}

TEST_F(AwayDisksTest, OneThatIsKnownIsNotKnownTwice) {
  add("a");
  add("b");
  add("a");
  EXPECT_EQ(disks_.names(), (std::vector<std::string>{"a", "b"}));
}

// An operator added it meanwhile.
TEST_F(AwayDisksTest, OneThatIsInServiceIsNotAwayAnyMore) {
  add("a");
  answer_ = Code::kAlreadyExists;
  disks_.step(env::kSecond);
  EXPECT_TRUE(disks_.names().empty());
}

// Log lines while it lives.
class LogLines {
 public:
  LogLines() {
    obs::LogOptions options;
    options.sink = [this](std::string_view line) { text_ += line; };
    obs::configure_log(options);
  }
  ~LogLines() { obs::configure_log({}); }
  std::size_t count(std::string_view part) const {
    std::size_t found = 0;
    for (std::size_t at = text_.find(part); at != std::string::npos;
         at = text_.find(part, at + 1)) {
      ++found;
    }
    return found;
  }

 private:
  std::string text_;
};

TEST_F(AwayDisksTest, WithoutNumbersTheyAreLeftOutAndThatIsSaidOnce) {
  add("a");
  add("b");
  numbers_ = 0;
  const LogLines log;
  for (env::Nanos now = 0; now < 1000 * env::kSecond; now += env::kSecond) disks_.step(now);
  EXPECT_TRUE(tried_.empty());
  EXPECT_EQ(log.count("event=disk_left_out disk=a error=\"exhausted: no number is left"), 1U);
  EXPECT_EQ(log.count("event=disk_left_out disk=b"), 1U);
  EXPECT_EQ(log.count("event="), 2U);
  EXPECT_EQ(disks_.names(), (std::vector<std::string>{"a", "b"}));  // the metric counts them
}

TEST_F(AwayDisksTest, OneThatFailsWhenNumbersAreGoneIsLeftOutAtOnce) {
  numbers_ = 0;
  const LogLines log;
  add("a");
  add("a");
  EXPECT_EQ(log.count("event=disk_left_out disk=a"), 1U);
  EXPECT_EQ(log.count("it failed with unavailable: no answer"), 1U);
  EXPECT_EQ(log.count("event=disk_away"), 0U);
  disks_.step(10 * AwayDisks::kDelayMax);
  EXPECT_TRUE(tried_.empty());
}

// Two are due at once, and the first takes the last number.
TEST_F(AwayDisksTest, TheLastNumberGoesToTheFirstThatIsBack) {
  int numbers = 1;
  std::vector<std::string> opened;
  AwayDisks disks(
      [&](const std::string& disk) -> Result<void> {
        opened.push_back(disk);
        --numbers;
        return {};
      },
      [&]() -> Result<void> {
        if (numbers > 0) return {};
        return fail(Code::kExhausted, "no number is left");
      });
  for (const char* disk : {"a", "b"}) disks.add(disk, Error(Code::kUnavailable, "gone"), 0);
  disks.step(env::kSecond);
  EXPECT_EQ(opened, std::vector<std::string>{"a"});
  EXPECT_EQ(disks.names(), std::vector<std::string>{"b"});
}

}  // namespace
}  // namespace larder::node
