// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "env/clock.h"
#include "tier/cold/admission.h"
#include "tier/cold/offload_queue.h"
#include "tier/cold/place.h"
#include "tier/cold/reuse_filter.h"

namespace larder::obs {
class Registry;
}

namespace larder::tier {

// A directory (its file is DIR/larder.store), a file, a disk, or a remote namespace
// (nvme-tcp://...).
struct DiskSpec {
  std::string path;
  std::uint64_t bytes = 0;  // 0: as it is; of a new file half of what is free in its file system
};
// "PATH" or "PATH:SIZE"; the size has a unit ("/var/cache/larder:100GiB"). Or a URL as of
// nvmf/host/url.h. kInvalidArgument.
Result<DiskSpec> parse_disk(const std::string& text);

// When a value that was read from a disk gets a copy in DRAM again.
enum class Promotion : std::uint8_t {
  kNever = 0,
  kOnHit = 1,
  kOnSecondHit = 2,  // it was read before, and less than DRAM holds has been read since
};

// Who may be told where records are, to read them without the node.
enum class DirectReads : std::uint8_t {
  kOff = 0,
  kHost = 1,  // clients of the node's host
  kAny = 2,   // and others, records on remote namespaces
};

struct ColdOptions {
  OffloadMode mode = OffloadMode::kPassthrough;
  OffloadQueueOptions queue;
  AdmissionOptions admission;
  ReuseOptions reuse;
  Promotion promotion = Promotion::kOnSecondHit;
  DirectReads direct = DirectReads::kAny;
  // Of each device's capacity. Above high the least wanted records go, down to low; above critical
  // nothing is written until then. `reserve_bytes` of it stay free whatever happens.
  double high_watermark = 0.95;
  double low_watermark = 0.90;
  double critical_watermark = 0.99;
  std::uint64_t reserve_bytes = 0;
  std::uint64_t record_bytes = 64U << 10U;  // of new stores: extent::FormatOptions
  std::size_t read_depth = 32;
  std::size_t write_depth = 32;
  std::uint64_t restore_bytes_max = 256U << 20U;  // being read at a time; one is always taken
  std::size_t devices_max = kDevicesMax;          // over its life; fewer for tests
  std::uint32_t write_failures_max = 8;           // of one object; then it is given up
  // Opens a remote store that its last owner, another node, has not closed. Were that node still at
  // it, both would write.
  bool take_over = false;
  obs::Registry* metrics = nullptr;  // of connections to remote disks; outlives them
  env::Nanos scrub_every = 0;        // a round through each device; 0: never
};

}  // namespace larder::tier
