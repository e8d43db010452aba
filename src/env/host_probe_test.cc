// SPDX-License-Identifier: Apache-2.0
#include "env/host_probe.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace larder::env {
namespace {

namespace fs = std::filesystem;

// A folder of its own per test, removed at the end.
class HostProbe : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/host-probe-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, std::string_view text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(root_), fs::directory_iterator()));
  }

  std::string root_;
};

TEST_F(HostProbe, CountsCpuLists) {
  EXPECT_EQ(count_cpu_list("0\n"), 1U);
  EXPECT_EQ(count_cpu_list("0-3,8"), 5U);
  EXPECT_EQ(count_cpu_list("0-127,256-383\n"), 256U);
  for (const char* bad : {"", "x", "3-1", "0-", "-", "0-99999999999999999999", "1,,2"}) {
    EXPECT_EQ(count_cpu_list(bad), 0U) << bad;
  }
}

TEST_F(HostProbe, ReadsFieldsOfMeminfo) {
  constexpr std::string_view kText =
      "MemTotal:       16 kB\nHugePages_Total:    7\nHuge:\nBig: 99999999999999999999 kB\n"
      "Edge: 18446744073709551615 kB\n";
  EXPECT_EQ(meminfo_bytes(kText, "MemTotal"), 16U * 1024);
  EXPECT_EQ(meminfo_bytes(kText, "HugePages_Total"), 7U);
  for (const char* absent : {"Mem", "Huge", "Big", "Edge", ""}) {
    EXPECT_EQ(meminfo_bytes(kText, absent), 0U) << absent;
  }
}

TEST_F(HostProbe, FindsTheChosenWordAndTheLastNumber) {
  EXPECT_EQ(chosen_word("always [madvise] never\n"), "madvise");
  EXPECT_EQ(chosen_word("none"), "");
  EXPECT_EQ(chosen_word("]x["), "");
  EXPECT_EQ(last_number("4096\t131072\t6291456\n"), 6291456U);
  EXPECT_EQ(last_number("12"), 12U);
  EXPECT_EQ(last_number("a b"), 0U);
  EXPECT_EQ(last_number(""), 0U);
}

TEST_F(HostProbe, FlagsMatchWholeWords) {
  CpuReport cpu;
  cpu.flags = "sse4_2 avx2 avx512f";
  EXPECT_TRUE(cpu.has("avx2"));
  EXPECT_TRUE(cpu.has("avx512f"));
  EXPECT_FALSE(cpu.has("avx"));
  EXPECT_FALSE(cpu.has(""));
}

