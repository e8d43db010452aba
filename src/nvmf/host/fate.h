// SPDX-License-Identifier: Apache-2.0
// What the end of a command is for the operation that it was of. Pure; any thread.
#pragma once

#include <cstdint>

#include "block/block_types.h"
#include "larder/status.h"
#include "nvmf/pdu/status.h"

namespace larder::nvmf {

inline constexpr std::uint8_t kReissuesMax = 2;  // of an operation's commands

struct Fate {
  Code code = Code::kUnavailable;
  int sys_errno = 0;
};

// What became of the operation whose command ended so. Not for success. Targets over files announce
// Write Zeroes and Dataset Management, and refuse them when the file system has no such thing
// (Linux: 1/83h); of others an invalid opcode is the device's fault.
Fate fate_of(const Status& status, block::OpKind kind) noexcept;
// What the command met may be over when it is sent again.
bool is_passing(const Status& status) noexcept;

}  // namespace larder::nvmf
