// SPDX-License-Identifier: Apache-2.0
#include "tier/hot/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tier/hot/segment_memory.h"

namespace larder::tier {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;

Segment make(SegmentOptions options) {
  auto made = Segment::create(options);
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

// True when the kernel refuses a writable mapping of `fd` and, through it, every write.
bool writes_refused(int fd) {
  void* area = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (area != MAP_FAILED) return false;
  if (errno != EPERM && errno != EACCES) return false;
  void* readable = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  if (readable == MAP_FAILED) return false;
  const bool hardened = ::mprotect(readable, 4096, PROT_READ | PROT_WRITE) != 0;
  ::munmap(readable, 4096);
  return hardened && ::pwrite(fd, "x", 1, 0) < 0 && ::ftruncate(fd, 4096) != 0;
}

TEST(Segment, TheOwnerWritesAndReadersSee) {
  Segment segment = make({.bytes = 3 * kMiB + 1, .pages = PageMode::k4K});
  EXPECT_EQ(segment.bytes(), 3 * kMiB + 4096);
  EXPECT_EQ(segment.page_bytes(), 4096U);
  EXPECT_EQ(segment.page_kind(), "4KiB");
  EXPECT_EQ(segment.page_note(), "");
  auto reader = MappedSegment::map(segment.fd(), segment.bytes(), {.populate = true});
  ASSERT_TRUE(reader) << reader.error().to_string();
  std::memcpy(segment.data() + 2 * kMiB, "hello", 5);
  EXPECT_EQ(std::memcmp(reader->data() + 2 * kMiB, "hello", 5), 0);
  EXPECT_EQ(reader->view().size(), segment.bytes());
  Segment moved = std::move(segment);
  std::memcpy(moved.data(), "again", 5);
  EXPECT_EQ(std::memcmp(reader->data(), "again", 5), 0);
}

TEST(Segment, NobodyElseCanEverWrite) {
  Segment segment = make({.bytes = kMiB, .pages = PageMode::k4K});
  EXPECT_TRUE(writes_refused(segment.fd()));
  // Not even by opening it anew with write access, which gives a fresh open file.
  const std::string path = "/proc/self/fd/" + std::to_string(segment.fd());
  env::Fd again(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (again.valid()) {
    EXPECT_TRUE(writes_refused(again.get()));
  }
  EXPECT_NE(::fcntl(segment.fd(), F_ADD_SEALS, F_SEAL_WRITE), 0);  // no new seals either
  EXPECT_NE(::fallocate(segment.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  segment.data()[0] = std::byte{7};  // while the first mapping still writes
  EXPECT_EQ(segment.data()[0], std::byte{7});
}

TEST(Segment, AnotherProcessReadsButCannotMapForWriting) {
  Segment segment = make({.bytes = kMiB, .pages = PageMode::k4K});
  std::memcpy(segment.data(), "shared", 6);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool refused = writes_refused(segment.fd());
    void* area = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, segment.fd(), 0);
    const bool seen = area != MAP_FAILED && std::memcmp(area, "shared", 6) == 0;
    ::_exit(refused && seen ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(Segment, PopulatesUpFrontOnlyWhenAsked) {
  const Segment lazy = make({.bytes = 8 * kMiB, .pages = PageMode::k4K, .populate = false});
  const Segment eager = make({.bytes = 8 * kMiB, .pages = PageMode::k4K});
  std::vector<unsigned char> lazy_pages(8 * kMiB / 4096);
  std::vector<unsigned char> eager_pages(8 * kMiB / 4096);
  ASSERT_EQ(::mincore(lazy.data(), lazy.bytes(), lazy_pages.data()), 0);
  ASSERT_EQ(::mincore(eager.data(), eager.bytes(), eager_pages.data()), 0);
  for (const unsigned char page : lazy_pages) ASSERT_EQ(page & 1, 0);
  for (const unsigned char page : eager_pages) ASSERT_EQ(page & 1, 1);
}

TEST(Segment, ReportsWhatPagesItGot) {
  const Segment any = make({.bytes = 4 * kMiB});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(any.data()) % (2 * kMiB), 0U);
  EXPECT_EQ(any.bytes() % any.page_bytes(), 0U);
  EXPECT_TRUE(any.page_kind() == "2MiB" || !any.page_note().empty());

  SegmentOptions asked{.bytes = 4 * kMiB, .pages = PageMode::kHuge2M};
  const bool there = read_huge_pages_2m().free_pages >= 2;
  const auto strict = Segment::create(asked);
  EXPECT_EQ(strict.has_value(), there);
  if (!there) {
    EXPECT_EQ(strict.error().code(), Code::kUnsupported);
    EXPECT_NE(strict.error().message().find("vm.nr_hugepages"), std::string::npos);
  }
  asked.fallback = true;
  const Segment soft = make(asked);
  EXPECT_EQ(soft.page_kind(), there ? "2MiB" : "4KiB");
  EXPECT_EQ(soft.page_note().empty(), there);
  EXPECT_TRUE(writes_refused(soft.fd()));

  const auto thp = Segment::create({.bytes = 4 * kMiB, .pages = PageMode::kThp});
  EXPECT_EQ(thp.has_value(), shmem_thp_allowed());
}

TEST(Segment, RefusesWhatCannotFit) {
  const auto too_big = Segment::create({.bytes = 60ULL << 40, .pages = PageMode::k4K});
  ASSERT_FALSE(too_big);
  EXPECT_EQ(too_big.error().code(), Code::kExhausted);
  EXPECT_NE(too_big.error().message().find(std::to_string(60ULL << 40)), std::string::npos);
  EXPECT_NE(too_big.error().message().find("are available"), std::string::npos);
  EXPECT_EQ(Segment::create({.bytes = 0}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(Segment::create({.bytes = ~0ULL}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(Segment::create({.bytes = 4096, .name = ""}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(Segment::create({.bytes = 4096, .name = std::string(201, 'x')}).error().code(),
            Code::kInvalidArgument);
}

TEST(MappedSegment, BelievesNoDescriptorItWasHanded) {
  const Segment segment = make({.bytes = kMiB, .pages = PageMode::k4K});
  EXPECT_EQ(MappedSegment::map(segment.fd(), 2 * kMiB).error().code(), Code::kCorrupt);
  EXPECT_EQ(MappedSegment::map(segment.fd(), kMiB - 4096).error().code(), Code::kCorrupt);
  EXPECT_EQ(MappedSegment::map(segment.fd(), 0).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(MappedSegment::map(-1, kMiB).error().code(), Code::kCorrupt);

  env::Fd loose(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), kMiB), 0);
  EXPECT_EQ(MappedSegment::map(loose.get(), kMiB).error().code(), Code::kCorrupt);

  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const env::Fd in(ends[0]);
  const env::Fd out(ends[1]);
  EXPECT_EQ(MappedSegment::map(in.get(), kMiB).error().code(), Code::kCorrupt);
}

// A made-up /proc and /sys.
class FakeHost : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "larder_host_" + std::to_string(::getpid());
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(FakeHost, NothingThereMeansNothingKnown) {
  EXPECT_EQ(read_memory_room(root_).host_bytes, 0U);
  EXPECT_FALSE(read_memory_room(root_).cgroup_bytes);
  EXPECT_EQ(read_huge_pages_2m(root_).free_pages, 0U);
  EXPECT_FALSE(shmem_thp_allowed(root_));
}

TEST_F(FakeHost, TheTightestGroupOfVersionTwoCounts) {
  put("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable:    2048 kB\n");
  put("/proc/self/cgroup", "0::/outer/inner\n");
  put("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  put("/sys/fs/cgroup/outer/inner/memory.current", "5000\n");
  put("/sys/fs/cgroup/outer/memory.max", "1000000\n");
  put("/sys/fs/cgroup/outer/memory.current", "900000\n");
  put("/sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file 400000\n");
  const MemoryRoom room = read_memory_room(root_);
  EXPECT_EQ(room.host_bytes, 2048U * 1024);
  EXPECT_EQ(room.cgroup_bytes, 500000U);
  EXPECT_EQ(room.room(), 500000U);
}

TEST_F(FakeHost, VersionOneInAContainer) {
  put("/proc/meminfo", "MemAvailable: 1000 kB\n");
  put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/not/visible/here\n0::/x\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1024\n");
  EXPECT_EQ(read_memory_room(root_).room(), 1000U * 1024);
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3072\n");
  EXPECT_EQ(read_memory_room(root_).room(), 2048U);
}

TEST_F(FakeHost, HugePagesThatArePromisedAreNotFree) {
  put("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "10\n");
  put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "7\n");
  put("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "3\n");
  EXPECT_EQ(read_huge_pages_2m(root_).free_pages, 4U);
  EXPECT_EQ(read_huge_pages_2m(root_).total_pages, 10U);
  const std::string knob = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
  put(knob, "always within_size advise [never] deny force\n");
  EXPECT_FALSE(shmem_thp_allowed(root_));
  put(knob, "always within_size [advise] never deny force\n");
  EXPECT_TRUE(shmem_thp_allowed(root_));
}

}  // namespace
}  // namespace larder::tier
