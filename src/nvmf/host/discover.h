// SPDX-License-Identifier: Apache-2.0
// What is at an address, for tools.
#pragma once

#include <vector>

#include "nvmf/host/facts.h"
#include "nvmf/host/options.h"

namespace larder::nvmf {

inline constexpr std::size_t kDiscoveryEntriesMax = 4096;

struct ToolOptions {
  NvmeUrl url;
  HostIdentityOptions host = {};
  env::Nanos timeout = 10 * env::kSecond;  // for all of it
};

// The discovery log page (Fabrics 1.1 section 5.4), of one moment: it is read again while it
// changes. The NQN of the URL does not matter. kConflict: it never stood still; kTooLarge: it has
// more than kDiscoveryEntriesMax entries; kCorrupt: it makes no sense; else as attach().
Result<std::vector<DiscoveredSubsystem>> discover(const ToolOptions& options);

struct Identified {
  ControllerFacts controller;
  std::uint16_t io_queues = 0;  // granted of 64
  // Namespaces that a block device can be made of: the one that the URL names, or all.
  std::vector<NamespaceFacts> namespaces;
  std::vector<std::string> others;  // why not, of the rest
};
// kInvalidArgument: the URL has no NQN. Else as attach() and find_namespace().
Result<Identified> identify(const ToolOptions& options);

}  // namespace larder::nvmf
