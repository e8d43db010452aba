// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "larder/status.h"

namespace larder::env {

// Makes the directories above `path` that are missing, with mode 0700. kPermissionDenied when the
// one that holds `path` belongs to another user than this one or root.
Result<void> make_private_parent(const std::string& path);
// Where this user's programs keep what should survive them: $XDG_STATE_HOME, else ~/.local/state,
// with "/larder" behind; empty when there is neither. Not made here.
std::string state_directory();
// A cluster token: 16 to 4096 bytes, trailing newlines cut off. The file must be private (mode
// 0600).
Result<std::string> read_token_file(const std::string& path);

}  // namespace larder::env
