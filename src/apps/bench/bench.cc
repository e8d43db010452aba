// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/bench.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <sstream>
#include <vector>

#include "apps/bench/case_list.h"
#include "apps/bench/commands.h"
#include "apps/console.h"
#include "apps/exit_codes.h"
#include "base/units.h"

namespace larder::apps {
namespace {

constexpr std::uint64_t kSetBytesMin = 64ULL << 20;
constexpr std::uint64_t kSetBytesMax = 64ULL << 30;

struct Arguments {
  BenchOptions options;
  std::string set_bytes = "128MiB";
  std::string wait = "spin";
  bool list = false;
};

void add_common(CLI::App& app, Arguments& arguments) {
  BenchOptions& options = arguments.options;
  app.add_option("--case", options.cases,
                 "only what this regular expression finds, or the case of exactly this name; may "
                 "be given several times");
  app.add_option("--seconds", options.seconds, "measuring time for each case and each side of it")
      ->check(CLI::Range(0.01, 600.0));
  app.add_option("--repeat", options.repeat,
                 "rounds that share this time; figures are medians over them")
      ->check(CLI::Range(1, 1000));
  app.add_option("--set-bytes", arguments.set_bytes,
                 "memory that a case rotates over, 64MiB to 64GiB; larger than the caches");
  app.add_option("--json", options.json_file, "write the rows to this file too");
}

void add_store(CLI::App& app, Arguments& arguments) {
  BenchOptions& options = arguments.options;
  add_common(app, arguments);
  app.add_flag("--all", options.all, "the full matrix of paths, operations, sizes and clients");
  app.add_flag("--list", arguments.list, "name the cases and stop");
  app.add_option("--wait", arguments.wait,
                 "spin: both sides spin before they sleep; block: both sleep at once")
      ->check(CLI::IsMember({"spin", "block"}));
  app.add_flag("--verify", options.verify,
               "check the contents of every answer, between timed spans");
  app.add_flag("!--no-limits", options.limits, "the store alone, without the limits beside it");
  app.add_flag("--cached-buffers", options.cached_buffers,
               "callers use the same few buffers again and again, which stay in the caches");
  app.add_flag("--check", options.check, "exit code 5 when a bar is missed");
  app.add_option("--keys", options.keys, "values in the set, where fewer than --set-bytes holds")
      ->check(CLI::Range(1, 131072));
  app.add_option("--address", options.addresses,
                 "a running node, unix:PATH or HOST:PORT, or both; without it, one is started");
  app.add_option("--token-file", options.token_file, "for a node that asks for a token");
  app.add_option("--node-flag", options.node_flags,
                 "a further flag for the node that is started, as --node-flag=--name=value");
}

Result<void> finish(Arguments& arguments) {
  auto bytes = base::parse_size(arguments.set_bytes);
  if (!bytes || *bytes < kSetBytesMin || *bytes > kSetBytesMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("--set-bytes {}: a size from 64MiB to 64GiB is needed",
                            base::quoted(arguments.set_bytes)));
  }
  arguments.options.set_bytes = *bytes / 4096 * 4096;
  arguments.options.wait = arguments.wait == "block" ? Wait::kBlock : Wait::kSpin;
  return {};
}

Result<void> list_cases(const BenchOptions& options) {
  LARDER_ASSIGN(const CaseList list, select_cases(options.cases, options.all));
  std::string text;
  for (const CaseName& name : list.cases) text += to_string(name) + "\n";
  if (list.memory) text += std::string(kMemoryCase) + "\n";
  return print(text);
}

int conclude(const Result<void>& done) {
  return done ? static_cast<int>(kExitOk) : report_error(done.error());
}

int explain(const CLI::App& app, const CLI::ParseError& e) {
  std::ostringstream out;
  std::ostringstream ignored;
  if (app.exit(e, out, ignored) == 0) return conclude(print(out.str()));
  return report_error(
      Error(Code::kInvalidArgument, std::string(e.what()) + "; see larder bench --help"));
}

int run(Arguments& arguments, bool store) {
  if (const auto done = finish(arguments); !done) return report_error(done.error());
  if (arguments.list) return conclude(list_cases(arguments.options));
  return conclude(store ? bench_store(arguments.options) : bench_limits(arguments.options));
}

}  // namespace

int run_bench(std::span<const std::string> arguments) {
  CLI::App app("Measures this machine, and the store against it in the same run.");
  app.name("larder bench");
  app.require_subcommand(1);
  app.footer(kExitCodesHelp);
  Arguments parsed;
  CLI::App* limits = app.add_subcommand("limits", "memcpy, raw sockets and bare look-ups");
  CLI::App* store = app.add_subcommand(
      "store", "put, get, exists and match_prefix beside the limit that bounds each");
  add_common(*limits, parsed);
  add_store(*store, parsed);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& e) {
    return explain(app, e);
  }
  return run(parsed, store->parsed());
}

}  // namespace larder::apps
