// SPDX-License-Identifier: Apache-2.0
#include "fileio/fault_backend.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fileio/fileio_testing.h"

namespace larder::fileio {
namespace {

constexpr std::uint32_t kBytes = 4096;

class FaultBackendTest : public testing::Test {
 protected:
  void SetUp() override {
    fd_.reset(::open(directory_.file("f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const std::vector<std::byte> content(kBytes, std::byte{1});
    ASSERT_EQ(::pwrite(fd_.get(), content.data(), kBytes, 0), kBytes);
    std::memset(memory_.data(), 0, kBytes);
  }
  std::unique_ptr<FaultBackend> make(FaultOptions options) {
    options.seed = 5;
    return std::make_unique<FaultBackend>(make_pool(4, 0), options);
  }
  Result<std::size_t> read(FaultBackend& backend, std::uint64_t tag) {
    const IoOp op{IoKind::kRead, fd_.get(), 0, memory_.data(), kBytes, tag};
    return backend.submit({&op, 1});
  }
  bool arrived() { return memory_.data()[0] == std::byte{1}; }

  env::TempDirectory directory_ = make_directory();
  env::Fd fd_;
  PagedBuffer memory_{kBytes};
  IoDone done_;
};

TEST_F(FaultBackendTest, PartialTransfersAreShort) {
  auto backend = make({.partial = 1});
  ASSERT_TRUE(read(*backend, 1));
  ASSERT_EQ(backend->poll({&done_, 1}).value_or(0), 1U);
  EXPECT_GT(done_.result, 0);
  EXPECT_LT(done_.result, kBytes);
  EXPECT_EQ(backend->counts().partial, 1U);
}

TEST_F(FaultBackendTest, ErrorsAreReported) {
  auto failing = make({.eio = 1});
  ASSERT_TRUE(read(*failing, 1));
  ASSERT_EQ(failing->wait({&done_, 1}, within(kSoon)).value_or(0), 1U);
  EXPECT_EQ(done_.result, -EIO);
  auto busy = make({.eagain = 1});
  std::memset(memory_.data(), 0, kBytes);
  ASSERT_TRUE(read(*busy, 1));
  ASSERT_EQ(busy->wait({&done_, 1}, within(kSoon)).value_or(0), 1U);
  EXPECT_EQ(done_.result, -EAGAIN);
  EXPECT_FALSE(arrived());
}

TEST_F(FaultBackendTest, LateTransfersTouchMemoryLate) {
  auto backend = make({.late_transfer = 1});
  ASSERT_TRUE(read(*backend, 1));
  EXPECT_FALSE(arrived());
  EXPECT_EQ(backend->in_flight(), 1U);
  ASSERT_EQ(backend->wait({&done_, 1}, within(kSoon)).value_or(0), 1U);
  EXPECT_TRUE(arrived());
}

TEST_F(FaultBackendTest, AWaitOutlastsACompletionThatIsHeldBack) {
  auto backend = make({.late_completion = 1});
  ASSERT_TRUE(read(*backend, 1));
  const env::Nanos began = env::monotonic_now();
  ASSERT_EQ(backend->wait({&done_, 1}, within(kSoon)).value_or(0), 1U);
  EXPECT_LT(env::monotonic_now() - began, kSoon);
}

TEST_F(FaultBackendTest, LostOnesTouchMemoryUntilItIsQuiet) {
  auto backend = make({.lost = 1});
  ASSERT_TRUE(read(*backend, 1));
  for (int i = 0; i < 100; ++i) ASSERT_EQ(backend->poll({&done_, 1}).value_or(9), 0U);
  EXPECT_FALSE(arrived());
  EXPECT_TRUE(backend->quiesce(within(kSoon)));
  EXPECT_TRUE(arrived());
  EXPECT_EQ(backend->poll({&done_, 1}).value_or(9), 0U);
  EXPECT_EQ(backend->in_flight(), 0U);
}

TEST_F(FaultBackendTest, DuplicatesAndForeignersCome) {
  auto backend = make({.duplicate = 1, .foreign = 1});
  ASSERT_TRUE(read(*backend, 77));
  int mine = 0;
  int others = 0;
  for (int i = 0; i < 50; ++i) {
    if (backend->poll({&done_, 1}).value_or(0) == 1) ++(done_.tag == 77 ? mine : others);
    IoDone more[4];
    const std::size_t count = backend->poll(more).value_or(0);
    for (std::size_t k = 0; k < count; ++k) ++(more[k].tag == 77 ? mine : others);
  }
  EXPECT_EQ(mine, 2);
  EXPECT_GT(others, 10);
}

TEST_F(FaultBackendTest, DeathIsForGoodAndStillLetsThingsFinish) {
  auto backend = make({.late_transfer = 1, .death_after = 2});
  ASSERT_TRUE(read(*backend, 1));
  const auto second = read(*backend, 2);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kUnavailable);
  EXPECT_FALSE(backend->poll({&done_, 1}));
  EXPECT_FALSE(backend->wait({&done_, 1}, within(kSoon)));
  EXPECT_FALSE(arrived());
  EXPECT_TRUE(backend->quiesce(within(kSoon)));
  EXPECT_TRUE(arrived());
  EXPECT_FALSE(read(*backend, 3));
}

TEST_F(FaultBackendTest, TheSameSeedDoesTheSame) {
  const auto run = [this] {
    auto backend = make({.partial = 0.5, .eio = 0.2, .late_completion = 0.5, .reorder = 0.5});
    std::vector<std::pair<std::uint64_t, std::int64_t>> seen;
    for (std::uint64_t tag = 0; tag < 100; ++tag) {
      (void)read(*backend, tag);
      if (backend->poll({&done_, 1}).value_or(0) == 1) seen.emplace_back(done_.tag, done_.result);
    }
    return seen;
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace larder::fileio
