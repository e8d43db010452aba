// SPDX-License-Identifier: Apache-2.0
#include "tier/hot/segment_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

namespace larder::tier {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 16;
constexpr int kCgroupDepthMax = 64;

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  std::string text(kFileBytesMax, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, in.gcount())));
  return text;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return std::nullopt;
  text.remove_prefix(start);
  std::uint64_t value = 0;
  const auto got = std::from_chars(text.data(), text.data() + text.size(), value);
  if (got.ec != std::errc{}) return std::nullopt;
  return value;
}

// The number that follows `label` at the start of a line.
std::optional<std::uint64_t> field(const std::string& text, std::string_view label) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(label)) return parse_number(std::string_view(line).substr(label.size()));
  }
  return std::nullopt;
}

struct CgroupFiles {
  std::string mount;  // of the hierarchy that counts memory
  std::string path;   // of this process below it
  const char* limit;
  const char* usage;
  const char* reclaimable;  // the line of memory.stat with cache that the kernel drops first
};

// The line "4:memory:/path" names version 1, "0::/path" version 2.
std::optional<CgroupFiles> find_cgroup(const std::string& root) {
  std::istringstream lines(read_text(root + "/proc/self/cgroup"));
  std::optional<CgroupFiles> found;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers.find(",memory,") != std::string::npos) {
      return CgroupFiles{root + "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes",
                         "memory.usage_in_bytes", "total_inactive_file "};
    }
    if (controllers == ",,") {
      found = CgroupFiles{root + "/sys/fs/cgroup", path, "memory.max", "memory.current",
                          "inactive_file "};
    }
  }
  return found;
}

std::optional<std::uint64_t> room_at(const CgroupFiles& files, const std::string& folder) {
  const auto limit = parse_number(read_text(folder + "/" + files.limit));  // "max": no limit
  const auto usage = parse_number(read_text(folder + "/" + files.usage));
  if (!limit || !usage) return std::nullopt;
  const std::string stat = read_text(folder + "/memory.stat");
  const std::uint64_t kept = *usage - std::min(*usage, field(stat, files.reclaimable).value_or(0));
  return *limit - std::min(*limit, kept);
}

// In a container the path is that of the host and may not exist here: then the levels above it,
// up to the mount itself, which is the container's own group.
std::optional<std::uint64_t> cgroup_room(const std::string& root) {
  const auto files = find_cgroup(root);
  if (!files) return std::nullopt;
  std::optional<std::uint64_t> tightest;
  std::string path = files->path == "/" ? "" : files->path;
  for (int depth = 0; depth < kCgroupDepthMax; ++depth) {
    const auto here = room_at(*files, files->mount + path);
    if (here && (!tightest || *here < *tightest)) tightest = here;
    if (path.empty()) break;
    const std::size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
  return tightest;
}

}  // namespace

MemoryRoom read_memory_room(const std::string& root) {
  MemoryRoom room;
  room.host_bytes = field(read_text(root + "/proc/meminfo"), "MemAvailable:").value_or(0) * 1024;
  room.cgroup_bytes = cgroup_room(root);
  return room;
}

HugePages2M read_huge_pages_2m(const std::string& root) {
  const std::string folder = root + "/sys/kernel/mm/hugepages/hugepages-2048kB/";
  HugePages2M pages;
  pages.total_pages = parse_number(read_text(folder + "nr_hugepages")).value_or(0);
  const std::uint64_t free = parse_number(read_text(folder + "free_hugepages")).value_or(0);
  const std::uint64_t promised = parse_number(read_text(folder + "resv_hugepages")).value_or(0);
  pages.free_pages = free - std::min(free, promised);
  return pages;
}

bool shmem_thp_allowed(const std::string& root) {
  const std::string text = read_text(root + "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  return text.find("[always]") != std::string::npos || text.find("[advise]") != std::string::npos ||
         text.find("[within_size]") != std::string::npos ||
         text.find("[force]") != std::string::npos;
}

}  // namespace larder::tier
