// SPDX-License-Identifier: Apache-2.0
// The flags of `larder target`, and what they ask for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "larder/status.h"
#include "nvmf/target/target.h"

namespace larder::apps {

struct TargetFlags {
  std::vector<std::string> ram;      // sizes
  std::vector<std::string> files;    // PATH[:SIZE]
  std::vector<std::string> devices;  // paths
  std::string listen = "127.0.0.1:4420";
  std::string advertise;
  std::string nqn;
  std::vector<std::string> allow_hosts;
  bool read_only = false;
  std::uint32_t block_bytes = 4096;
  unsigned threads = 1;
  std::string metrics;  // ADDR:PORT; empty: none
  bool json = false;
};

struct FileSpec {
  std::string path;
  std::uint64_t bytes = 0;  // 0: as the file is
};
// "PATH" or "PATH:SIZE"; what follows the last colon counts when it is a size.
Result<FileSpec> parse_file_spec(const std::string& text);

// "HOST:PORT", "HOST" or ":PORT"; what is missing is 127.0.0.1 and 4420.
Result<env::SocketAddress> parse_listen(const std::string& text);

// Without namespaces. kInvalidArgument names the flag.
Result<nvmf::TargetOptions> target_options(const TargetFlags& flags);
// Opens what they are on: memory first, then files, then devices, in the order of the flags.
Result<std::vector<nvmf::NamespaceOptions>> open_namespaces(const TargetFlags& flags);

// Looks at the files and disks again (see FileDevice::bytes_now()): one that has grown is served as
// it is now, and hosts are told; `namespaces` then has its new device. One that is shorter stays as
// it was: a host that relied on the size would else lose what is behind it without a word. What was
// found, one line for each that is not what it was. `namespaces` as open_namespaces(), and their
// numbers as the target gave them, 1 and up.
std::vector<std::string> look_again(nvmf::Target& target,
                                    std::vector<nvmf::NamespaceOptions>& namespaces);

}  // namespace larder::apps
