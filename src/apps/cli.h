// SPDX-License-Identifier: Apache-2.0
// The `larder` program: one command line, many commands.
#pragma once

#include <functional>
#include <span>
#include <string>

namespace CLI {
class App;
}

namespace larder::apps {

// Parses and runs; returns the exit code. `arguments` without the program's name.
int run_larder(std::span<const std::string> arguments);

// What the files of the single commands add themselves to.
struct CommandLine {
  CLI::App& app;
  std::function<int()> chosen;  // set by the parse; run after it
};

void add_node_command(CommandLine& line);     // node
void add_value_commands(CommandLine& line);   // put, get
void add_key_commands(CommandLine& line);     // exists, rm, stat, ls
void add_device_command(CommandLine& line);   // device ls, add, drain, disable, enable, rm
void add_replay_commands(CommandLine& line);  // replay, demo
void add_extent_command(CommandLine& line);   // extent dump, check, bench
void add_nvme_command(CommandLine& line);     // nvme discover, identify
void add_target_command(CommandLine& line);   // target

}  // namespace larder::apps
