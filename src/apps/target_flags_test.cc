// SPDX-License-Identifier: Apache-2.0
#include "apps/target_flags.h"

#include <gtest/gtest.h>

#include "env/temp_directory.h"

namespace larder::apps {
namespace {

TEST(TargetFlags, FileSpecs) {
  EXPECT_EQ(parse_file_spec("/a/b")->path, "/a/b");
  EXPECT_EQ(parse_file_spec("/a/b")->bytes, 0U);
  EXPECT_EQ(parse_file_spec("/a/b:4KiB")->bytes, 4096U);
  EXPECT_EQ(parse_file_spec("/a/../b:4KiB")->path, "/b");
  EXPECT_EQ(parse_file_spec("/a/b:c")->path, "/a/b:c");
  EXPECT_FALSE(parse_file_spec("/a/b:4Potatoes"));
  EXPECT_FALSE(parse_file_spec("/a/b:0"));
  EXPECT_FALSE(parse_file_spec(""));
}

TEST(TargetFlags, WhereItListens) {
  EXPECT_EQ(parse_listen(":0")->to_string(), parse_listen("127.0.0.1:0")->to_string());
  EXPECT_EQ(parse_listen("10.0.0.5")->port, 4420);
  EXPECT_EQ(parse_listen("[::1]")->host, "::1");
  EXPECT_EQ(parse_listen("[::1]:7")->port, 7);
  EXPECT_FALSE(parse_listen("unix:/tmp/x"));
  EXPECT_FALSE(parse_listen("127.0.0.1:99999"));
}

TEST(TargetFlags, Namespaces) {
  TargetFlags flags;
  EXPECT_EQ(open_namespaces(flags).error().code(), Code::kInvalidArgument);
  const auto folder = env::TempDirectory::create("larder-target");
  ASSERT_TRUE(folder);
  flags.ram = {"1MiB"};
  flags.files = {folder->file("ns") + ":2MiB"};
  flags.read_only = true;
  const auto made = open_namespaces(flags);
  ASSERT_TRUE(made) << made.error().to_string();
  ASSERT_EQ(made->size(), 2U);
  EXPECT_EQ((*made)[0].ram_bytes, 1U << 20U);
  EXPECT_EQ((*made)[1].device->geometry().bytes(), 2U << 20U);
  EXPECT_TRUE((*made)[1].read_only);
  flags.files = {folder->file("absent")};
  const auto absent = open_namespaces(flags);
  ASSERT_FALSE(absent);
  EXPECT_NE(absent.error().message().find("give it a size"), std::string::npos);
  flags.files = {};
  flags.block_bytes = 1000;
  EXPECT_EQ(open_namespaces(flags).error().code(), Code::kInvalidArgument);
  flags.block_bytes = 4096;
  flags.ram = {"many"};
  EXPECT_EQ(open_namespaces(flags).error().code(), Code::kInvalidArgument);
}

TEST(TargetFlags, Options) {
  TargetFlags flags;
  flags.listen = ":4421";
  flags.nqn = "nqn.2024-01.io.larder:x";
  const auto options = target_options(flags);
  ASSERT_TRUE(options);
  EXPECT_EQ(options->listen.port, 4421);
  EXPECT_EQ(options->nqn, "nqn.2024-01.io.larder:x");
}

}  // namespace
}  // namespace larder::apps
