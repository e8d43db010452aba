// SPDX-License-Identifier: Apache-2.0
// What every IoBackend must do. (With the label "concurrent", because most have threads.)
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <future>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <thread>

#include "fileio/fileio_testing.h"

namespace larder::fileio {
namespace {

constexpr std::uint32_t kBlock = 4096;

class BackendConformance : public testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    backend_ = GetParam().make(8);
    if (backend_ == nullptr) GTEST_SKIP() << "no io_uring here";
  }
  int open_new(const char* name = "file") {
    fd_.reset(::open(directory_.file(name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_TRUE(fd_.valid());
    return fd_.get();
  }
  // All completions of what is in flight, by tag.
  static std::map<std::uint64_t, std::int64_t> collect(IoBackend& backend) {
    std::map<std::uint64_t, std::int64_t> results;
    std::vector<IoDone> done(3);  // less than the depth on purpose
    while (backend.in_flight() > 0) {
      const auto got = backend.wait(done, within(kSoon));
      EXPECT_TRUE(got && *got > 0);
      if (!got || *got == 0) break;
      for (std::size_t i = 0; i < *got; ++i) {
        EXPECT_TRUE(results.emplace(done[i].tag, done[i].result).second) << "came twice";
      }
    }
    return results;
  }
  static void submit_all(IoBackend& backend, std::span<const IoOp> ops) {
    const auto taken = backend.submit(ops);
    ASSERT_TRUE(taken) << taken.error().to_string();
    ASSERT_EQ(*taken, ops.size());
  }

  env::TempDirectory directory_ = make_directory();
  env::Fd fd_;
  std::unique_ptr<IoBackend> backend_;  // destroyed first
};

TEST_P(BackendConformance, WritesAndReadsManyAtOnce) {
  backend_ = GetParam().make(32);
  const int fd = open_new();
  std::mt19937_64 random(1);
  PagedBuffer out(32 * kBlock);
  PagedBuffer in(32 * kBlock);
  fill_random(out.span(), random);
  for (const IoKind kind : {IoKind::kWrite, IoKind::kSync, IoKind::kRead}) {
    std::vector<IoOp> ops;
    for (std::uint64_t i = 0; i < 32; ++i) {
      std::byte* memory = (kind == IoKind::kRead ? in : out).data() + i * kBlock;
      ops.push_back({kind, fd, i * kBlock, memory, kBlock, 1000 + i});
    }
    submit_all(*backend_, ops);
    const auto results = collect(*backend_);
    ASSERT_EQ(results.size(), 32U);
    for (const auto& [tag, result] : results) {
      EXPECT_EQ(result, kind == IoKind::kSync ? 0 : kBlock) << tag;
    }
  }
  EXPECT_EQ(std::memcmp(in.data(), out.data(), 32 * kBlock), 0);
}

TEST_P(BackendConformance, TakesNoMoreThanItsDepth) {
  backend_ = GetParam().make(4);
  const int fd = open_new();
  PagedBuffer memory(8 * kBlock);
  std::vector<IoOp> ops;
  for (std::uint64_t i = 0; i < 7; ++i) {
    ops.push_back({IoKind::kRead, fd, 0, memory.data() + i * kBlock, kBlock, i});
  }
  EXPECT_EQ(backend_->depth(), 4U);
  const auto taken = backend_->submit(ops);
  ASSERT_TRUE(taken);
  EXPECT_EQ(*taken, 4U);
  EXPECT_EQ(backend_->in_flight(), 4U);
  const auto none = backend_->submit(std::span(ops).subspan(4));
  ASSERT_TRUE(none);
  EXPECT_EQ(*none, 0U);
  EXPECT_EQ(collect(*backend_).size(), 4U);
  const auto rest = backend_->submit(std::span(ops).subspan(4));
  ASSERT_TRUE(rest);
  EXPECT_EQ(*rest, 3U);
  EXPECT_EQ(collect(*backend_).size(), 3U);
}

TEST_P(BackendConformance, ReadsPastTheEndAreShort) {
  const int fd = open_new();
  ASSERT_EQ(::ftruncate(fd, 100), 0);
  PagedBuffer memory(3 * kBlock);
  const std::vector<IoOp> ops = {
      {IoKind::kRead, fd, 40, memory.data(), kBlock, 1},
      {IoKind::kRead, fd, 100, memory.data() + kBlock, kBlock, 2},
      {IoKind::kRead, fd, 1U << 20U, memory.data() + 2 * kBlock, kBlock, 3},
  };
  submit_all(*backend_, ops);
  const std::map<std::uint64_t, std::int64_t> expected{{1, 60}, {2, 0}, {3, 0}};
  EXPECT_EQ(collect(*backend_), expected);
}

TEST_P(BackendConformance, ErrorsAreResultsOfTheirOperation) {
  const int fd = open_new();
  PagedBuffer memory(kBlock);
  const std::vector<IoOp> ops = {
      {IoKind::kRead, -1, 0, memory.data(), kBlock, 1},
      {IoKind::kWrite, -1, 0, memory.data(), kBlock, 2},
      {IoKind::kSync, -1, 0, nullptr, 0, 3},
      {IoKind::kWrite, fd, 0, memory.data(), kBlock, 4},
  };
  submit_all(*backend_, ops);
  const std::map<std::uint64_t, std::int64_t> expected{
      {1, -EBADF}, {2, -EBADF}, {3, -EBADF}, {4, kBlock}};
  EXPECT_EQ(collect(*backend_), expected);
}

TEST_P(BackendConformance, RefusesTheReservedTag) {
  const int fd = open_new();
  const std::vector<IoOp> ops = {{IoKind::kSync, fd, 0, nullptr, 0, 1},
                                 {IoKind::kSync, fd, 0, nullptr, 0, kIoTagReserved}};
  const auto taken = backend_->submit(ops);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(backend_->in_flight(), 0U);
}

TEST_P(BackendConformance, WaitEndsAtItsDeadline) {
  IoDone done;
  for (const env::Nanos time : {env::Nanos{0}, 2 * env::kMilli}) {
    const env::Nanos deadline = within(time);
    const auto got = backend_->wait({&done, 1}, deadline);
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, 0U);
    EXPECT_GE(env::monotonic_now(), deadline);
  }
}

TEST_P(BackendConformance, AWakeBeforeTheWaitCounts) {
  IoDone done;
  for (int i = 0; i < 3; ++i) {
    backend_->wake();
    const auto got = backend_->wait({&done, 1}, within(kSoon));
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, 0U);
  }
}

TEST_P(BackendConformance, WakesFromAnotherThread) {
  constexpr int kRounds = 50;
  const env::Nanos began = env::monotonic_now();
  std::promise<void> start;
  std::thread waker([this, started = start.get_future()] {
    started.wait();
    for (int i = 0; i < kRounds; ++i) backend_->wake();
  });
  start.set_value();
  IoDone done;
  const auto got = backend_->wait({&done, 1}, within(kSoon));
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, 0U);
  waker.join();
  EXPECT_LT(env::monotonic_now() - began, kSoon);
}

