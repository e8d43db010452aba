// SPDX-License-Identifier: Apache-2.0
#include "node/cold_config.h"

#include <algorithm>

namespace larder::node {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;

constexpr std::uint64_t kRateMax = 1ULL << 50U;

void add_policy_keys(env::ConfigSchema& schema, ColdSettings& settings) {
  using env::into;
  schema
      .add_list(
          "cold.disks", "", {0, 64},
          "disks to keep values on: PATH or PATH:SIZE, a directory (its file is "
          "PATH/larder.store), a file or a block device; or nvme-tcp://HOST[:PORT]/NQN[#NSID]",
          into(settings.disks))
      .add_bool("cold.take_over", false,
                "open a remote disk that another node, now gone for good, has not closed",
                into(settings.take_over))
      .add_enum("cold.mode", "passthrough", {"passthrough", "evict"},
                "when values are written: as soon as they are stored, or when DRAM wants to drop "
                "them",
                into(settings.mode))
      .add_enum("cold.order", "fifo", {"fifo", "small_first", "large_first"},
                "which of those that wait is written next", into(settings.order))
      .add_enum("cold.admit", "all", {"all", "asked", "frequency"},
                "which values are worth writing: all, or those that were asked for before",
                into(settings.admit))
      .add_bool("cold.admit_fill_first", true, "all are while the disks have room",
                into(settings.admit_fill_first))
      .add_size("cold.admit_memory", "4MiB", {64, 1ULL << 32U},
                "memory for keys that were asked for", into(settings.admit_memory))
      .add_enum("cold.promotion", "on_second_hit", {"never", "on_hit", "on_second_hit"},
                "when a value that was read from disk stays in DRAM", into(settings.promotion))
      .add_enum("cold.direct", "any", {"off", "host", "any"},
                "who may read values from the disks without the node: nobody, clients of its host, "
                "or clients anywhere (of them only from remote disks)",
                into(settings.direct));
}

void add_space_keys(env::ConfigSchema& schema, ColdSettings& settings) {
  using env::into;
  schema
      .add_ratio("cold.high_watermark", "0.95", {0.01, 1.0},
                 "the least wanted values leave a disk above this share",
                 into(settings.high_watermark))
      .add_ratio("cold.low_watermark", "0.90", {0.01, 1.0}, "until it is down to this one",
                 into(settings.low_watermark))
      .add_ratio("cold.critical_watermark", "0.99", {0.01, 1.0},
                 "nothing is written to a disk above this share", into(settings.critical_watermark))
      .add_size("cold.reserve", "0B", {0, kRateMax}, "bytes of each disk that are never used",
                into(settings.reserve_bytes))
      .add_size("cold.record_size", "64KiB", {4096, 1ULL << 30U},
                "values are about this large, or larger: a new store has headers for that many",
                into(settings.record_bytes));
}

void add_rate_keys(env::ConfigSchema& schema, ColdSettings& settings) {
  using env::into;
  schema
      .add_u64("cold.read_depth", 32, {1, 512}, "reads in flight on a disk",
               into(settings.read_depth))
      .add_u64("cold.write_depth", 32, {1, 512}, "writes in flight on a disk",
               into(settings.write_depth))
      .add_size("cold.restore_memory", "256MiB", {1ULL << 20U, 1ULL << 40U},
                "values being read from the disks at a time; who asks for more waits",
                into(settings.restore_bytes))
      .add_size("cold.write_bytes_per_s", "0B", {0, kRateMax},
                "written to all disks together at most; 0: no limit",
                into(settings.node_bytes_per_s))
      .add_u64("cold.writes_per_s", 0, {0, kRateMax}, "likewise, values",
               into(settings.node_ops_per_s))
      .add_size("cold.disk_write_bytes_per_s", "0B", {0, kRateMax}, "the same of each disk",
                into(settings.disk_bytes_per_s))
      .add_u64("cold.disk_writes_per_s", 0, {0, kRateMax}, "likewise, values",
               into(settings.disk_ops_per_s))
      .add_duration("cold.scrub_every", "7d", {nanoseconds(0), hours(24 * 365)},
                    "every value on disk is read and verified once in this time; 0s: never",
                    into(settings.scrub_every));
}

}  // namespace

void add_cold_keys(env::ConfigSchema& schema, ColdSettings& settings) {
  add_policy_keys(schema, settings);
  add_space_keys(schema, settings);
  add_rate_keys(schema, settings);
}

Result<tier::ColdOptions> cold_options(const ColdSettings& settings) {
  if (settings.low_watermark > settings.high_watermark ||
      settings.high_watermark > settings.critical_watermark) {
    return fail(Code::kInvalidArgument,
                "cold.low_watermark, cold.high_watermark and cold.critical_watermark must be in "
                "this order");
  }
  tier::ColdOptions options;
  options.mode = tier::parse_offload_mode(settings.mode).value_or(options.mode);
  options.queue.order = tier::parse_offload_order(settings.order).value_or(options.queue.order);
  options.reuse.mode = tier::parse_reuse_mode(settings.admit).value_or(options.reuse.mode);
  options.reuse.memory_bytes = settings.admit_memory;
  options.reuse.fill_first = settings.admit_fill_first;
  options.promotion = settings.promotion == "never"    ? tier::Promotion::kNever
                      : settings.promotion == "on_hit" ? tier::Promotion::kOnHit
                                                       : tier::Promotion::kOnSecondHit;
  options.direct = settings.direct == "off"    ? tier::DirectReads::kOff
                   : settings.direct == "host" ? tier::DirectReads::kHost
                                               : tier::DirectReads::kAny;
  options.high_watermark = settings.high_watermark;
  options.low_watermark = settings.low_watermark;
  options.critical_watermark = settings.critical_watermark;
  options.reserve_bytes = settings.reserve_bytes;
  options.record_bytes = settings.record_bytes;
  options.read_depth = settings.read_depth;
  options.write_depth = settings.write_depth;
  options.restore_bytes_max = settings.restore_bytes;
  options.admission.node.bytes_per_s = settings.node_bytes_per_s;
  options.admission.node.ops_per_s = settings.node_ops_per_s;
  options.admission.device.bytes_per_s = settings.disk_bytes_per_s;
  options.admission.device.ops_per_s = settings.disk_ops_per_s;
  options.take_over = settings.take_over;
  options.scrub_every = settings.scrub_every.count();
  return options;
}

Result<std::vector<tier::DiskSpec>> cold_disks(const ColdSettings& settings) {
  std::vector<tier::DiskSpec> disks;
  for (const std::string& text : settings.disks) {
    LARDER_ASSIGN(tier::DiskSpec disk, tier::parse_disk(text));
    const bool twice = std::any_of(disks.begin(), disks.end(),
                                   [&](const auto& other) { return other.path == disk.path; });
    if (twice) {
      return fail(Code::kInvalidArgument, "cold.disks: " + disk.path + " is named twice");
    }
    disks.push_back(std::move(disk));
  }
  return disks;
}

}  // namespace larder::node
