// SPDX-License-Identifier: Apache-2.0
// The node under measurement: a running one, or one of our own.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/bench/case_name.h"
#include "apps/bench/options.h"
#include "apps/local_node.h"
#include "larder/client.h"
#include "larder/status.h"

namespace larder::apps {

class NodeSession {
 public:
  // Starts a node with `capacity` bytes of DRAM unless the options name one. Main thread only.
  static Result<std::unique_ptr<NodeSession>> open(const BenchOptions& options,
                                                   std::uint64_t capacity);
  // False where a running node was named without an address of that kind.
  bool reaches(BenchPath path) const noexcept;
  // Checks that the client really took the path of the case. `route_cache_entries` 0: none.
  Result<std::unique_ptr<Client>> connect(BenchPath path, std::size_t route_cache_entries) const;
  // The node's process; kUnsupported unless it is our own.
  Result<pid_t> pid() const;

 private:
  Result<void> wait_warm() const;
  NodeSession() = default;
  const std::string& address(BenchPath path) const noexcept;

  std::unique_ptr<LocalNode> node_;
  std::string unix_address_;
  std::string tcp_address_;
  std::string token_file_;
  Wait wait_ = Wait::kSpin;
};

}  // namespace larder::apps
