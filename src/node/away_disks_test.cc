// SPDX-License-Identifier: Apache-2.0
#include "node/away_disks.h"

#include <gtest/gtest.h>

namespace larder::node {
namespace {

class AwayDisksTest : public testing::Test {
 protected:
  void add(const std::string& disk) { disks_.add(disk, Error(Code::kUnavailable, "no answer"), 0); }
  std::vector<std::string> tried_;
  Code answer_ = Code::kUnavailable;
  AwayDisks disks_{[this](const std::string& disk) -> Result<void> {
    tried_.push_back(disk);
    if (answer_ == Code::kOk) return {};
    return fail(answer_, "no answer");
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

}  // namespace
}  // namespace larder::node
