// SPDX-License-Identifier: Apache-2.0
#include "apps/node_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace larder::apps {
namespace {

// "hot.capacity" -> "hot"
std::string section_of(const std::string& key) {
  const std::size_t dot = key.find('.');
  return dot == std::string::npos ? "General" : key.substr(0, dot);
}

}  // namespace

void add_node_flags(CLI::App& app, const env::Config& config, NodeFlags& flags) {
  app.add_option("--config", flags.config_file, "YAML file; flags win over it");
  app.add_flag("--print-config", flags.print_config,
               "print the configuration in force, with where each value came from, and end");
  for (const env::ConfigKey* key : config.keys()) {
    const bool is_switch = key->type == env::ConfigType::kBool;
    const bool is_list = key->type == env::ConfigType::kList;
    const auto take = [&flags, is_switch, is_list, name = key->name](const CLI::results_t& given) {
      const std::string text = is_list ? fmt::format("{}", fmt::join(given, ",")) : given.back();
      flags.values[name] = is_switch && text.empty() ? "true" : text;
      return true;
    };
    std::string names = "--" + key->name;
    // The words people look for.
    if (key->name.ends_with(".insecure")) names += ",--insecure";
    if (key->name == "cold.disks") names += ",--disk";
    // The default goes into the text: CLI11 would take its own for the value of a bare switch.
    auto* option =
        app.add_option(names, take,
                       fmt::format("{} ({}; default {})", key->help, key->allowed,
                                   key->default_text.empty() ? "empty" : key->default_text));
    option->group(section_of(key->name))->type_name("");
    option->expected(is_switch ? 0 : 1, is_list ? 64 : 1);
    // One to a flag, as often as wanted: `--disk A --disk B`.
    if (is_list) option->allow_extra_args(false);
  }
}

Result<void> apply_node_flags(env::Config& config, const NodeFlags& flags) {
  if (!flags.config_file.empty()) LARDER_TRY(config.load_file(flags.config_file));
  for (const auto& [key, text] : flags.values) LARDER_TRY(config.set(key, text, "--" + key));
  return {};
}

}  // namespace larder::apps
