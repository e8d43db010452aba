// SPDX-License-Identifier: Apache-2.0
// replay and demo.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "apps/cli.h"
#include "apps/cli_connection.h"
#include "apps/console.h"
#include "apps/demo.h"
#include "apps/exit_codes.h"
#include "apps/replay/models.h"
#include "apps/replay/replay.h"
#include "apps/replay/replay_command.h"

namespace larder::apps {
namespace {

std::string model_help() {
  std::string help = "size of a block of 512 tokens on one rank: ";
  for (const Model& model : models()) {
    help += model.name;
    help += &model == &models().back() ? "" : ", ";
  }
  return help;
}

struct ReplayArguments {
  ReplayFlags flags;
  ConnectionFlags connection;
  bool recorded = false;
  bool fastest = false;
};

int start_replay(const ReplayArguments& arguments) {
  ReplayFlags flags = arguments.flags;
  if (arguments.recorded) flags.speed = 1;
  auto client = connection_options(arguments.connection);
  if (!client) return report_error(client.error());
  flags.client = std::move(*client);
  return run_replay(flags);
}

void add_size_flags(CLI::App& app, ReplayFlags& flags) {
  const std::string group = "Sizes";
  app.add_option("--model", flags.model, model_help())->group(group);
  app.add_option("--tensor-parallel", flags.tensor_parallel, "ranks that share the KV heads")
      ->check(CLI::NonNegativeNumber)
      ->group(group)
      ->capture_default_str();
  app.add_option("--kv-dtype", flags.kv_dtype, "bf16, fp16 or fp8")
      ->group(group)
      ->capture_default_str();
  app.add_option("--block-bytes", flags.block_bytes,
                 "of one block, e.g. 64KiB, whatever the model (default without one: 64KiB)")
      ->group(group);
  app.add_option("--batch-bytes", flags.batch_bytes, "of one get or put, up to 64MiB")
      ->group(group)
      ->capture_default_str();
}

void add_timing_flags(CLI::App& app, ReplayArguments& arguments) {
  const std::string group = "Timing";
  auto* max =
      app.add_flag("--max", arguments.fastest, "as fast as possible (the default)")->group(group);
  auto* recorded =
      app.add_flag("--recorded", arguments.recorded, "at the trace's own speed")->group(group);
  auto* speed = app.add_option("--speed", arguments.flags.speed, "so many times its own speed")
                    ->check(CLI::Range(1e-6, 1e9))
                    ->group(group);
  max->excludes(recorded)->excludes(speed);
  recorded->excludes(speed);
  app.add_option("--workers", arguments.flags.workers, "requests in flight at once")
      ->check(CLI::Range(std::size_t{1}, kReplayWorkersMax))
      ->group(group)
      ->capture_default_str();
}

void add_replay_command(CommandLine& line) {
  auto arguments = std::make_shared<ReplayArguments>();
  ReplayFlags& flags = arguments->flags;
  auto* app = line.app.add_subcommand(
      "replay", "play a trace of requests, check every byte, compare with the ideal hit rate");
  app->add_option("--trace", flags.trace,
                  "JSON lines: timestamp, input_length, output_length, "
                  "hash_ids")
      ->required();
  app->add_option("--requests", flags.requests, "play only the first so many")
      ->check(CLI::NonNegativeNumber);
  app->add_flag("--skip-broken", flags.skip_broken, "leave out and count lines that are wrong");
  auto* blocks = app->add_option("--hot-blocks", flags.hot_blocks,
                                 "start a node of our own whose DRAM holds so many blocks")
                     ->check(CLI::PositiveNumber);
  app->add_option("--disk", flags.disks, "DIR[:SIZE] for that node, as of larder node; repeatable")
      ->needs(blocks);
  app->add_flag(
         "--kill-and-restart", flags.kill_and_restart,
         "kill that node after half of the trace and start it again on the same directories;\n"
         "blocks that only DRAM held then are reported apart")
      ->needs(blocks);
  add_size_flags(*app, flags);
  add_timing_flags(*app, *arguments);
  app->add_option("--salt", flags.salt, "of keys and contents; default: new each time")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--json", flags.json_file, "write the report here; '-': stdout, and no table");
  add_connection_flags(*app, arguments->connection, false);
  blocks->excludes(app->get_option("--address"))->excludes(app->get_option("--socket"));
  app->footer("With neither --hot-blocks nor an address the node of this host is used.");
  app->callback(
      [&line, arguments] { line.chosen = [arguments] { return start_replay(*arguments); }; });
}

void add_demo_command(CommandLine& line) {
  auto flags = std::make_shared<DemoFlags>();
  auto* app = line.app.add_subcommand(
      "demo", "start a node, play built-in requests through it, print what came out");
  app->add_option("--seed", flags->seed, "of the requests")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option("--workers", flags->workers, "requests in flight at once")
      ->check(CLI::Range(std::size_t{1}, kReplayWorkersMax))
      ->capture_default_str();
  app->add_option("--json", flags->json_file, "write the report here; '-': stdout, and no table");
  app->add_option("--save-trace", flags->save_trace, "write the requests here, for replay");
  app->callback([&line, flags] { line.chosen = [flags] { return run_demo(*flags); }; });
}

}  // namespace

void add_replay_commands(CommandLine& line) {
  add_replay_command(line);
  add_demo_command(line);
}

}  // namespace larder::apps
