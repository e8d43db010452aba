// SPDX-License-Identifier: Apache-2.0
#include "fileio/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "fileio/direct_io.h"
#include "fileio/file_errors.h"
#include "fileio/fileio_testing.h"

namespace larder::fileio {
namespace {

class FileTest : public testing::Test {
 protected:
  void expect_error(const std::string& path, const FileOptions& options, Code code,
                    const std::string& words) {
    const auto opened = File::open(path, options);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code(), code) << opened.error().to_string();
    EXPECT_NE(opened.error().message().find(words), std::string::npos)
        << opened.error().to_string();
    EXPECT_NE(opened.error().message().find(path), std::string::npos);
  }
  env::TempDirectory directory_ = make_directory();
  std::string path_ = directory_.file("file");
};

TEST_F(FileTest, SaysWhatIsWrongAndWhatToDo) {
  expect_error(path_, {}, Code::kNotFound, "check the path");
  expect_error(directory_.path(), {}, Code::kInvalidArgument, "name a file in it");
  expect_error(directory_.path(), {.write = true}, Code::kInvalidArgument, "name a file in it");
  expect_error(path_ + "/x", {.write = true, .create = true}, Code::kNotFound, "check the path");
  expect_error("/dev/null", {}, Code::kInvalidArgument, "neither a file nor a block device");
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  expect_error(path_, {}, Code::kInvalidArgument, "neither a file nor a block device");
  expect_error(path_ + "/x", {}, Code::kNotFound, "not a folder");
}

TEST_F(FileTest, SaysWhenTheUserMayNot) {
  open_file(path_, read_write(10));
  ASSERT_EQ(::chmod(path_.c_str(), 0400), 0);
  const Error refused = file_error("opening", path_, EACCES);
  EXPECT_EQ(refused.code(), Code::kPermissionDenied);
  EXPECT_NE(refused.message().find("right to it"), std::string::npos);
  if (::geteuid() == 0) GTEST_SKIP() << "root may do everything";
  expect_error(path_, {.write = true}, Code::kPermissionDenied, "right to it");
}

TEST_F(FileTest, RefusesOptionsThatContradictEachOther) {
  expect_error("", {}, Code::kInvalidArgument, "empty");
  expect_error(path_, {.read = false}, Code::kInvalidArgument, "neither");
  expect_error(path_, {.create = true}, Code::kInvalidArgument, "need `write`");
  expect_error(path_, {.size = 5}, Code::kInvalidArgument, "need `write`");
  expect_error(path_, {.write = true, .reserve = true}, Code::kInvalidArgument, "`size`");
  expect_error(path_, {.write = true, .size = ~0ULL}, Code::kInvalidArgument, "range");
}

TEST_F(FileTest, CreatesOnlyWhatIsNewWhenAsked) {
  FileOptions options = read_write(4096);
  options.exclusive = true;
  open_file(path_, options);
  expect_error(path_, options, Code::kAlreadyExists, "another name");
}

TEST_F(FileTest, HasTheSizeThatWasAsked) {
  FileOptions options = read_write(1000);
  EXPECT_EQ(open_file(path_, options).size().value_or(0), 1000U);
  options.size = 70000;
  options.reserve = true;
  const File file = open_file(path_, options);
  EXPECT_EQ(file.size().value_or(0), 70000U);
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  options.size = 10;
  EXPECT_EQ(open_file(path_, options).size().value_or(0), 10U);
  EXPECT_EQ(file.size().value_or(0), 10U);
}

TEST_F(FileTest, TellsWhetherItIsDirectAndWhatThatAsks) {
  const File cached = open_file(path_, read_write(8192, Direct::kNo));
  EXPECT_FALSE(cached.direct());
  EXPECT_EQ(cached.offset_alignment(), 1U);
  EXPECT_EQ(cached.fd(), cached.buffered_fd());
  const auto forced = File::open(path_, read_write(8192, Direct::kYes));
  const File file = open_file(path_, read_write(8192));
  EXPECT_EQ(forced.has_value(), file.direct());
  EXPECT_TRUE(forced || forced.error().code() == Code::kUnsupported);
  if (!file.direct()) GTEST_SKIP() << "no O_DIRECT in " << directory_.path();
  EXPECT_NE(file.fd(), file.buffered_fd());
  EXPECT_EQ(file.write_unit() % file.offset_alignment(), 0U);
  EXPECT_EQ(file.write_unit() % 4096, 0U);
  PagedBuffer block(file.offset_alignment());
  EXPECT_EQ(::pread(file.fd(), block.data(), file.offset_alignment(), 0),
            static_cast<ssize_t>(file.offset_alignment()));
  EXPECT_EQ(::fcntl(file.fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(FileTest, ProbingNeverPromisesTooMuch) {
  const File file = open_file(path_, read_write(8192));
  if (!file.direct()) GTEST_SKIP() << "no O_DIRECT in " << directory_.path();
  const auto probed = probe_limits(file.fd());
  ASSERT_TRUE(probed);
  PagedBuffer memory(4 * probed->offset_alignment);
  EXPECT_EQ(::pread(file.fd(), memory.data() + probed->memory_alignment, probed->offset_alignment,
                    probed->offset_alignment),
            static_cast<ssize_t>(probed->offset_alignment));
  const File empty = open_file(directory_.file("empty"), read_write(0));
  const auto guess = probe_limits(empty.fd());
  ASSERT_TRUE(guess);
  EXPECT_EQ(guess->offset_alignment, 4096U);
}

TEST_F(FileTest, NoticesWhenItsPathNamesAnother) {
  const File file = open_file(path_, read_write(10));
  EXPECT_TRUE(file.still_there());
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  auto gone = file.still_there();
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code(), Code::kNotFound);
  EXPECT_NE(gone.error().message().find(path_ + " was removed"), std::string::npos);
  const File next = open_file(path_, read_write(10));
  EXPECT_NE(next.identity(), file.identity());
  gone = file.still_there();
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code(), Code::kConflict);
  EXPECT_NE(gone.error().message().find("replaced"), std::string::npos);
  EXPECT_TRUE(next.still_there());
}

}  // namespace
}  // namespace larder::fileio
