// SPDX-License-Identifier: Apache-2.0
// `larder doctor --disk DIR[:SIZE]`: whether a folder is fit for a cold tier, tried for real.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/doctor.h"
#include "block/block_device.h"
#include "env/clock.h"
#include "larder/status.h"

namespace larder::apps {

struct DiskSpec {
  std::string path;
  std::uint64_t bytes = 0;  // 0: not said
};
// The size is what follows the last colon, where that is a size. kInvalidArgument: no path.
Result<DiskSpec> parse_disk_spec(std::string_view text);

// The file in which a node keeps its records in the folder.
inline constexpr std::string_view kStoreName = "larder.store";

struct StoreReport {
  bool there = false;
  std::uint64_t bytes = 0;  // of the disk that it takes
  bool in_use = false;      // a process has it
  std::string error = {};   // why it cannot be read, or who has it
  std::string uuid = {};
  std::string owner = {};  // who opened it last
  bool clean = false;      // and closed it well
};

struct DiskReport {
  std::string path;
  std::uint64_t asked = 0;   // bytes; 0: not said
  env::DirectoryReport dir;  // writable, O_DIRECT, file system, free bytes
  env::IoUringReport io_uring;
  bool same_as_root = false;  // on the file system of "/"
  StoreReport store;
  // Of the device below; empty when the kernel does not say, as of overlays and networks.
  std::optional<bool> volatile_cache;
  bool tried = false;  // the file was made and the rest measured
  std::string error;   // why not, in words
  bool direct = false;
  std::uint32_t block_bytes = 0;
  env::Nanos flush = 0;          // median of a flush after a small write
  double write_bytes_per_s = 0;  // with 32 operations of 1 MiB in flight
  double read_bytes_per_s = 0;
};

struct DiskProbeOptions {
  std::uint64_t file_bytes = 256U << 20U;  // at most; an eighth of the free space at most
  env::Nanos span = env::kSecond / 2;      // of writing, and of reading; a pass at least
  std::size_t flushes = 33;                // 1 at least
};

// Makes a file in the folder, reads and writes it, and removes it; a record store that is there is
// only looked at. Never fails: the report says what went wrong.
DiskReport probe_disk(const DiskSpec& spec, const DiskProbeOptions& options = {});

// Reads the superblocks of a device, and nothing but those.
StoreReport probe_store(std::shared_ptr<block::BlockDevice> device);

// Prints the report; the exit status as of run_doctor().
int run_disk_doctor(const DiskSpec& spec, bool json);

// Pure, as in doctor.h.
std::vector<Check> judge_disk(const DiskReport& report);
std::string render_disk_json(const DiskReport& report, const std::vector<Check>& checks);

}  // namespace larder::apps
