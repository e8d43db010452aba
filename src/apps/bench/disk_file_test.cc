// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/disk_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "apps/bench/memory.h"
#include "apps/bench/page_pattern.h"
#include "env/temp_directory.h"

namespace larder::apps {
namespace {

TEST(DiskFile, IsFilledAndHasNoName) {
  const auto directory = env::TempDirectory::create("disk-file-test").value();
  const auto file = DiskFile::create(directory.path(), 1 << 20, 5);
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ((*file)->bytes(), std::uint64_t{1} << 20);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  auto memory = Mapping::private_memory(1 << 20).value();
  ASSERT_EQ(::pread((*file)->fd(), memory.bytes().data(), 1 << 20, 0), 1 << 20);
  EXPECT_TRUE(check_pages(memory.bytes(), 5, 0));
  EXPECT_TRUE(std::filesystem::exists((*file)->path()));
}

TEST(DiskFile, SaysWhichDirectoryItCannotUse) {
  const auto file = DiskFile::create("/proc/no-such-directory", 1 << 20, 5);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code(), Code::kInvalidArgument);
  EXPECT_NE(file.error().message().find("/proc/no-such-directory"), std::string::npos);
}

}  // namespace
}  // namespace larder::apps