TEST_P(BackendConformance, QuiesceLeavesResultsAndCanBeUsedOn) {
  const int fd = open_new();
  EXPECT_TRUE(backend_->quiesce(within(kSoon)));
  PagedBuffer memory(8 * kBlock);
  for (std::uint64_t round = 0; round < 3; ++round) {
    std::vector<IoOp> ops;
    for (std::uint64_t i = 0; i < 8; ++i) {
      ops.push_back({IoKind::kWrite, fd, i * kBlock, memory.data() + i * kBlock, kBlock, i});
    }
    submit_all(*backend_, ops);
    ASSERT_TRUE(backend_->quiesce(within(kSoon)));
    std::vector<IoDone> done(16);
    std::set<std::uint64_t> tags;
    for (;;) {  // no waiting: they must be there
      const auto got = backend_->poll(done);
      ASSERT_TRUE(got);
      if (*got == 0) break;
      for (std::size_t i = 0; i < *got; ++i) {
        EXPECT_EQ(done[i].result, kBlock);
        tags.insert(done[i].tag);
      }
    }
    EXPECT_EQ(tags.size(), 8U);
    EXPECT_EQ(backend_->in_flight(), 0U);
  }
}

TEST_P(BackendConformance, ServesAThreadThatDidNotMakeIt) {
  const int fd = open_new();
  std::thread user([&] {
    PagedBuffer memory(kBlock);
    const IoOp op{IoKind::kWrite, fd, 0, memory.data(), kBlock, 7};
    submit_all(*backend_, {&op, 1});
    const auto results = collect(*backend_);
    EXPECT_EQ(results.at(7), kBlock);
  });
  user.join();
  IoDone done;
  const auto got = backend_->poll({&done, 1});
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, 0U);
}

