// SPDX-License-Identifier: Apache-2.0
#include "apps/cli_connection.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>

#include "base/units.h"

namespace larder::apps {
namespace {

Result<Path> parse_path(const std::string& text) {
  if (text == "auto") return Path::kAuto;
  if (text == "shm") return Path::kSharedMemory;
  if (text == "unix") return Path::kUnixSocket;
  if (text == "tcp") return Path::kTcp;
  return fail(Code::kInvalidArgument,
              fmt::format("--path: {} is not one of auto, shm, unix, tcp", base::quoted(text)));
}

Result<void> check_name(std::string_view flag, const std::string& name) {
  if (!name.empty() && name.size() <= 255) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("{}: a name has 1 to 255 bytes, this one {}", flag, name.size()));
}

}  // namespace

void add_connection_flags(CLI::App& app, ConnectionFlags& flags, bool json_flag) {
  const std::string group = "Which node";
  auto* address = app.add_option("--address", flags.address,
                                 "unix:PATH or tcp:HOST:PORT; default: the node of this host")
                      ->group(group);
  app.add_option("--socket", flags.socket, "the same as --address unix:PATH; or $LARDER_SOCKET")
      ->group(group)
      ->excludes(address);
  app.add_option("--token-file", flags.token_file, "the cluster token, where the node asks for one")
      ->group(group);
  app.add_option("--timeout", flags.timeout, "of each call, e.g. 500ms or 10s")
      ->group(group)
      ->capture_default_str();
  app.add_option("--path", flags.path, "how bytes travel: auto, shm, unix or tcp")
      ->group(group)
      ->capture_default_str();
  const std::string space = "Key space";
  app.add_option("--tenant", flags.tenant)->group(space)->capture_default_str();
  app.add_option("--domain", flags.domain)->group(space)->capture_default_str();
  app.add_option("--object-set", flags.object_set)->group(space)->capture_default_str();
  if (json_flag) app.add_flag("--json", flags.json, "answer in JSON on stdout");
}

Result<ClientOptions> connection_options(const ConnectionFlags& flags) {
  ClientOptions options;
  const char* socket = std::getenv("LARDER_SOCKET");
  if (!flags.address.empty()) {
    options.address = flags.address;
  } else if (!flags.socket.empty()) {
    options.address = "unix:" + flags.socket;
  } else if (socket != nullptr && *socket != '\0') {
    options.address = std::string("unix:") + socket;
  }
  LARDER_TRY(check_name("--tenant", flags.tenant));
  LARDER_TRY(check_name("--domain", flags.domain));
  LARDER_TRY(check_name("--object-set", flags.object_set));
  options.space = {flags.tenant, flags.domain, flags.object_set};
  options.token_file = flags.token_file;
  LARDER_ASSIGN(options.path, parse_path(flags.path));
  auto timeout = base::parse_duration(flags.timeout);
  if (!timeout) {
    return fail(Code::kInvalidArgument, "--timeout: " + timeout.error().message());
  }
  options.timeout = std::chrono::ceil<std::chrono::milliseconds>(*timeout);
  if (options.timeout.count() < 1 || options.timeout > std::chrono::hours(24)) {
    return fail(Code::kInvalidArgument,
                fmt::format("--timeout: {} is not within 1ms..24h", base::quoted(flags.timeout)));
  }
  return options;
}

Result<std::unique_ptr<Client>> connect(const ConnectionFlags& flags) {
  LARDER_ASSIGN(auto options, connection_options(flags));
  return Client::connect(std::move(options));
}

Error item_error(std::string_view key, Code code, std::string_view message) {
  const std::string name = base::quoted(key, 128);
  if (code == Code::kNotFound) return Error(code, name + ": no such key in this key space");
  return Error(code, fmt::format("{}: {}", name, message.empty() ? code_name(code) : message));
}

}  // namespace larder::apps
