// SPDX-License-Identifier: Apache-2.0
// What this host gives to Larder: measured by trying, not by asking a version number.
//
// Every probe leaves the host as it was, never throws and may run on any thread. A probe that
// cannot tell says so in its struct (an errno, an empty optional); it does not fail.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace larder::env {

// Tells machines apart, and one machine's starts; empty when it cannot be read.
std::string boot_id();

struct CpuReport {
  unsigned usable = 0;          // cores in this process's affinity mask
  std::optional<double> quota;  // cores a cgroup allows, where it limits them
  unsigned numa_nodes = 0;      // 0: unknown
  std::string flags;            // instruction sets, blank-separated, as the kernel names them
  bool has(std::string_view flag) const noexcept;
};

struct MemoryReport {
  std::uint64_t total = 0;                    // bytes
  std::uint64_t available = 0;                // bytes
  std::optional<std::uint64_t> cgroup_limit;  // bytes, where a cgroup limits them
  std::uint64_t shm_size = 0;                 // bytes of /dev/shm; 0: not mounted
  std::uint64_t shm_free = 0;
};

struct HugePageReport {
  std::uint64_t total = 0;      // pages in the pool
  std::uint64_t free = 0;       // pages nobody has reserved
  std::uint64_t page_size = 0;  // bytes
  std::string thp;              // "always" | "madvise" | "never"; empty: no THP here
  std::string shmem;            // the same for shared memory, also "advise", "within_size", ...
  int memfd_errno = 0;          // 0: a huge-page memfd of one page could be mapped
};

struct MemfdReport {
  int create_errno = 0;    // 0: memfd_create and a shared mapping work
  int seal_errno = 0;      // 0: F_SEAL_FUTURE_WRITE was accepted
  bool seal_held = false;  // a writable mapping was refused after it, a read-only one was not
};

struct IoUringReport {
  int setup_errno = 0;          // 0: a ring was set up and entered
  std::optional<int> disabled;  // kernel.io_uring_disabled, where the kernel has it
};

struct DirectoryReport {
  std::string path;
  int write_errno = 0;     // 0: a file could be made there
  int direct_errno = 0;    // 0: an aligned block went out and came back with O_DIRECT
  bool in_memory = false;  // tmpfs or ramfs: nothing there outlives the host
  std::string filesystem;  // "ext4", "xfs", ... or the magic number in hex
  std::uint64_t free = 0;  // bytes this user may still write
};

struct LimitReport {
  // Soft and hard limits; no value: unlimited.
  std::optional<std::uint64_t> memlock_soft, memlock_hard;  // bytes
  std::optional<std::uint64_t> files_soft, files_hard;      // open descriptors
};

struct NetworkReport {
  std::uint64_t tcp_rmem_max = 0;  // bytes; 0: unknown
  std::uint64_t tcp_wmem_max = 0;
  std::string socket_dir;  // where the node's Unix socket goes
  int socket_errno = 0;    // 0: a socket could be bound there
};

struct HostReport {
  std::string kernel;  // "6.1.0-18-amd64"
  unsigned kernel_major = 0, kernel_minor = 0;
  CpuReport cpu;
  MemoryReport memory;
  HugePageReport huge;
  MemfdReport memfd;
  IoUringReport io_uring;
  DirectoryReport directory;
  LimitReport limits;
  NetworkReport network;
};

// All of them. `directory` is where data would be kept, `socket_dir` where the socket would be.
HostReport probe_host(const std::string& directory, const std::string& socket_dir);

void probe_kernel(HostReport& report);
// `root` is "" on a real host; tests give a folder that holds proc/ and sys/.
CpuReport probe_cpu(const std::string& root = {});
MemoryReport probe_memory(const std::string& root = {});
HugePageReport probe_huge_pages(const std::string& root = {});
MemfdReport probe_memfd();
IoUringReport probe_io_uring(const std::string& root = {});
DirectoryReport probe_directory(const std::string& path);
LimitReport probe_limits();
NetworkReport probe_network(const std::string& socket_dir, const std::string& root = {});

// The parts of the above that only read what the kernel publishes.
std::optional<int> read_io_uring_disabled(const std::string& root);
HugePageReport read_huge_page_pool(const std::string& root);
void read_tcp_buffers(NetworkReport& report, const std::string& root);

// Parsers of what the kernel prints; they take any bytes and give 0 or nothing for nonsense.
unsigned count_cpu_list(std::string_view list);                            // "0-3,8" -> 5
std::uint64_t meminfo_bytes(std::string_view text, std::string_view key);  // "MemTotal"
std::string chosen_word(std::string_view text);                            // "a [b] c" -> "b"
std::uint64_t last_number(std::string_view text);                          // "4096 16384 6291456"

}  // namespace larder::env