TEST_P(BackendConformance, RegisteredOrNotTheBytesAreTheSame) {
  const int fd = open_new();
  std::mt19937_64 random(2);
  PagedBuffer known(4 * kBlock);
  PagedBuffer other(4 * kBlock);
  fill_random(known.span(), random);
  const bool added = backend_->add_buffer(known.span());
  const std::vector<IoOp> writes = {
      {IoKind::kWrite, fd, 0, known.data(), kBlock, 1},
      {IoKind::kWrite, fd, kBlock, known.data() + kBlock + 1, 3 * kBlock - 1, 2}};
  submit_all(*backend_, writes);
  EXPECT_EQ(collect(*backend_).at(2), 3 * kBlock - 1);
  const IoOp read{IoKind::kRead, fd, 0, other.data(), 4 * kBlock, 3};
  submit_all(*backend_, {&read, 1});
  EXPECT_EQ(collect(*backend_).at(3), 4 * kBlock - 1);
  EXPECT_EQ(std::memcmp(other.data(), known.data(), kBlock), 0);
  EXPECT_EQ(std::memcmp(other.data() + kBlock, known.data() + kBlock + 1, 3 * kBlock - 1), 0);
  backend_->remove_buffer(known.span());
  const IoOp again{IoKind::kRead, fd, 0, known.data(), kBlock, 4};
  submit_all(*backend_, {&again, 1});
  EXPECT_EQ(collect(*backend_).at(4), kBlock);
  EXPECT_EQ(std::memcmp(other.data(), known.data(), kBlock), 0);
  EXPECT_EQ(backend_->add_buffer(known.span()), added);
}

INSTANTIATE_TEST_SUITE_P(All, BackendConformance, testing::ValuesIn(all_backends()),
                         [](const auto& test) { return test.param.name; });

TEST(UringBackend, IsNotQuietWhileTheKernelHoldsMemory) {
  auto backend = make_uring(4);
  if (backend == nullptr) GTEST_SKIP() << "no io_uring here";
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const env::Fd read_end(ends[0]);
  const env::Fd write_end(ends[1]);
  std::byte memory[8];
  const IoOp op{IoKind::kRead, read_end.get(), 0, memory, sizeof(memory), 5};
  ASSERT_EQ(backend->submit({&op, 1}).value_or(0), 1U);
  EXPECT_FALSE(backend->quiesce(within(2 * env::kMilli)));
  ASSERT_EQ(::write(write_end.get(), "12345678", 8), 8);
  EXPECT_TRUE(backend->quiesce(within(kSoon)));
  IoDone done;
  ASSERT_EQ(backend->poll({&done, 1}).value_or(0), 1U);
  EXPECT_EQ(done.tag, 5U);
  EXPECT_EQ(done.result, 8);
}

