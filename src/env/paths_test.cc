// SPDX-License-Identifier: Apache-2.0
#include "env/paths.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "larder/client.h"

namespace larder::env {
namespace {

class PathsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "larder-paths-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string write(const std::string& content, mode_t mode = 0600) {
    const std::string path = dir_ + "/token";
    std::ofstream(path, std::ios::binary) << content;
    ::chmod(path.c_str(), mode);
    return path;
  }
  static Code code_of(const std::string& path) {
    const auto token = read_token_file(path);
    return token ? Code::kOk : token.error().code();
  }

  std::string dir_;
};

TEST_F(PathsTest, MakesMissingParentsForTheUserOnly) {
  ASSERT_TRUE(make_private_parent(dir_ + "/a/b/node.sock"));
  struct stat info {};
  ASSERT_EQ(::stat((dir_ + "/a/b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
  ASSERT_EQ(::stat((dir_ + "/a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/a/b/node.sock"));
  EXPECT_TRUE(make_private_parent(dir_ + "/a/b/node.sock"));  // again: nothing to do
}

TEST_F(PathsTest, NothingToMakeForRootAndRelativeNames) {
  EXPECT_TRUE(make_private_parent("/node.sock"));
  EXPECT_TRUE(make_private_parent("node.sock"));
  EXPECT_TRUE(make_private_parent(""));
}

TEST_F(PathsTest, ParentThatIsAFileIsRefused) {
  const std::string file = write("x");
  const auto direct = make_private_parent(file + "/node.sock");
  ASSERT_FALSE(direct);
  EXPECT_EQ(direct.error().code(), Code::kInvalidArgument);
  EXPECT_NE(direct.error().message().find(file), std::string::npos);
  EXPECT_FALSE(make_private_parent(file + "/below/node.sock"));
}

TEST_F(PathsTest, TokenLosesItsNewlinesOnly) {
  EXPECT_EQ(read_token_file(write("0123456789abcdef\n")).value(), "0123456789abcdef");
  EXPECT_EQ(read_token_file(write("0123456789abcdef\r\n\r\n")).value(), "0123456789abcdef");
  EXPECT_EQ(read_token_file(write(" 0123456789abcde ")).value(), " 0123456789abcde ");
  const std::string binary("0123456789\0\n\xff bcdef", 19);
  EXPECT_EQ(read_token_file(write(binary)).value(), binary);
}

TEST_F(PathsTest, TokenLengthIsBounded) {
  EXPECT_EQ(code_of(write(std::string(15, 'x') + "\n")), Code::kInvalidArgument);
  EXPECT_EQ(code_of(write(std::string(16, 'x'))), Code::kOk);
  EXPECT_EQ(code_of(write(std::string(4096, 'x') + "\n")), Code::kOk);
  EXPECT_EQ(code_of(write(std::string(4097, 'x'))), Code::kInvalidArgument);
  EXPECT_EQ(code_of(write(std::string(1 << 20, 'x'))), Code::kInvalidArgument);
  EXPECT_EQ(code_of(write("")), Code::kInvalidArgument);
}

TEST_F(PathsTest, TokenMustBePrivate) {
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0777}) {
    const auto token = read_token_file(write("0123456789abcdef", mode));
    ASSERT_FALSE(token) << mode;
    EXPECT_EQ(token.error().code(), Code::kInvalidArgument);
    EXPECT_NE(token.error().message().find("chmod 600"), std::string::npos);
    // A secret never gets into a message.
    EXPECT_EQ(token.error().message().find("0123456789"), std::string::npos);
  }
  EXPECT_EQ(code_of(write("0123456789abcdef", 0400)), Code::kOk);
}

TEST_F(PathsTest, TokenMustBeAFile) {
  EXPECT_EQ(code_of(dir_), Code::kInvalidArgument);
  EXPECT_EQ(code_of(dir_ + "/missing"), Code::kInvalidArgument);
  const std::string fifo = dir_ + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(code_of(fifo), Code::kInvalidArgument);  // and does not wait for a writer
}

TEST_F(PathsTest, DefaultSocketPathFollowsTheRuntimeDirectory) {
  ASSERT_EQ(::setenv("XDG_RUNTIME_DIR", "/run/user/7", 1), 0);
  EXPECT_EQ(default_socket_path(), "/run/user/7/larder/node.sock");
  ASSERT_EQ(::setenv("XDG_RUNTIME_DIR", "relative", 1), 0);
  EXPECT_EQ(default_socket_path().rfind("/tmp/larder-", 0), 0U);
  ASSERT_EQ(::unsetenv("XDG_RUNTIME_DIR"), 0);
  EXPECT_EQ(default_socket_path().rfind("/tmp/larder-", 0), 0U);
}

}  // namespace
}  // namespace larder::env
