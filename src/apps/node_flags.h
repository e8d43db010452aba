// SPDX-License-Identifier: Apache-2.0
// The flags of `larder node`: one per configuration key, whatever the keys are.
#pragma once

#include <map>
#include <string>

#include "env/config.h"
#include "larder/status.h"

namespace CLI {
class App;
}

namespace larder::apps {

struct NodeFlags {
  std::string config_file;
  bool print_config = false;
  std::map<std::string, std::string, std::less<>> values;  // key -> text, of flags that were given
};

// One flag --KEY for each key of `config`, grouped by section, plus --config and --print-config.
// A switch may go without its value. `flags` must outlive the parse.
void add_node_flags(CLI::App& app, const env::Config& config, NodeFlags& flags);
// The file first, then the flags.
Result<void> apply_node_flags(env::Config& config, const NodeFlags& flags);

}  // namespace larder::apps
