// SPDX-License-Identifier: Apache-2.0
// What the host still has to give: read before a segment is made, so that filling it cannot end in
// the out-of-memory killer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace larder::tier {

struct MemoryRoom {
  std::uint64_t host_bytes = 0;               // MemAvailable; 0 when it cannot be read
  std::optional<std::uint64_t> cgroup_bytes;  // the tightest limit above us, less what is in use
  std::uint64_t room() const noexcept {
    return cgroup_bytes && *cgroup_bytes < host_bytes ? *cgroup_bytes : host_bytes;
  }
};

struct HugePages2M {
  std::uint64_t free_pages = 0;  // free and not promised to anybody
  std::uint64_t total_pages = 0;
};

// `root` stands before /proc and /sys: empty but in tests. Both cgroup versions are understood.
MemoryRoom read_memory_room(const std::string& root = {});
HugePages2M read_huge_pages_2m(const std::string& root = {});
// True when the kernel gives huge pages to shared memory that asks with madvise().
bool shmem_thp_allowed(const std::string& root = {});

}  // namespace larder::tier
