// SPDX-License-Identifier: Apache-2.0
// node: runs until a signal asks it to stop.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "apps/cli.h"
#include "apps/console.h"
#include "apps/exit_codes.h"
#include "apps/node_flags.h"
#include "apps/stop_signal.h"
#include "base/units.h"
#include "node/node.h"
#include "node/node_config.h"
#include "obs/log.h"

namespace larder::apps {
namespace {

// Scripts wait for this line: "listening on UNIX TCP... http URL".
Result<void> announce(const node::Node& node) {
  return print(fmt::format("larder node {}: {}\nlarder node: listening on {} {} http {}\n",
                           node.id(), node.memory_note(), node.unix_address(),
                           fmt::join(node.tcp_addresses(), " "), node.http_address()));
}

Result<void> set_up_log(const node::NodeOptions& options) {
  obs::LogOptions log;
  LARDER_ASSIGN(log.level, obs::parse_level(options.log_level));
  LARDER_ASSIGN(log.format, obs::parse_log_format(options.log_format));
  obs::configure_log(std::move(log));
  return {};
}

Result<void> run_node(const NodeFlags& flags) {
  node::NodeOptions options;
  LARDER_ASSIGN(env::Config config, env::Config::create(node::node_schema(options)));
  LARDER_TRY(apply_node_flags(config, flags));
  if (flags.print_config) return print(config.dump());
  LARDER_TRY(set_up_log(options));
  // Before the node starts, so that a signal during start-up is not lost.
  LARDER_ASSIGN(const auto signals, StopSignal::install());
  LARDER_ASSIGN(const auto node, node::Node::create(options));
  LARDER_TRY(announce(*node));
  const int number = signals.wait();
  print_note(fmt::format("signal {}: finishing what is in flight, for {} at most", number,
                         base::human_duration(options.stop_timeout)));
  node->stop(options.stop_timeout);
  return {};
}

}  // namespace

void add_node_command(CommandLine& line) {
  auto flags = std::make_shared<NodeFlags>();
  auto* app = line.app.add_subcommand("node", "run a node until SIGINT or SIGTERM");
  node::NodeOptions options;  // only to learn the keys
  auto config = env::Config::create(node::node_schema(options));
  if (config) add_node_flags(*app, *config, *flags);
  app->footer(
      "The first SIGINT or SIGTERM lets calls in flight end, then exits 0; the second "
      "exits at once.");
  app->callback([&line, flags] {
    line.chosen = [flags] {
      const auto done = run_node(*flags);
      return done ? kExitOk : report_error(done.error());
    };
  });
}

}  // namespace larder::apps
