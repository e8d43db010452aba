// SPDX-License-Identifier: Apache-2.0
// The verdicts of `larder doctor`, one function per check.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "apps/doctor.h"
#include "base/units.h"

namespace larder::apps {
namespace {

using base::human_bytes;
using env::HostReport;

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::uint64_t kGiB = 1ULL << 30;
constexpr std::uint64_t kMemoryMin = 64 * kMiB;     // below: not even a small node fits
constexpr std::uint64_t kMemoryGood = 1 * kGiB;     // below: a tier too small to help
constexpr std::uint64_t kMemlockGood = 64 * kMiB;   // registered buffers of a few connections
constexpr std::uint64_t kFilesMin = 64;             // below: a node cannot serve two clients
constexpr std::uint64_t kFilesGood = 4096;          // clients x connections, with room
constexpr std::uint64_t kTcpBufferGood = 4 * kMiB;  // 10 GbE over half a millisecond, doubled
constexpr std::uint64_t kShmGood = 64 * kMiB;       // Docker's default, too small for engines
constexpr unsigned kKernelGoodMajor = 5, kKernelGoodMinor = 10;

std::string limit_text(std::optional<std::uint64_t> limit, bool bytes) {
  if (!limit) return "unlimited";
  return bytes ? human_bytes(*limit) : std::to_string(*limit);
}

Check check_kernel(const HostReport& host) {
  const std::string found = host.kernel.empty() ? "unknown" : host.kernel;
  if (std::pair(host.kernel_major, host.kernel_minor) >=
      std::pair(kKernelGoodMajor, kKernelGoodMinor)) {
    return Check::ok("kernel", found);
  }
  return Check::warn("kernel", found, "older kernels lack sealing or have young io_uring",
                     fmt::format("use Linux {}.{} or newer", kKernelGoodMajor, kKernelGoodMinor));
}

Check check_cores(const HostReport& host) {
  const auto& cpu = host.cpu;
  std::string found = fmt::format("{} usable", cpu.usable);
  if (cpu.quota) found += fmt::format(", cgroup allows {:.2g}", *cpu.quota);
  if (cpu.usable > 1 && cpu.quota.value_or(2) > 1) return Check::ok("cores", found);
  return Check::warn("cores", found,
                     "client and node take turns: no spinning, every request pays a wake-up",
                     "give the process two cores or more (taskset, cpuset, cpu.max)");
}

Check check_numa(const HostReport& host) {
  const unsigned nodes = host.cpu.numa_nodes;
  if (nodes == 0) return Check::ok("numa", "unknown, taken as 1 node");
  if (nodes == 1) return Check::ok("numa", "1 node");
  return Check::warn("numa", fmt::format("{} nodes", nodes),
                     "copies across nodes run at part of the speed",
                     "run one node per socket: numactl --cpunodebind=N --membind=N larder ...");
}

Check check_hashing(const HostReport& host) {
  const auto& cpu = host.cpu;
  if (cpu.has("avx512f")) return Check::ok("cpu_hashing", "avx512");
  if (cpu.has("avx2")) return Check::ok("cpu_hashing", "avx2");
  if (cpu.has("asimd")) return Check::ok("cpu_hashing", "neon");
  return Check::warn("cpu_hashing", "neither avx2, avx512 nor neon",
                     "checksums take 2 to 4 times as long",
                     "use a newer CPU, or pass the host's CPU through to the virtual machine");
}

Check check_memory(const HostReport& host) {
  const auto& memory = host.memory;
  std::string found =
      fmt::format("{} available of {}", human_bytes(memory.available), human_bytes(memory.total));
  std::uint64_t usable = memory.available;
  if (memory.cgroup_limit) {
    found += fmt::format(", cgroup limit {}", human_bytes(*memory.cgroup_limit));
    usable = std::min(usable, *memory.cgroup_limit);
  }
  const std::string mend = "free memory, or raise the cgroup limit (memory.max, docker --memory)";
  if (usable >= kMemoryGood) return Check::ok("memory", found);
  if (memory.total == 0) {
    return Check::warn("memory", "unknown", "the size of the tier cannot be chosen", "mount /proc");
  }
  if (usable < kMemoryMin) {
    return Check::fail("memory", found, "no room for a segment: a node cannot start", mend);
  }
  return Check::warn("memory", found, "a small tier: few hits", mend);
}

Check check_memfd(const HostReport& host) {
  const int error = host.memfd.create_errno;
  if (error == 0) return Check::ok("memfd", "works");
  return Check::fail("memfd", errno_text(error), "no segment can be made: a node cannot start",
                     "allow memfd_create in the sandbox (seccomp), Linux 3.17 or newer");
}

Check check_seal(const HostReport& host) {
  const auto& memfd = host.memfd;
  if (memfd.seal_errno == 0 && memfd.seal_held)
    return Check::ok("memfd_seal", "F_SEAL_FUTURE_WRITE holds");
  const std::string found =
      memfd.seal_errno != 0 ? errno_text(memfd.seal_errno) : "accepted but not enforced";
  return Check::fail("memfd_seal", found,
                     "a node does not start: it could not keep clients from writing to its memory",
                     "use Linux 5.1 or newer; allow fcntl(F_ADD_SEALS) in the sandbox");
}

Check check_huge_pages(const HostReport& host) {
  const auto& huge = host.huge;
  const std::string found =
      fmt::format("{} free of {} x {}", huge.free, huge.total, human_bytes(huge.page_size));
  if (huge.memfd_errno == 0) return Check::ok("huge_pages", found + ", memfd works");
  return Check::warn("huge_pages", fmt::format("{}: {}", found, errno_text(huge.memfd_errno)),
                     "small pages: more TLB misses, slower first touch",
                     "sysctl vm.nr_hugepages=N, with N pages for the size of the tier");
}

Check check_thp(const HostReport& host) {
  const auto& huge = host.huge;
  const std::string found =
      fmt::format("private {}, shared {}", huge.thp.empty() ? "absent" : huge.thp,
                  huge.shmem.empty() ? "absent" : huge.shmem);
  // The huge-page pool does the same for segments, and better.
  const bool needed = huge.memfd_errno != 0;
  const bool shared = !huge.shmem.empty() && huge.shmem != "never" && huge.shmem != "deny";
  if (!needed || shared) return Check::ok("thp", found);
  return Check::warn("thp", found, "segments fall back to 4 KiB pages",
                     "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled");
}

Check check_memlock(const HostReport& host) {
  const auto& limits = host.limits;
  const std::string found = fmt::format("{} (hard {})", limit_text(limits.memlock_soft, true),
                                        limit_text(limits.memlock_hard, true));
  if (limits.memlock_soft.value_or(kMemlockGood) >= kMemlockGood)
    return Check::ok("memlock", found);
  return Check::warn("memlock", found, "memory cannot be pinned for rings and devices",
                     "ulimit -l unlimited, LimitMEMLOCK=infinity, docker --ulimit memlock=-1");
}

Check check_files(const HostReport& host) {
  const auto& limits = host.limits;
  const std::string found = fmt::format("{} (hard {})", limit_text(limits.files_soft, false),
                                        limit_text(limits.files_hard, false));
  const std::string mend = "ulimit -n 65536, LimitNOFILE=65536, docker --ulimit nofile=65536";
  const std::uint64_t soft = limits.files_soft.value_or(kFilesGood);
  if (soft < kFilesMin) {
    return Check::fail("open_files", found, "no descriptors left for clients", mend);
  }
  if (soft >= kFilesGood) return Check::ok("open_files", found);
  return Check::warn("open_files", found,
                     fmt::format("a node refuses connections at about {}", soft), mend);
}

Check check_io_uring(const HostReport& host) {
  const auto& ring = host.io_uring;
  if (ring.setup_errno == 0) return Check::ok("io_uring", "works");
  std::string found = errno_text(ring.setup_errno);
  if (ring.disabled) found += fmt::format(" (kernel.io_uring_disabled={})", *ring.disabled);
  const bool by_sysctl = ring.disabled.value_or(0) != 0;
  return Check::warn("io_uring", found,
                     "file I/O falls back to a pread/pwrite pool: more CPU per read",
                     by_sysctl ? "sysctl kernel.io_uring_disabled=0"
                               : "allow the io_uring calls in the sandbox (seccomp profile)");
}

Check check_directory(const HostReport& host) {
  const auto& dir = host.directory;
  const std::string path = base::quoted(dir.path, 200);
  if (dir.write_errno != 0) {
    return Check::fail("directory", fmt::format("{}: {}", path, errno_text(dir.write_errno)),
                       "no file can be kept there", "make it, or give a writable one with --dir");
  }
  const std::string found =
      fmt::format("{} writable, {}, {} free", path, dir.filesystem, human_bytes(dir.free));
  if (!dir.in_memory) return Check::ok("directory", found);
  return Check::warn("directory", found,
                     "it is memory: it takes from the DRAM tier and dies with the host",
                     "give a folder on a local disk with --dir");
}

Check check_direct(const HostReport& host) {
  const auto& dir = host.directory;
  if (dir.write_errno != 0) {
    return Check::warn("o_direct", "not tried", "unknown", "mend the check `directory` first");
  }
  if (dir.direct_errno == 0) return Check::ok("o_direct", "works on " + dir.filesystem);
  return Check::warn("o_direct", errno_text(dir.direct_errno),
                     "disk reads go through the page cache: one more copy, memory counted twice",
                     "give a folder on ext4 or xfs with --dir");
}

Check check_shm(const HostReport& host) {
  const auto& memory = host.memory;
  const std::string found = memory.shm_size == 0
                                ? "not mounted"
                                : fmt::format("{} free of {}", human_bytes(memory.shm_free),
                                              human_bytes(memory.shm_size));
  if (memory.shm_size > kShmGood) return Check::ok("dev_shm", found);
  return Check::warn("dev_shm", found,
                     "nothing in Larder; engines beside it (NCCL, PyTorch) may fail",
                     "docker --shm-size=1g, or mount -o remount,size=1G /dev/shm");
}

Check check_tcp(const HostReport& host) {
  const auto& net = host.network;
  if (net.tcp_rmem_max == 0 || net.tcp_wmem_max == 0) return Check::ok("tcp_buffers", "unknown");
  const std::string found = fmt::format("read {}, write {} at most", human_bytes(net.tcp_rmem_max),
                                        human_bytes(net.tcp_wmem_max));
  if (std::min(net.tcp_rmem_max, net.tcp_wmem_max) >= kTcpBufferGood) {
    return Check::ok("tcp_buffers", found);
  }
  return Check::warn("tcp_buffers", found, "one connection cannot fill a fast or long link",
                     "sysctl net.ipv4.tcp_rmem='4096 131072 16777216' and the same for tcp_wmem");
}

Check check_socket(const HostReport& host) {
  const auto& net = host.network;
  const std::string path = base::quoted(net.socket_dir, 200);
  if (net.socket_errno == 0) return Check::ok("socket_folder", path + " takes sockets");
  return Check::fail("socket_folder", fmt::format("{}: {}", path, errno_text(net.socket_errno)),
                     "a node cannot open its socket there; clients here could not find it",
                     "set XDG_RUNTIME_DIR to a folder you own, or name another socket");
}

}  // namespace

Check Check::ok(std::string id, std::string found) {
  return {std::move(id), Mark::kOk, std::move(found), {}, {}};
}
Check Check::warn(std::string id, std::string found, std::string cost, std::string mend) {
  return {std::move(id), Mark::kWarn, std::move(found), std::move(cost), std::move(mend)};
}
Check Check::fail(std::string id, std::string found, std::string cost, std::string mend) {
  return {std::move(id), Mark::kFail, std::move(found), std::move(cost), std::move(mend)};
}

std::string errno_text(int number) {
  char buffer[128];
  return ::strerror_r(number, buffer, sizeof buffer);
}

std::vector<Check> judge_host(const env::HostReport& report) {
  return {check_kernel(report),    check_cores(report),      check_numa(report),
          check_hashing(report),   check_memory(report),     check_memfd(report),
          check_seal(report),      check_huge_pages(report), check_thp(report),
          check_memlock(report),   check_files(report),      check_shm(report),
          check_socket(report),    check_tcp(report),        check_io_uring(report),
          check_directory(report), check_direct(report)};
}

}  // namespace larder::apps
