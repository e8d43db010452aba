// SPDX-License-Identifier: Apache-2.0
#include "apps/node_flags.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>

namespace larder::apps {
namespace {

class NodeFlagsTest : public testing::Test {
 protected:
  // Parses as `larder node` would; the error's message, or nothing.
  std::string parse(std::vector<std::string> arguments) {
    env::ConfigSchema schema;
    schema.add_size("hot.capacity", "4GiB", {.min = 1 << 20}, "bytes of DRAM",
                    env::into(capacity_));
    schema.add_bool("hot.huge_pages", false, "ask for huge pages", env::into(huge_));
    auto config = env::Config::create(std::move(schema));
    if (!config) return config.error().message();
    CLI::App app;
    NodeFlags flags;
    add_node_flags(app, *config, flags);
    std::reverse(arguments.begin(), arguments.end());
    try {
      app.parse(std::move(arguments));
    } catch (const CLI::ParseError& e) {
      return e.what();
    }
    const auto applied = apply_node_flags(*config, flags);
    return applied ? "" : applied.error().message();
  }
  std::uint64_t capacity_ = 0;
  bool huge_ = false;
};

TEST_F(NodeFlagsTest, DefaultsThenFileThenFlags) {
  EXPECT_EQ(parse({}), "");
  EXPECT_EQ(capacity_, 4ULL << 30);
  const std::string path = testing::TempDir() + "node_flags_" + std::to_string(::getpid());
  std::ofstream(path) << "hot:\n  capacity: 2GiB\n  huge_pages: true\n";
  EXPECT_EQ(parse({"--config", path}), "");
  EXPECT_EQ(capacity_, 2ULL << 30);
  EXPECT_TRUE(huge_);
  EXPECT_EQ(parse({"--hot.capacity", "1GiB", "--config", path, "--hot.huge_pages=false"}), "");
  EXPECT_EQ(capacity_, 1ULL << 30);
  EXPECT_FALSE(huge_);
  std::ofstream(path) << "hot:\n  capacitee: 2GiB\n";
  EXPECT_NE(parse({"--config", path}).find(path + ":2"), std::string::npos);
  ::unlink(path.c_str());
}

TEST_F(NodeFlagsTest, ASwitchNeedsNoValue) {
  EXPECT_EQ(parse({"--hot.huge_pages", "--hot.capacity", "1MiB"}), "");
  EXPECT_TRUE(huge_);
  EXPECT_EQ(parse({"--hot.huge_pages", "no"}), "");
  EXPECT_FALSE(huge_);
}

TEST_F(NodeFlagsTest, WrongOnesAreNamed) {
  EXPECT_NE(parse({"--hot.capacity", "lots"}).find("--hot.capacity"), std::string::npos);
  EXPECT_NE(parse({"--hot.capacity", "5"}).find("--hot.capacity"), std::string::npos);
  EXPECT_NE(parse({"--hot.capcity", "5MiB"}), "");
  EXPECT_NE(parse({"--hot.capacity"}), "");
  EXPECT_NE(parse({"--config", "/no/such.yaml"}).find("/no/such.yaml"), std::string::npos);
}

}  // namespace
}  // namespace larder::apps
