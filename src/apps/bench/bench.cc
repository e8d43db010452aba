// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/bench.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <vector>

#include "apps/bench/case_list.h"
#include "apps/bench/commands.h"
#include "apps/bench/transfer_case.h"
#include "apps/bench/transfer_peer.h"
#include "apps/console.h"
#include "apps/exit_codes.h"
#include "base/units.h"

namespace larder::apps {
namespace {

constexpr std::uint64_t kSetBytesMin = 64ULL << 20;
constexpr std::uint64_t kSetBytesMax = 64ULL << 30;
constexpr std::uint64_t kHotBytesMin = 16ULL << 20;
constexpr std::uint64_t kHotBytesMax = 64ULL << 30;
constexpr std::uint64_t kFileBytesMin = 1ULL << 20;
constexpr std::uint64_t kFileBytesMax = 1ULL << 40;

struct Arguments {
  BenchOptions options;
  std::string set_bytes = "128MiB";
  std::string file_bytes = "1GiB";
  std::string hot_bytes = "384MiB";
  std::string wait = "spin";
  std::string listen = PeerOptions().listen;
  bool list = false;
  bool serve = false;
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

// What is measured beside its limits.
void add_cases(CLI::App& app, Arguments& arguments) {
  BenchOptions& options = arguments.options;
  app.add_flag("--list", arguments.list, "name the cases and stop");
  app.add_flag("--verify", options.verify,
               "check the contents of every answer, between timed spans");
  app.add_flag("!--no-limits", options.limits, "only the cases, without the limits beside them");
  app.add_flag("--check", options.check, "exit code 5 when a bar is missed");
}

void add_store(CLI::App& app, Arguments& arguments) {
  BenchOptions& options = arguments.options;
  add_common(app, arguments);
  add_cases(app, arguments);
  app.add_flag("--all", options.all, "the full matrix of paths, operations, sizes and clients");
  app.add_option("--wait", arguments.wait,
                 "spin: both sides spin before they sleep; block: both sleep at once")
      ->check(CLI::IsMember({"spin", "block"}));
  app.add_flag("--cached-buffers", options.cached_buffers,
               "callers use the same few buffers again and again, which stay in the caches");
  app.add_option("--keys", options.keys, "values in the set, where fewer than --set-bytes holds")
      ->check(CLI::Range(1, 131072));
  app.add_option("--address", options.addresses,
                 "a running node, unix:PATH or HOST:PORT, or both; without it, one is started");
  app.add_option("--token-file", options.token_file, "for a node that asks for a token");
  app.add_option("--node-flag", options.node_flags,
                 "a further flag for the node that is started, as --node-flag=--name=value");
}

void add_file(CLI::App& app, Arguments& arguments) {
  app.add_option("--dir", arguments.options.directory,
                 "where the file is made that is read and written; default: $TMPDIR or /tmp");
  app.add_option("--file-bytes", arguments.file_bytes, "its size, 1MiB to 1TiB");
}

void add_transfer(CLI::App& app, Arguments& arguments) {
  add_common(app, arguments);
  add_cases(app, arguments);
  add_file(app, arguments);
  app.add_option("--seed", arguments.options.seed, "of the contents that --verify checks");
  // For the peer that a run starts: it is this program, too.
  app.add_flag("--serve", arguments.serve, "lend memory until stdin ends")->group("");
  app.add_option("--listen", arguments.listen, "where --serve does")->group("");
}

void add_disk(CLI::App& app, Arguments& arguments) {
  add_common(app, arguments);
  add_cases(app, arguments);
  app.add_option("--dir", arguments.options.directory,
                 "where the node's disk is made, and the file of the bare one; default: $TMPDIR or "
                 "/tmp");
  app.add_flag(
      "--remote", arguments.options.remote,
      "gets from a namespace in the memory of a target of our own, beside bare reads of it");
  app.add_option("--file-bytes", arguments.file_bytes,
                 "of the bare file, 1GiB to 1TiB; the node's disk has four times that");
  app.add_option("--hot-bytes", arguments.hot_bytes,
                 "DRAM of the node, 16MiB to 64GiB; gets are of a set four times as large");
  app.add_option("--node-flag", arguments.options.node_flags,
                 "a further flag for the node that is started, as --node-flag=--name=value");
}

void add_nvmf(CLI::App& app, Arguments& arguments) {
  add_common(app, arguments);
  add_cases(app, arguments);
}

Result<std::uint64_t> size_within(std::string_view option, const std::string& text,
                                  std::uint64_t least, std::uint64_t most) {
  const auto bytes = base::parse_size(text);
  if (bytes && *bytes >= least && *bytes <= most) return *bytes / 4096 * 4096;
  return fail(Code::kInvalidArgument,
              fmt::format("{} {}: a size from {} to {} is needed", option, base::quoted(text),
                          base::format_size(least), base::format_size(most)));
}

std::string default_directory() {
  const char* const directory = std::getenv("TMPDIR");
  return directory != nullptr && *directory != '\0' ? directory : "/tmp";
}

Result<void> finish(Arguments& arguments) {
  BenchOptions& options = arguments.options;
  LARDER_ASSIGN(options.set_bytes,
                size_within("--set-bytes", arguments.set_bytes, kSetBytesMin, kSetBytesMax));
  LARDER_ASSIGN(options.file_bytes,
                size_within("--file-bytes", arguments.file_bytes, kFileBytesMin, kFileBytesMax));
  LARDER_ASSIGN(options.hot_bytes,
                size_within("--hot-bytes", arguments.hot_bytes, kHotBytesMin, kHotBytesMax));
  if (options.directory.empty()) options.directory = default_directory();
  options.wait = arguments.wait == "block" ? Wait::kBlock : Wait::kSpin;
  return {};
}

Result<void> list_cases(const BenchOptions& options) {
  LARDER_ASSIGN(const CaseList list, select_cases(options.cases, options.all));
  std::string text;
  for (const CaseName& name : list.cases) text += to_string(name) + "\n";
  if (list.memory) text += std::string(kMemoryCase) + "\n";
  return print(text);
}

Result<void> list_transfer_cases(const BenchOptions& options) {
  LARDER_ASSIGN(const auto cases, select_transfer_cases(options.cases));
  std::string text;
  for (const TransferCase& name : cases) text += to_string(name) + "\n";
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

Result<void> run_store(const Arguments& arguments) {
  return arguments.list ? list_cases(arguments.options) : bench_store(arguments.options);
}

Result<void> run_transfer(const Arguments& arguments) {
  const BenchOptions& options = arguments.options;
  if (arguments.serve) return serve_transfers({arguments.listen, options.set_bytes, options.seed});
  return arguments.list ? list_transfer_cases(options) : bench_transfer(options);
}

Result<void> run_disk(const Arguments& arguments) {
  const BenchOptions& options = arguments.options;
  return arguments.list ? list_disk_cases(options) : bench_disk(options);
}

Result<void> run_nvmf(const Arguments& arguments) {
  const BenchOptions& options = arguments.options;
  return arguments.list ? list_nvmf_cases(options) : bench_nvmf(options);
}

}  // namespace

int run_bench(std::span<const std::string> arguments) {
  CLI::App app("Measures this machine, and the store and the transfer engine beside it.");
  app.name("larder bench");
  app.require_subcommand(1);
  app.footer(kExitCodesHelp);
  Arguments parsed;
  CLI::App* limits = app.add_subcommand("limits", "memcpy, raw sockets, bare look-ups, raw disk");
  CLI::App* store = app.add_subcommand(
      "store", "put, get, exists and match_prefix beside the limit that bounds each");
  CLI::App* transfer = app.add_subcommand(
      "transfer", "reads and writes of memory, peers and files beside the limit of each");
  add_common(*limits, parsed);
  add_file(*limits, parsed);
  add_store(*store, parsed);
  add_transfer(*transfer, parsed);
  CLI::App* disk = app.add_subcommand(
      "disk", "values to and from a node's disk beside the bare disk: writes 8 GiB or so");
  add_disk(*disk, parsed);
  CLI::App* nvmf = app.add_subcommand(
      "nvmf", "our NVMe/TCP initiator and target, a core each, beside raw sockets");
  add_nvmf(*nvmf, parsed);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& e) {
    return explain(app, e);
  }
  if (const auto done = finish(parsed); !done) return report_error(done.error());
  if (store->parsed()) return conclude(run_store(parsed));
  if (nvmf->parsed()) return conclude(run_nvmf(parsed));
  if (disk->parsed()) return conclude(run_disk(parsed));
  return conclude(transfer->parsed() ? run_transfer(parsed) : bench_limits(parsed.options));
}

}  // namespace larder::apps
