// SPDX-License-Identifier: Apache-2.0
// What sysfs tells of a block device of this host.
#pragma once

#include <cstdint>
#include <string>

namespace larder::block {

struct DiskFacts {
  bool volatile_cache = true;       // unless the kernel says "write through"
  std::uint32_t discard_bytes = 0;  // 0: it cannot discard
  std::uint32_t optimal_bytes = 0;  // 0: it does not say
  std::string serial;               // of the medium and the partition; empty: unknown
};

// Of the device with these numbers. What cannot be read keeps its default; `sysfs` is /sys but in
// tests.
DiskFacts disk_facts(unsigned major, unsigned minor, const std::string& sysfs = "/sys");

}  // namespace larder::block
