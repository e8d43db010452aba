// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/host_identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "env/temp_directory.h"
#include "nvmf/pdu/connect.h"

namespace larder::nvmf {
namespace {

class HostIdentityTest : public testing::Test {
 protected:
  HostIdentityOptions options() {
    HostIdentityOptions out;
    out.system_directory = directory_.file("etc");
    out.state_directory = directory_.file("state");
    return out;
  }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(directory_.file("etc"));
    std::ofstream(directory_.file("etc/" + name)) << text;
  }
  env::TempDirectory directory_ = std::move(*env::TempDirectory::create("larder-nvmf"));
};

TEST_F(HostIdentityTest, OneIsMadeAndKept) {
  const auto first = host_identity(options());
  ASSERT_TRUE(first) << first.error().to_string();
  EXPECT_TRUE(first->nqn.starts_with("nqn.2014-08.org.nvmexpress:uuid:"));
  EXPECT_TRUE(first->nqn.ends_with(uuid_text(first->id)));
  const auto second = host_identity(options());
  ASSERT_TRUE(second);
  EXPECT_EQ(second->nqn, first->nqn);
  EXPECT_EQ(second->id, first->id);
}

TEST_F(HostIdentityTest, ManyAtOnceGetTheSame) {
  std::vector<std::string> seen(8);
  std::vector<std::thread> threads;
  for (std::string& nqn : seen) {
    threads.emplace_back([&nqn, given = options()] {
      if (const auto identity = host_identity(given)) nqn = identity->nqn;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(seen[0].empty());
  EXPECT_EQ(std::count(seen.begin(), seen.end(), seen[0]), 8);
  // Only the file itself is left.
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.file("state"))) {
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(files, 1U);
}

TEST_F(HostIdentityTest, TheSystemsComesFirst) {
  write("hostnqn", "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6\n");
  auto identity = host_identity(options());
  ASSERT_TRUE(identity);
  EXPECT_EQ(uuid_text(identity->id), "f81d4fae-7dec-11d0-a765-00a0c91e6bf6");
  write("hostid", "00000000-7dec-11d0-a765-00a0c91e6bf6\n");
  identity = host_identity(options());
  ASSERT_TRUE(identity);
  EXPECT_EQ(uuid_text(identity->id), "00000000-7dec-11d0-a765-00a0c91e6bf6");
  EXPECT_FALSE(std::filesystem::exists(directory_.file("state")));
}

TEST_F(HostIdentityTest, TheOneGivenComesBeforeIt) {
  write("hostnqn", "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6\n");
  HostIdentityOptions given = options();
  given.nqn = "nqn.2020-01.org.example:host1";
  const auto one = host_identity(given);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->nqn, given.nqn);
  EXPECT_EQ(one->id, host_identity(given)->id);
  given.nqn = "nqn.2020-01.org.example:host2";
  EXPECT_NE(one->id, host_identity(given)->id);
}

TEST_F(HostIdentityTest, WhatIsNoneIsRefused) {
  HostIdentityOptions given = options();
  given.nqn = "me";
  EXPECT_EQ(host_identity(given).error().code(), Code::kInvalidArgument);
  write("hostnqn", "garbage\n");
  EXPECT_EQ(host_identity(options()).error().code(), Code::kInvalidArgument);
  write("hostnqn", "nqn.2020-01.org.example:host1\n");
  write("hostid", "12\n");
  EXPECT_EQ(host_identity(options()).error().code(), Code::kInvalidArgument);
}

TEST_F(HostIdentityTest, WithoutAPlaceItIsGoodForNow) {
  HostIdentityOptions given = options();
  given.state_directory = "/proc/none";
  const auto identity = host_identity(given);
  ASSERT_TRUE(identity) << identity.error().to_string();
  EXPECT_EQ(identity->from, "this process");
}

}  // namespace
}  // namespace larder::nvmf
