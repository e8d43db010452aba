// SPDX-License-Identifier: Apache-2.0
// The probes that read what the kernel publishes. Those that try things are in host_probe_try.cc.
#include "env/host_probe.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>

namespace larder::env {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 20;  // more than any file read here
constexpr unsigned kCpusMax = 1 << 16;          // more than any kernel has

// The first kFileBytesMax bytes of a small kernel file; empty when there is none.
std::string read_text(const std::string& path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                       &std::fclose);
  std::string text;
  if (!file) return text;
  char buffer[4096];
  while (text.size() < kFileBytesMax) {
    const std::size_t got = std::fread(buffer, 1, sizeof buffer, file.get());
    if (got == 0) break;
    text.append(buffer, got);
  }
  return text;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::optional<std::uint64_t> number(std::string_view text) {
  text = trimmed(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The text after the first "key<blanks>:" of a line, without blanks around it.
std::string_view field(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const auto colon = line.find(':');
    if (colon != std::string_view::npos && trimmed(line.substr(0, colon)) == key) {
      return trimmed(line.substr(colon + 1));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

// This process's folder in the unified cgroup hierarchy ("0::/a/b"), or "".
std::string cgroup_path(const std::string& root) {
  std::string text = read_text(root + "/proc/self/cgroup");
  const auto at = text.find("0::/");
  if (at == std::string::npos || (at > 0 && text[at - 1] != '\n')) return {};
  const auto begin = at + 3;
  return text.substr(begin, text.find('\n', begin) - begin);
}

// Calls visit(folder) for this process's cgroup and every one above it, up to the root.
template <class Visit>
void for_each_cgroup(const std::string& root, Visit visit) {
  std::string path = cgroup_path(root);
  while (true) {
    visit(root + "/sys/fs/cgroup" + (path == "/" ? "" : path));
    if (path.empty() || path == "/") return;
    path.resize(path.rfind('/'));
  }
}

std::optional<std::uint64_t> cgroup_memory_limit(const std::string& root) {
  std::optional<std::uint64_t> limit;
  const auto take = [&limit](std::optional<std::uint64_t> value) {
    // The old hierarchy writes "no limit" as a number near 2^63.
    if (value && *value < (1ULL << 60)) limit = limit ? std::min(*limit, *value) : *value;
  };
  for_each_cgroup(root,
                  [&](const std::string& dir) { take(number(read_text(dir + "/memory.max"))); });
  take(number(read_text(root + "/sys/fs/cgroup/memory/memory.limit_in_bytes")));
  return limit;
}

std::optional<double> cgroup_cores(const std::string& root) {
  std::optional<double> cores;
  const auto take = [&cores](std::optional<std::uint64_t> quota,
                             std::optional<std::uint64_t> period) {
    if (!quota || !period || *period == 0) return;
    const double value = static_cast<double>(*quota) / static_cast<double>(*period);
    cores = cores ? std::min(*cores, value) : value;
  };
  for_each_cgroup(root, [&](const std::string& dir) {
    const std::string text = read_text(dir + "/cpu.max");  // "150000 100000" or "max 100000"
    const auto blank = text.find(' ');
    if (blank == std::string::npos) return;
    take(number(std::string_view(text).substr(0, blank)),
         number(std::string_view(text).substr(blank)));
  });
  const std::string old = root + "/sys/fs/cgroup/cpu/cpu.cfs_";
  take(number(read_text(old + "quota_us")), number(read_text(old + "period_us")));
  return cores;
}

std::optional<std::uint64_t> limit_value(rlim_t value) {
  if (value == RLIM_INFINITY) return std::nullopt;
  return value;
}

}  // namespace

bool CpuReport::has(std::string_view flag) const noexcept {
  std::string_view rest = flags;
  while (!flag.empty() && !rest.empty()) {
    const auto end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == flag) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

unsigned count_cpu_list(std::string_view list) {
  std::uint64_t count = 0;
  list = trimmed(list);
  while (!list.empty()) {
    const auto end = std::min(list.find(','), list.size());
    const std::string_view part = list.substr(0, end);
    const auto dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (!first || !last || *last < *first || *last >= kCpusMax) return 0;
    count += *last - *first + 1;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return static_cast<unsigned>(std::min<std::uint64_t>(count, kCpusMax));
}

std::uint64_t meminfo_bytes(std::string_view text, std::string_view key) {
  std::string_view value = field(text, key);
  std::uint64_t unit = 1;
  if (value.ends_with("kB")) {
    unit = 1024;
    value.remove_suffix(2);
  }
  const auto count = number(value);
  return count && *count <= UINT64_MAX / unit ? *count * unit : 0;
}

std::string chosen_word(std::string_view text) {
  const auto begin = text.find('[');
  const auto end = text.find(']');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return {};
  return std::string(text.substr(begin + 1, end - begin - 1));
}

std::uint64_t last_number(std::string_view text) {
  text = trimmed(text);
  const auto blank = text.find_last_of(" \t");
  return number(blank == std::string_view::npos ? text : text.substr(blank)).value_or(0);
}

void probe_kernel(HostReport& report) {
  utsname name{};
  if (::uname(&name) != 0) return;
  report.kernel = name.release;
  const char* const end = report.kernel.data() + report.kernel.size();
  const auto major = std::from_chars(report.kernel.data(), end, report.kernel_major);
  if (major.ec == std::errc{} && major.ptr != end) {
    std::from_chars(major.ptr + 1, end, report.kernel_minor);
  }
}

CpuReport probe_cpu(const std::string& root) {
  CpuReport report;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    report.usable = static_cast<unsigned>(CPU_COUNT(&set));
  } else {  // more cores than cpu_set_t has bits
    report.usable = count_cpu_list(read_text(root + "/sys/devices/system/cpu/online"));
  }
  report.quota = cgroup_cores(root);
  report.numa_nodes = count_cpu_list(read_text(root + "/sys/devices/system/node/online"));
  const std::string info = read_text(root + "/proc/cpuinfo");
  std::string_view flags = field(info, "flags");
  if (flags.empty()) flags = field(info, "Features");  // what arm64 calls them
  report.flags = flags;
  return report;
}

MemoryReport probe_memory(const std::string& root) {
  MemoryReport report;
  const std::string info = read_text(root + "/proc/meminfo");
  report.total = meminfo_bytes(info, "MemTotal");
  report.available = meminfo_bytes(info, "MemAvailable");
  report.cgroup_limit = cgroup_memory_limit(root);
  struct statvfs shm {};
  if (::statvfs((root + "/dev/shm").c_str(), &shm) == 0) {
    report.shm_size = static_cast<std::uint64_t>(shm.f_blocks) * shm.f_frsize;
    report.shm_free = static_cast<std::uint64_t>(shm.f_bavail) * shm.f_frsize;
  }
  return report;
}

std::optional<int> read_io_uring_disabled(const std::string& root) {
  const auto value = number(read_text(root + "/proc/sys/kernel/io_uring_disabled"));
  if (!value || *value > 2) return std::nullopt;
  return static_cast<int>(*value);
}

HugePageReport read_huge_page_pool(const std::string& root) {
  HugePageReport report;
  const std::string info = read_text(root + "/proc/meminfo");
  report.total = meminfo_bytes(info, "HugePages_Total");
  report.free = meminfo_bytes(info, "HugePages_Free");
  const std::uint64_t reserved = meminfo_bytes(info, "HugePages_Rsvd");
  report.free -= std::min(report.free, reserved);
  report.page_size = meminfo_bytes(info, "Hugepagesize");
  const std::string thp = root + "/sys/kernel/mm/transparent_hugepage/";
  report.thp = chosen_word(read_text(thp + "enabled"));
  report.shmem = chosen_word(read_text(thp + "shmem_enabled"));
  return report;
}

LimitReport probe_limits() {
  LimitReport report;
  rlimit value{};
  if (::getrlimit(RLIMIT_MEMLOCK, &value) == 0) {
    report.memlock_soft = limit_value(value.rlim_cur);
    report.memlock_hard = limit_value(value.rlim_max);
  }
  if (::getrlimit(RLIMIT_NOFILE, &value) == 0) {
    report.files_soft = limit_value(value.rlim_cur);
    report.files_hard = limit_value(value.rlim_max);
  }
  return report;
}

void read_tcp_buffers(NetworkReport& report, const std::string& root) {
  report.tcp_rmem_max = last_number(read_text(root + "/proc/sys/net/ipv4/tcp_rmem"));
  report.tcp_wmem_max = last_number(read_text(root + "/proc/sys/net/ipv4/tcp_wmem"));
}

HostReport probe_host(const std::string& directory, const std::string& socket_dir) {
  HostReport report;
  probe_kernel(report);
  report.cpu = probe_cpu();
  report.memory = probe_memory();
  report.huge = probe_huge_pages();
  report.memfd = probe_memfd();
  report.io_uring = probe_io_uring();
  report.directory = probe_directory(directory);
  report.limits = probe_limits();
  report.network = probe_network(socket_dir);
  return report;
}

std::string boot_id() {
  std::string text = read_text("/proc/sys/kernel/random/boot_id");
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace larder::env