// A ring that knew the old pages would write into these.
TEST(UringBackend, MemoryThatWasTakenOutIsOrdinaryAgain) {
  auto backend = make_uring(4);
  if (backend == nullptr) GTEST_SKIP() << "no io_uring here";
  auto directory = make_directory();
  const env::Fd fd(::open(directory.file("f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const std::vector<std::byte> content(kBlock, std::byte{7});
  ASSERT_EQ(::pwrite(fd.get(), content.data(), kBlock, 0), kBlock);
  constexpr int kProtection = PROT_READ | PROT_WRITE;
  void* const place = ::mmap(nullptr, kBlock, kProtection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(place, MAP_FAILED);
  const std::span<std::byte> memory(static_cast<std::byte*>(place), kBlock);
  const auto read = [&] {
    const IoOp op{IoKind::kRead, fd.get(), 0, memory.data(), kBlock, 1};
    ASSERT_EQ(backend->submit({&op, 1}).value_or(0), 1U);
    IoDone done;
    ASSERT_EQ(backend->wait({&done, 1}, within(kSoon)).value_or(0), 1U);
    EXPECT_EQ(done.result, kBlock);
  };
  const bool pinned = backend->add_buffer(memory);
  read();
  EXPECT_EQ(memory[5], std::byte{7});
  backend->remove_buffer(memory);
  const auto renew = [&] {
    ASSERT_EQ(::mmap(place, kBlock, kProtection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              place);
    memory[5] = std::byte{1};
  };
  renew();
  read();
  EXPECT_EQ(memory[5], std::byte{7});
  // That this can fail: one that is not taken out gets the bytes into its old pages.
  if (!pinned || !backend->add_buffer(memory)) return;
  renew();
  read();
  EXPECT_EQ(memory[5], std::byte{1});
  ::munmap(place, kBlock);
}

TEST(UringBackend, TakesAsManyBuffersAsItHasNumbers) {
  auto backend = make_uring(4);
  if (backend == nullptr) GTEST_SKIP() << "no io_uring here";
  PagedBuffer memory(1030 * kBlock);
  const auto page = [&](std::size_t i) { return memory.span().subspan(i * kBlock, kBlock); };
  if (!backend->add_buffer(page(0))) GTEST_SKIP() << "this kernel takes none";
  std::size_t added = 1;
  while (added < 1030 && backend->add_buffer(page(added))) ++added;
  EXPECT_LE(added, 1024U);
  backend->remove_buffer(page(3));
  EXPECT_TRUE(backend->add_buffer(page(1029)));
  backend->remove_buffer(page(3));  // is not there: no harm
  EXPECT_FALSE(backend->add_buffer({}));
}

// The descriptors of this process that are rings.
std::set<int> ring_fds() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone && target.string().find("io_uring") != std::string::npos) {
      found.insert(std::stoi(entry.path().filename()));
    }
  }
  return found;
}

TEST(UringBackend, ADeadRingIsQuietOnceTheKernelHasLetGo) {
  const std::set<int> before = ring_fds();
  auto backend = make_uring(4);
  if (backend == nullptr) GTEST_SKIP() << "no io_uring here";
  int ring = -1;
  for (const int fd : ring_fds()) ring = before.contains(fd) ? ring : fd;
  ASSERT_GE(ring, 0);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const env::Fd read_end(ends[0]);
  const env::Fd write_end(ends[1]);
  std::byte memory[8];
  const IoOp op{IoKind::kRead, read_end.get(), 0, memory, sizeof(memory), 5};
  ASSERT_EQ(backend->submit({&op, 1}).value_or(0), 1U);
  ASSERT_TRUE(backend->start());
  const env::Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::dup3(null.get(), ring, O_CLOEXEC), ring);  // closes the ring behind its back
  IoDone done;
  ASSERT_EQ(backend->submit({&op, 1}).value_or(0), 1U);
  const auto started = backend->start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code(), Code::kUnavailable);
  EXPECT_FALSE(backend->submit({&op, 1}));
  EXPECT_FALSE(backend->poll({&done, 1}));
  EXPECT_FALSE(backend->wait({&done, 1}, within(kSoon)));
  // The first read still runs (the ring's mapping keeps it alive); the second never began.
  EXPECT_FALSE(backend->quiesce(within(2 * env::kMilli)));
  ASSERT_EQ(::write(write_end.get(), "12345678", 8), 8);
  EXPECT_TRUE(backend->quiesce(within(kSoon)));
  EXPECT_EQ(memory[7], std::byte{'8'});
}

TEST(UringBackend, RefusesBadDepths) {
  for (const std::size_t depth : {std::size_t{0}, UringBackend::kDepthMax + 1}) {
    const auto made = UringBackend::create({.depth = depth});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), Code::kInvalidArgument);
  }
}

TEST(PoolBackend, RefusesBadOptions) {
  EXPECT_FALSE(PoolBackend::create({.depth = 0}));
  EXPECT_FALSE(PoolBackend::create({.depth = PoolBackend::kDepthMax + 1}));
  EXPECT_FALSE(PoolBackend::create({.threads = PoolBackend::kThreadsMax + 1}));
}

TEST(PoolBackend, DropsInItsDestructorWhatHasNotBegun) {
  auto directory = make_directory();
  const env::Fd fd(::open(directory.file("f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  PagedBuffer memory(64 * kBlock);
  auto backend = make_pool(64, 1);
  std::vector<IoOp> ops;
  for (std::uint64_t i = 0; i < 64; ++i) {
    ops.push_back({IoKind::kWrite, fd.get(), i * kBlock, memory.data() + i * kBlock, kBlock, i});
  }
  ASSERT_EQ(backend->submit(ops).value_or(0), 64U);
}

}  // namespace
}  // namespace larder::fileio
