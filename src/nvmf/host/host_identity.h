// SPDX-License-Identifier: Apache-2.0
// Who this host says it is (Fabrics 1.1, section 1.5.2 and 3.3): its NQN, by which targets let it
// in, and the 128-bit host id, by which they know that two connections are of one host.
#pragma once

#include <string>

#include "larder/status.h"
#include "nvmf/pdu/identify.h"

namespace larder::nvmf {

struct HostIdentity {
  std::string nqn;
  Id16 id{};
  std::string from;  // for people: where it was found
};

struct HostIdentityOptions {
  std::string nqn = {};                        // if given, nothing is looked for
  std::string system_directory = "/etc/nvme";  // hostnqn and hostid, as nvme-cli keeps them
  std::string state_directory = {};            // empty: env::state_directory()
};

// The first of: the one given, the system's, and one made here the first time and kept for good (by
// two processes at once: the same one). A host id that is not written down is that of the UUID in
// the NQN, else a hash of it: always the same. Where nothing can be kept, it is good for this
// process only, and the log says so. kInvalidArgument: one that is there and no NQN or no UUID.
Result<HostIdentity> host_identity(const HostIdentityOptions& options = {});

}  // namespace larder::nvmf
