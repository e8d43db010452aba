// SPDX-License-Identifier: Apache-2.0
// Everything a node can be told. One struct, filled by env::Config from defaults, a file and flags.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "env/config.h"
#include "larder/status.h"
#include "node/cold_config.h"

namespace larder::node {

struct NodeOptions {
  std::string id;                   // stable id; empty: derived from the socket's path
  std::string socket;               // Unix socket path; empty: larder::default_socket_path()
  std::vector<std::string> listen;  // "HOST:PORT"; empty: no TCP
  std::string http;                 // "HOST:PORT" of the metrics server; empty: none
  std::string token_file;           // asked of everybody, on every listener
  bool http_open = false;           // allows the metrics server beyond loopback
  bool insecure = false;            // allows listening beyond loopback without a token
  bool share_memory = true;         // clients of this host may map the segments, read-only
  std::string meta = "memory://";
  unsigned reactors = 0;  // 0: half of the cores, 1 to 8
  std::chrono::nanoseconds spin{0};
  std::chrono::nanoseconds stop_timeout{0};
  std::chrono::nanoseconds stall_timeout{0};
  std::chrono::nanoseconds handshake_timeout{0};
  std::chrono::nanoseconds lease{0};  // of this node in the metadata service
  unsigned connections_max = 0;
  std::uint64_t hot_capacity = 0;
  std::string hot_pages;  // auto, 4k, thp, 2m
  bool hot_populate = true;
  double hot_high_watermark = 0;
  double hot_low_watermark = 0;
  std::uint32_t hot_objects_max = 0;
  ColdSettings cold;
  std::string log_level;
  std::string log_format;
};

// The table of keys with their defaults, bounds and help; writes into `options`, which must outlive
// the Config made from it.
env::ConfigSchema node_schema(NodeOptions& options);
// Defaults only: what tests and the embedded node start from.
Result<NodeOptions> default_node_options();
// Rules that span keys: watermark order, who may be reached without a token.
Result<void> validate(const NodeOptions& options);

}  // namespace larder::node
