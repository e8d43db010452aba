// SPDX-License-Identifier: Apache-2.0
// exists, rm, stat and ls.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli.h"
#include "apps/cli_connection.h"
#include "apps/console.h"
#include "apps/exit_codes.h"
#include "base/units.h"

namespace larder::apps {
namespace {

using Json = nlohmann::ordered_json;

struct KeysFlags {
  ConnectionFlags connection;
  std::vector<std::string> keys;
};

struct ListFlags {
  ConnectionFlags connection;
  std::string prefix;
  std::uint64_t limit = 1000;
};

std::vector<std::string_view> views(const std::vector<std::string>& keys) {
  return {keys.begin(), keys.end()};
}

Result<void> print_json(const Json& json) {
  return print(json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
}

std::string hex(std::uint64_t number) {
  return fmt::format("{:016x}", number);
}

// Each returns the exit code, or the error that kept it from trying.
Result<int> run_exists(const KeysFlags& flags) {
  LARDER_ASSIGN(const auto client, connect(flags.connection));
  LARDER_ASSIGN(const auto present, client->exists(views(flags.keys)));
  const auto count = static_cast<std::size_t>(std::count(present.begin(), present.end(), true));
  auto list = Json::array();
  std::string text;
  for (std::size_t i = 0; i < present.size(); ++i) {
    list.push_back({{"key", flags.keys[i]}, {"present", static_cast<bool>(present[i])}});
    text += fmt::format("{}  {}\n", present[i] ? "present" : "missing", printable(flags.keys[i]));
  }
  LARDER_TRY(flags.connection.json ? print_json({{"present", count}, {"keys", list}})
                                   : print(text));
  return count == flags.keys.size() ? kExitOk : kExitMissing;
}

// The gravest of the items' codes decides: errors above missing keys.
int item_exit(int so_far, Code code) {
  return std::max(so_far, exit_code(code));
}

Result<int> run_remove(const KeysFlags& flags) {
  LARDER_ASSIGN(const auto client, connect(flags.connection));
  LARDER_ASSIGN(const auto results, client->remove(views(flags.keys)));
  auto list = Json::array();
  int exit = kExitOk;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto& result = results[i];
    exit = item_exit(exit, result.code);
    list.push_back({{"key", flags.keys[i]}, {"code", code_name(result.code)}});
    if (result.code != Code::kOk && !flags.connection.json) {
      report_error(item_error(flags.keys[i], result.code, result.message));
    }
  }
  if (flags.connection.json) LARDER_TRY(print_json({{"keys", list}}));
  return exit;
}

Json node_json(const NodeInfo& info) {
  return {{"id", info.id},
          {"version", info.version},
          {"path", path_name(info.path)},
          {"capacity_bytes", info.capacity_bytes},
          {"used_bytes", info.used_bytes},
          {"objects", info.objects},
          {"evictions", info.evictions},
          {"pins", info.pins},
          {"connections", info.connections},
          {"segment_pages", info.segment_pages}};
}

std::string node_text(const NodeInfo& info) {
  const double full = info.capacity_bytes == 0 ? 0.0
                                               : 100.0 * static_cast<double>(info.used_bytes) /
                                                     static_cast<double>(info.capacity_bytes);
  return format_table(
      {{"node", printable(info.id)},
       {"version", printable(info.version)},
       {"path", std::string(path_name(info.path))},
       {"capacity", base::human_bytes(info.capacity_bytes)},
       {"used", fmt::format("{} ({:.1f}%)", base::human_bytes(info.used_bytes), full)},
       {"objects", grouped(info.objects)},
       {"evictions", grouped(info.evictions)},
       {"pins", grouped(info.pins)},
       {"connections", grouped(info.connections)},
       {"segment pages", printable(info.segment_pages)}});
}

Json object_json(const std::string& key, const StatResult& result) {
  Json out{{"key", key}, {"code", code_name(result.code)}};
  if (result.code != Code::kOk) return out;
  out["bytes"] = result.info.size;
  out["version"] = result.info.version;
  out["checksum"] = hex(result.info.checksum);
  out["pins"] = result.info.pins;
  out["tier"] = tier_name(result.info.tier);
  out["path"] = path_name(result.info.path);
  return out;
}

Result<int> run_stat(const KeysFlags& flags) {
  LARDER_ASSIGN(const auto client, connect(flags.connection));
  if (flags.keys.empty()) {
    LARDER_ASSIGN(const NodeInfo info, client->info());
    LARDER_TRY(flags.connection.json ? print_json(node_json(info)) : print(node_text(info)));
    return kExitOk;
  }
  LARDER_ASSIGN(const auto results, client->stat(views(flags.keys)));
  auto list = Json::array();
  std::vector<std::vector<std::string>> rows{
      {"key", "bytes", "version", "checksum", "pins", "tier", "path"}};
  int exit = kExitOk;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto& result = results[i];
    exit = item_exit(exit, result.code);
    list.push_back(object_json(flags.keys[i], result));
    if (result.code != Code::kOk) {
      if (!flags.connection.json) {
        report_error(item_error(flags.keys[i], result.code, result.message));
      }
      continue;
    }
    const ObjectInfo& info = result.info;
    rows.push_back({printable(flags.keys[i]), std::to_string(info.size),
                    std::to_string(info.version), hex(info.checksum), std::to_string(info.pins),
                    std::string(tier_name(info.tier)), std::string(path_name(info.path))});
  }
  if (flags.connection.json) {
    LARDER_TRY(print_json({{"keys", list}}));
  } else if (rows.size() > 1) {
    LARDER_TRY(print(format_table(rows)));
  }
  return exit;
}

// Writes page by page, so that a long listing needs no memory; JSON is one object per line.
Result<int> run_list(const ListFlags& flags) {
  constexpr std::uint64_t kPage = 4096;
  LARDER_ASSIGN(const auto client, connect(flags.connection));
  std::string cursor;
  for (std::uint64_t shown = 0; flags.limit == 0 || shown < flags.limit;) {
    const std::uint64_t want = flags.limit == 0 ? kPage : std::min(kPage, flags.limit - shown);
    LARDER_ASSIGN(const ListPage page, client->list(flags.prefix, cursor, want));
    std::string text;
    for (const ListEntry& entry : page.entries) {
      if (flags.connection.json) {
        const Json row{{"key", entry.key}, {"bytes", entry.size}, {"version", entry.version}};
        text += row.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
      } else {
        text += fmt::format("{:>12}  {}\n", entry.size, printable(entry.key));
      }
    }
    LARDER_TRY(print(text));
    shown += page.entries.size();
    if (page.next.empty()) return kExitOk;
    cursor = page.next;
  }
  if (!flags.connection.json) {
    print_note(fmt::format("stopped after {} keys; --limit 0 shows all", flags.limit));
  }
  return kExitOk;
}

template <class Flags>
std::function<int()> command(std::shared_ptr<Flags> flags, Result<int> (*run)(const Flags&)) {
  return [flags, run] {
    const auto exit = run(*flags);
    return exit ? *exit : report_error(exit.error());
  };
}

void add_keys_command(CommandLine& line, const char* name, const char* help, bool required,
                      Result<int> (*run)(const KeysFlags&)) {
  auto flags = std::make_shared<KeysFlags>();
  auto* app = line.app.add_subcommand(name, help);
  auto* keys = app->add_option("KEY", flags->keys, "one or more, up to 65536")->expected(1, 65536);
  if (required) keys->required();
  add_connection_flags(*app, flags->connection);
  app->callback([&line, flags, run] { line.chosen = command(flags, run); });
}

}  // namespace

void add_key_commands(CommandLine& line) {
  add_keys_command(line, "exists", "say which keys are there (exit 1 when one is not)", true,
                   run_exists);
  add_keys_command(line, "rm", "remove keys (exit 1 when one was not there)", true, run_remove);
  add_keys_command(line, "stat", "describe keys; without keys: the node", false, run_stat);

  auto flags = std::make_shared<ListFlags>();
  auto* app = line.app.add_subcommand("ls", "list keys with their sizes, in no order");
  app->add_option("PREFIX", flags->prefix, "only keys that begin so");
  app->add_option("--limit", flags->limit, "stop after so many; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_connection_flags(*app, flags->connection);
  app->callback([&line, flags] { line.chosen = command(flags, run_list); });
}

}  // namespace larder::apps
