// SPDX-License-Identifier: Apache-2.0
#include "tier/hot/fence.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace larder::tier {
namespace {

class FenceTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "larder_fence_" + std::to_string(::getpid());
    std::filesystem::create_directories(dir_);
    socket_ = dir_ + "/node.sock";
    ::unlink(fence_path(socket_).c_str());
  }
  void TearDown() override {
    ::unlink(fence_path(socket_).c_str());
    std::filesystem::remove_all(dir_);
  }
  std::string dir_;
  std::string socket_;
};

TEST_F(FenceTest, OneNodeHoldsIt) {
  auto first = Fence::take(socket_);
  ASSERT_TRUE(first) << first.error().to_string();
  const auto second = Fence::take(socket_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kConflict);
  EXPECT_NE(second.error().message().find(socket_), std::string::npos);
  EXPECT_TRUE(Fence::take(dir_ + "/other.sock"));
  ::unlink(fence_path(dir_ + "/other.sock").c_str());
  const Fence moved = std::move(*first);
  EXPECT_FALSE(Fence::take(socket_));  // the moved one still holds it
}

TEST_F(FenceTest, IsForgottenOnlyWhenNobodyHoldsIt) {
  {
    const auto held = Fence::take(socket_);
    ASSERT_TRUE(held);
    forget_fence(socket_);
    EXPECT_EQ(::access(fence_path(socket_).c_str(), F_OK), 0);
  }
  forget_fence(socket_);
  EXPECT_NE(::access(fence_path(socket_).c_str(), F_OK), 0);
  forget_fence(socket_);
  EXPECT_TRUE(Fence::take(socket_));
}

TEST_F(FenceTest, OldViewsSeeTheEnd) {
  std::optional<FenceView> view;
  std::uint64_t served = 0;
  {
    const auto fence = Fence::take(socket_);
    ASSERT_TRUE(fence);
    served = fence->epoch();
    auto mapped = FenceView::map(fence->read_only_fd());
    ASSERT_TRUE(mapped) << mapped.error().to_string();
    view.emplace(std::move(*mapped));
    EXPECT_EQ(view->epoch(), served);
  }
  const std::uint64_t stopped = view->epoch();
  EXPECT_GT(stopped, served);  // the node stopped in order
  const auto next = Fence::take(socket_);
  ASSERT_TRUE(next);
  EXPECT_GT(next->epoch(), stopped);
  EXPECT_EQ(view->epoch(), next->epoch());
}

// Killed, a node can turn nobody away; the next one does.
TEST_F(FenceTest, TheNextNodeEndsTheViewsOfAKilledOne) {
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto fence = Fence::take(socket_);
    const std::uint64_t epoch = fence ? fence->epoch() : 0;
    if (::write(ready[1], &epoch, sizeof(epoch)) != sizeof(epoch)) ::_exit(1);
    for (;;) ::pause();
  }
  std::uint64_t epoch = 0;
  ASSERT_EQ(::read(ready[0], &epoch, sizeof(epoch)), static_cast<ssize_t>(sizeof(epoch)));
  ASSERT_NE(epoch, 0U);
  EXPECT_EQ(Fence::take(socket_).error().code(), Code::kConflict);
  const env::Fd reader(::open(fence_path(socket_).c_str(), O_RDONLY | O_CLOEXEC));
  const auto view = FenceView::map(reader.get());
  ASSERT_TRUE(view);
  EXPECT_EQ(view->epoch(), epoch);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(view->epoch(), epoch);
  const auto next = Fence::take(socket_);
  ASSERT_TRUE(next) << next.error().to_string();
  EXPECT_EQ(next->epoch(), epoch + 1);
  EXPECT_EQ(view->epoch(), epoch + 1);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(FenceTest, ClientsCannotWriteIt) {
  const auto fence = Fence::take(socket_);
  ASSERT_TRUE(fence);
  void* area = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fence->read_only_fd(), 0);
  EXPECT_EQ(area, MAP_FAILED);
  struct stat info {};
  ASSERT_EQ(::stat(fence_path(socket_).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST_F(FenceTest, OneSocketHasOneFenceHoweverItIsWritten) {
  EXPECT_EQ(fence_path(dir_ + "/./x/../node.sock"), fence_path(socket_));
  std::filesystem::create_directory_symlink(dir_, dir_ + "/link");
  EXPECT_EQ(fence_path(dir_ + "/link/node.sock"), fence_path(socket_));
  EXPECT_EQ(fence_path("node.sock"), fence_path("./node.sock"));
  EXPECT_NE(fence_path(dir_ + "/node2.sock"), fence_path(socket_));
}

TEST_F(FenceTest, RefusesStrangeFiles) {
  const std::string path = fence_path(socket_);
  ASSERT_EQ(::symlink((dir_ + "/victim").c_str(), path.c_str()), 0);
  EXPECT_EQ(Fence::take(socket_).error().code(), Code::kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/victim"));
  ::unlink(path.c_str());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(Fence::take(socket_).error().code(), Code::kUnavailable);
  ::unlink(path.c_str());
  std::ofstream(path) << std::string(10000, 'x');  // our file, not our content
  const auto fence = Fence::take(socket_);
  ASSERT_TRUE(fence);
  EXPECT_EQ(fence->epoch(), 1U);
  EXPECT_TRUE(FenceView::map(fence->read_only_fd()));
}

TEST_F(FenceTest, AViewBelievesNoDescriptorItWasHanded) {
  EXPECT_EQ(FenceView::map(-1).error().code(), Code::kCorrupt);
  const std::string path = dir_ + "/file";
  std::ofstream(path) << std::string(4096, 'x');
  const env::Fd wrong(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(FenceView::map(wrong.get()).error().code(), Code::kCorrupt);
  std::ofstream(dir_ + "/short") << "x";
  const env::Fd tiny(::open((dir_ + "/short").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(FenceView::map(tiny.get()).error().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace larder::tier