TEST_F(HostProbe, ReadsAMadeUpHost) {
  write("/proc/self/cgroup", "1:name=systemd:/x\n0::/pod/box\n");
  write("/sys/fs/cgroup/memory.max", "max\n");
  write("/sys/fs/cgroup/pod/memory.max", "1048576\n");
  write("/sys/fs/cgroup/pod/box/memory.max", "2097152\n");
  write("/sys/fs/cgroup/pod/box/cpu.max", "150000 100000\n");
  write("/sys/devices/system/node/online", "0-1\n");
  write("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu avx2\n\nprocessor\t: 1\n");
  write("/proc/meminfo",
        "MemTotal: 8 kB\nMemAvailable: 4 kB\nHugePages_Total: 5\n"
        "HugePages_Free: 3\nHugePages_Rsvd: 1\nHugepagesize: 2048 kB\n");
  write("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
  write("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always advise [never]\n");
  write("/proc/sys/net/ipv4/tcp_rmem", "1 2 3\n");
  write("/proc/sys/kernel/io_uring_disabled", "2\n");

  const CpuReport cpu = probe_cpu(root_);
  EXPECT_GE(cpu.usable, 1U);
  EXPECT_EQ(cpu.numa_nodes, 2U);
  EXPECT_DOUBLE_EQ(cpu.quota.value_or(0), 1.5);
  EXPECT_TRUE(cpu.has("avx2"));
  const MemoryReport memory = probe_memory(root_);
  EXPECT_EQ(memory.total, 8192U);
  EXPECT_EQ(memory.available, 4096U);
  EXPECT_EQ(memory.cgroup_limit, 1048576U);  // the tightest on the way up
  EXPECT_EQ(memory.shm_size, 0U);
  const HugePageReport huge = read_huge_page_pool(root_);
  EXPECT_EQ(huge.total, 5U);
  EXPECT_EQ(huge.free, 2U);
  EXPECT_EQ(huge.page_size, 2U << 20);
  EXPECT_EQ(huge.thp, "always");
  EXPECT_EQ(huge.shmem, "never");
  EXPECT_EQ(read_io_uring_disabled(root_), 2);
  NetworkReport network;
  read_tcp_buffers(network, root_);
  EXPECT_EQ(network.tcp_rmem_max, 3U);
  EXPECT_EQ(network.tcp_wmem_max, 0U);
}

TEST_F(HostProbe, AnEmptyHostGivesUnknowns) {
  EXPECT_EQ(probe_cpu(root_).numa_nodes, 0U);
  EXPECT_FALSE(probe_cpu(root_).quota);
  EXPECT_EQ(probe_memory(root_).total, 0U);
  EXPECT_FALSE(probe_memory(root_).cgroup_limit);
  EXPECT_FALSE(read_io_uring_disabled(root_));
  EXPECT_EQ(read_huge_page_pool(root_).thp, "");
}

TEST_F(HostProbe, OldCgroupHierarchy) {
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(probe_memory(root_).cgroup_limit);
  EXPECT_FALSE(probe_cpu(root_).quota);
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(probe_memory(root_).cgroup_limit, 4096U);
  EXPECT_DOUBLE_EQ(probe_cpu(root_).quota.value_or(0), 0.5);
}

TEST_F(HostProbe, DirectoryIsLeftAsItWas) {
  const DirectoryReport report = probe_directory(root_);
  EXPECT_EQ(report.write_errno, 0);
  EXPECT_FALSE(report.filesystem.empty());
  EXPECT_GT(report.free, 0U);
  EXPECT_EQ(entries(), 0U);
}

TEST_F(HostProbe, MissingDirectory) {
  const DirectoryReport report = probe_directory(root_ + "/nowhere");
  EXPECT_EQ(report.write_errno, ENOENT);
  EXPECT_EQ(report.direct_errno, ENOENT);
  write("/file", "x");
  EXPECT_EQ(probe_directory(root_ + "/file").write_errno, ENOTDIR);
}

TEST_F(HostProbe, SocketFolderIsMadeTriedAndRemoved) {
  EXPECT_EQ(probe_network(root_).socket_errno, 0);
  EXPECT_EQ(probe_network(root_ + "/new").socket_errno, 0);
  EXPECT_EQ(entries(), 0U);
  EXPECT_EQ(probe_network(root_ + "/a/b").socket_errno, ENOENT);
  const std::string deep = root_ + "/" + std::string(120, 'd');
  EXPECT_EQ(probe_network(deep).socket_errno, ENAMETOOLONG);
  EXPECT_EQ(entries(), 0U);
}

TEST_F(HostProbe, MemfdAndLimitsOfThisHost) {
  const MemfdReport memfd = probe_memfd();
  EXPECT_EQ(memfd.create_errno, 0);
  EXPECT_EQ(memfd.seal_held, memfd.seal_errno == 0);
  const LimitReport limits = probe_limits();
  EXPECT_TRUE(!limits.files_hard || *limits.files_hard >= limits.files_soft.value_or(0));
}

TEST_F(HostProbe, ProbesFromManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int round = 0; round < 20; ++round) {
        EXPECT_EQ(probe_directory(root_).write_errno, 0);
        EXPECT_EQ(probe_network(root_).socket_errno, 0);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(entries(), 0U);
}

TEST_F(HostProbe, WholeHost) {
  const HostReport report = probe_host(root_, root_ + "/socket");
  EXPECT_FALSE(report.kernel.empty());
  EXPECT_GE(report.kernel_major, 3U);
  EXPECT_GT(report.memory.total, 0U);
  EXPECT_GE(report.cpu.usable, 1U);
  EXPECT_EQ(report.network.socket_errno, 0);
  EXPECT_EQ(entries(), 0U);
}

}  // namespace
}  // namespace larder::env
