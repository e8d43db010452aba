// SPDX-License-Identifier: Apache-2.0
// The store's side of the disk cases: a node with a disk, and clients of it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/bench/dataset.h"
#include "apps/bench/disk_case.h"
#include "apps/bench/node_session.h"
#include "apps/bench/probe.h"

namespace larder::apps {

// Outlives the probes made with it.
struct DiskContext {
  const NodeSession& session;
  std::span<std::byte> memory;    // of the callers
  std::uint64_t hot_bytes = 0;    // of the node's DRAM
  const Dataset* data = nullptr;  // of the gets
  bool verify = false;
};

Result<ProbePtr> make_disk_probe(const DiskCase& name, const DiskContext& context);
// Waits until every value has a record.
Result<void> wait_on_disk(Client& client, std::span<const std::string_view> keys);
// Puts others until none of these has a copy in DRAM any more. What is read from disk once does not
// come back there, so those that were left in it would be hits in DRAM for ever.
Result<void> push_out_of_dram(Client& client, std::span<const std::string_view> keys,
                              const DiskContext& context);

}  // namespace larder::apps
