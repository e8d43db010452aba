// SPDX-License-Identifier: Apache-2.0
#include "env/temp_directory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>

namespace larder::env {
namespace {

TEST(TempDirectory, IsPrivateAndGoesWithWhatIsInIt) {
  std::string path;
  {
    auto made = TempDirectory::create("larder-test");
    ASSERT_TRUE(made) << made.error().to_string();
    const TempDirectory directory = std::move(*made);
    path = directory.path();
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700U);
    std::filesystem::create_directory(directory.file("sub"));
    std::ofstream(directory.file("sub/x")) << "x";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TempDirectory, SaysWhatToDoWhereItCannotBe) {
  const char* const before = ::getenv("TMPDIR");
  const std::optional<std::string> kept =
      before != nullptr ? std::optional<std::string>(before) : std::nullopt;
  ::setenv("TMPDIR", "/nowhere/at/all", 1);
  const auto refused = TempDirectory::create("larder-test");
  if (kept) {
    ::setenv("TMPDIR", kept->c_str(), 1);
  } else {
    ::unsetenv("TMPDIR");
  }
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.error().message().find("TMPDIR"), std::string::npos);
}

}  // namespace
}  // namespace larder::env
