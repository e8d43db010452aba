// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "larder/status.h"

namespace larder::env {

// Makes the directories above `path` that are missing, with mode 0700.
Result<void> make_private_parent(const std::string& path);
// A cluster token: 16 to 4096 bytes, trailing newlines cut off. The file must be private (mode
// 0600).
Result<std::string> read_token_file(const std::string& path);

}  // namespace larder::env
