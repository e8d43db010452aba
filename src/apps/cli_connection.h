// SPDX-License-Identifier: Apache-2.0
// The flags that every command which talks to a node shares.
#pragma once

#include <memory>
#include <string>

#include "larder/client.h"
#include "larder/status.h"

namespace CLI {
class App;
}

namespace larder::apps {

struct ConnectionFlags {
  std::string address;
  std::string socket;
  std::string token_file;
  std::string tenant = "default";
  std::string domain = "default";
  std::string object_set = "default";
  std::string timeout = "10s";
  std::string path = "auto";
  bool json = false;
};

// `json_flag`: whether the command has --json as a plain switch.
void add_connection_flags(CLI::App& app, ConnectionFlags& flags, bool json_flag = true);
// Without flags, $LARDER_SOCKET counts, then the default socket. Errors name the flag.
Result<ClientOptions> connection_options(const ConnectionFlags& flags);
Result<std::unique_ptr<Client>> connect(const ConnectionFlags& flags);
// "'KEY': what": the message of an item, or the name of its code.
Error item_error(std::string_view key, Code code, std::string_view message);

}  // namespace larder::apps
