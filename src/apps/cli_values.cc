// SPDX-License-Identifier: Apache-2.0
// put and get.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli.h"
#include "apps/cli_connection.h"
#include "apps/console.h"
#include "apps/exit_codes.h"
#include "apps/value_io.h"
#include "base/units.h"

namespace larder::apps {
namespace {

struct PutFlags {
  ConnectionFlags connection;
  std::string key;
  std::string file;
  bool if_absent = false;
};

struct GetFlags {
  ConnectionFlags connection;
  std::string key;
  std::string file;
  bool force = false;
};

Result<void> run_put(const PutFlags& flags) {
  LARDER_ASSIGN(const auto client, connect(flags.connection));
  LARDER_ASSIGN(const FileValue value, read_value(flags.file));
  const auto pieces = value.views();
  const PutItem item{flags.key, pieces};
  PutOptions options;
  if (flags.if_absent) options.mode = PutMode::kIfAbsent;
  LARDER_ASSIGN(const auto results, client->put({&item, 1}, options));
  const PutResult& result = results.front();
  if (result.code != Code::kOk) return fail(item_error(flags.key, result.code, result.message));
  if (flags.connection.json) {
    const nlohmann::ordered_json out{{"key", flags.key},
                                     {"bytes", value.bytes},
                                     {"version", result.version},
                                     {"already_stored", result.already_stored}};
    return print(out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
  }
  if (!stderr_is_terminal()) return {};
  print_note(fmt::format("{} {} under {}", result.already_stored ? "already had" : "stored",
                         base::human_bytes(value.bytes), base::quoted(flags.key, 128)));
  return {};
}

Result<void> run_get(const GetFlags& flags) {
  LARDER_ASSIGN(const auto client, connect(flags.connection));
  auto value = client->get(flags.key);
  if (!value) {
    return fail(item_error(flags.key, value.error().code(), value.error().message()));
  }
  const bool to_stdout = flags.file.empty() || flags.file == "-";
  if (to_stdout && stdout_is_terminal() && !flags.force && !is_text(value->bytes())) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} holds {} of binary data, which would upset the terminal; use "
                            "-o FILE, a pipe, or --force",
                            base::quoted(flags.key, 128), base::human_bytes(value->size())));
  }
  LARDER_TRY(write_value(flags.file, value->bytes()));
  if (!flags.connection.json || to_stdout) return {};
  const nlohmann::ordered_json out{
      {"key", flags.key}, {"bytes", value->size()}, {"file", flags.file}};
  return print(out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
}

}  // namespace

void add_value_commands(CommandLine& line) {
  auto put = std::make_shared<PutFlags>();
  auto* put_app = line.app.add_subcommand("put", "store a file, or stdin, under a key");
  put_app->add_option("KEY", put->key, "1 to 1024 bytes")->required();
  put_app->add_option("FILE", put->file, "1 byte to 4 GiB; '-' or nothing: stdin");
  put_app->add_flag("--if-absent", put->if_absent, "keep another value that is already there");
  add_connection_flags(*put_app, put->connection);
  put_app->callback([&line, put] {
    line.chosen = [put] {
      const auto done = run_put(*put);
      return done ? kExitOk : report_error(done.error());
    };
  });

  auto get = std::make_shared<GetFlags>();
  auto* get_app = line.app.add_subcommand("get", "write the value of a key to stdout or a file");
  get_app->add_option("KEY", get->key)->required();
  get_app->add_option("-o,--output", get->file, "FILE to write; '-' or nothing: stdout");
  get_app->add_flag("--force", get->force, "binary data to a terminal");
  add_connection_flags(*get_app, get->connection);
  get_app->callback([&line, get] {
    line.chosen = [get] {
      const auto done = run_get(*get);
      return done ? kExitOk : report_error(done.error());
    };
  });
}

}  // namespace larder::apps
