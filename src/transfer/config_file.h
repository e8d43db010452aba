// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "larder/transfer.h"

namespace larder::transfer {

// A YAML (or JSON) file with the fields of TransferConfig by name; sizes like "8MiB", durations
// like "30s"; `policy` holds the list of rules. What is not in it keeps its default. At most 1 MiB.
// kInvalidArgument names path:line, the key and what is allowed; kNotFound.
Result<TransferConfig> load_config(const std::string& path);
// The same from the text itself; `source` is what messages call it.
Result<TransferConfig> parse_config(const std::string& text, const std::string& source);

}  // namespace larder::transfer
