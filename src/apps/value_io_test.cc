// SPDX-License-Identifier: Apache-2.0
#include "apps/value_io.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace larder::apps {
namespace {

class ValueIo : public testing::Test {
 protected:
  ValueIo() : path_(testing::TempDir() + "value_io_" + std::to_string(::getpid())) {}
  ~ValueIo() override { std::filesystem::remove(path_); }
  void write(std::size_t bytes) {
    std::ofstream(path_, std::ios::binary) << std::string(bytes, 'v');
  }
  std::string path_;
};

TEST_F(ValueIo, ReadsWholeFilesInPieces) {
  for (std::size_t bytes : {std::size_t{1}, std::size_t{64} << 10, (std::size_t{200} << 10) + 1}) {
    write(bytes);
    const auto value = read_value(path_);
    ASSERT_TRUE(value) << value.error().message();
    EXPECT_EQ(value->bytes, bytes);
    std::size_t sum = 0;
    for (const auto& view : value->views()) {
      EXPECT_FALSE(view.empty());
      sum += view.size();
    }
    EXPECT_EQ(sum, bytes);
  }
}

TEST_F(ValueIo, RefusesNothingAndTooMuch) {
  write(0);
  EXPECT_EQ(read_value(path_).error().code(), Code::kInvalidArgument);
  write(101);
  EXPECT_EQ(read_value(path_, 100).error().code(), Code::kTooLarge);
  EXPECT_TRUE(read_value(path_, 101));
  EXPECT_EQ(read_value("/dev/zero", 1 << 20).error().code(), Code::kTooLarge);
  EXPECT_EQ(read_value("/no/such/file").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(read_value("/").error().code(), Code::kInvalidArgument);
}

TEST_F(ValueIo, WritesBesideAndRenames) {
  const std::string text = "new";
  write(10);
  ASSERT_TRUE(write_value(path_, std::as_bytes(std::span(text))));
  const auto value = read_value(path_);
  ASSERT_TRUE(value);
  EXPECT_EQ(value->bytes, 3U);
  EXPECT_TRUE(write_value("/dev/null", std::as_bytes(std::span(text))));
  EXPECT_FALSE(write_value("/no/such/dir/file", std::as_bytes(std::span(text))));
  EXPECT_FALSE(write_value("/dev/full", std::as_bytes(std::span(text))));
}

TEST(IsText, KnowsWhatATerminalMustNotSee) {
  const std::string text = "plain\ttext\r\n \xc3\xa9";
  const std::string escape = "a\x1b[2J";
  EXPECT_TRUE(is_text(std::as_bytes(std::span(text))));
  EXPECT_FALSE(is_text(std::as_bytes(std::span(escape))));
}

}  // namespace
}  // namespace larder::apps
