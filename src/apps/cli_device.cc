// SPDX-License-Identifier: Apache-2.0
// device ls, add, drain, disable, enable and rm.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli.h"
#include "apps/cli_connection.h"
#include "apps/console.h"
#include "apps/exit_codes.h"
#include "base/units.h"
#include "nvmf/host/url.h"

namespace larder::apps {
namespace {

using Json = nlohmann::ordered_json;

struct DeviceFlags {
  ConnectionFlags connection;
  DeviceAction action = DeviceAction::kAdd;
  std::string device;  // a path, or the beginning of an id
  std::string size;
};

constexpr const char* kExamples =
    "Examples:\n"
    "  larder device add /mnt/nvme0/larder --size 500GiB\n"
    "  larder device ls\n"
    "  larder device drain 3f2a      the id may be cut short while only one device's begins so\n"
    "  larder device rm 3f2a         the node lets go of it; what is on it stays\n"
    "Disabling a device turns its reads into misses at once; draining moves or drops what it has\n"
    "first. Both last until the device is enabled, or as long as the metadata service remembers.";

Json device_json(const DeviceInfo& device) {
  return {{"id", device.id},
          {"path", device.path},
          {"state", device.state},
          {"capacity_bytes", device.capacity_bytes},
          {"used_bytes", device.used_bytes},
          {"records", device.records},
          {"errors", device.errors},
          {"last_error", device.last_error}};
}

std::string devices_text(const std::vector<DeviceInfo>& devices) {
  std::vector<std::vector<std::string>> rows{
      {"id", "state", "capacity", "used", "records", "errors", "path", "last error"}};
  for (const DeviceInfo& device : devices) {
    rows.push_back({printable(device.id), printable(device.state),
                    base::human_bytes(device.capacity_bytes), base::human_bytes(device.used_bytes),
                    grouped(device.records), grouped(device.errors), printable(device.path),
                    device.last_error.empty() ? "-" : printable(device.last_error)});
  }
  return format_table(rows);
}

Result<void> print_json(const Json& json) {
  return print(json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
}

Result<int> run_list(const DeviceFlags& flags) {
  LARDER_ASSIGN(const auto client, connect(flags.connection));
  LARDER_ASSIGN(const auto devices, client->devices());
  if (flags.connection.json) {
    auto list = Json::array();
    for (const DeviceInfo& device : devices) list.push_back(device_json(device));
    LARDER_TRY(print_json({{"devices", list}}));
  } else if (devices.empty()) {
    print_note("this node has no device; add one with larder device add PATH");
  } else {
    LARDER_TRY(print(devices_text(devices)));
  }
  return kExitOk;
}

// The one device whose id begins so. The node itself takes whole ids only: a script that cuts them
// short has seen them a moment before.
Result<std::string> whole_id(Client& client, const std::string& start) {
  LARDER_ASSIGN(const auto devices, client.devices());
  std::vector<std::string> found;
  for (const DeviceInfo& device : devices) {
    if (device.id.starts_with(start)) found.push_back(device.id);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return fail(Code::kNotFound, "no device of this node has an id that begins with " +
                                     base::quoted(start) + "; see larder device ls");
  }
  return fail(
      Code::kInvalidArgument,
      fmt::format("{} devices have ids that begin with {}, {} and {} among them; give more "
                  "of it",
                  found.size(), base::quoted(start), printable(found[0]), printable(found[1])));
}

Result<DeviceChange> change_of(Client& client, const DeviceFlags& flags) {
  DeviceChange change;
  change.action = flags.action;
  if (flags.action != DeviceAction::kAdd) {
    LARDER_ASSIGN(change.device, whole_id(client, flags.device));
    return change;
  }
  if (nvmf::is_nvme_url(flags.device)) {
    change.device = flags.device;
    if (flags.size.empty()) return change;
    return fail(Code::kInvalidArgument, "--size: a remote namespace is used whole");
  }
  std::error_code error;
  change.device = std::filesystem::absolute(flags.device, error).lexically_normal().string();
  if (error) return fail(Code::kInvalidArgument, "PATH: " + error.message());
  if (flags.size.empty()) return change;
  const auto size = base::parse_size(flags.size);
  if (!size) return fail(Code::kInvalidArgument, "--size: " + size.error().message());
  if (*size == 0) return fail(Code::kInvalidArgument, "--size: 0 bytes hold nothing");
  change.size_bytes = *size;
  return change;
}

Result<int> run_change(const DeviceFlags& flags) {
  if (flags.device.empty()) {
    return fail(Code::kInvalidArgument, "an empty name is no device; see larder device --help");
  }
  LARDER_ASSIGN(const auto client, connect(flags.connection));
  LARDER_ASSIGN(const DeviceChange change, change_of(*client, flags));
  LARDER_ASSIGN(const DeviceInfo device, client->change_device(change));
  const bool removed = flags.action == DeviceAction::kRemove;
  if (flags.connection.json) {
    LARDER_TRY(print_json(removed ? Json{{"removed", device.id}} : device_json(device)));
  } else {
    LARDER_TRY(print(removed ? "removed " + printable(device.id) + '\n' : devices_text({device})));
  }
  return kExitOk;
}

CLI::App* add_action(CommandLine& line, CLI::App& device, const char* name, const char* help,
                     const std::shared_ptr<DeviceFlags>& flags,
                     Result<int> (*run)(const DeviceFlags&)) {
  auto* app = device.add_subcommand(name, help);
  flags->connection.timeout = "60s";  // a device that is slow to open or close is no dead node
  add_connection_flags(*app, flags->connection);
  app->callback([&line, flags, run] {
    line.chosen = [flags, run] {
      const auto exit = run(*flags);
      return exit ? *exit : report_error(exit.error());
    };
  });
  return app;
}

}  // namespace

void add_device_command(CommandLine& line) {
  auto* device = line.app.add_subcommand("device", "the disks of a node: show and change them");
  device->require_subcommand(1);
  device->footer(kExamples);
  add_action(line, *device, "ls", "list the node's devices", std::make_shared<DeviceFlags>(),
             run_list);
  auto add = std::make_shared<DeviceFlags>();
  auto* add_app =
      add_action(line, *device, "add", "begin to use a directory or block device", add, run_change);
  add_app->add_option("PATH", add->device, "on the node's host")->required();
  add_app->add_option("--size", add->size,
                      "use so much at most, e.g. 500GiB; default: what is there");
  struct Action {
    const char* name;
    DeviceAction action;
    const char* help;
  };
  constexpr std::array<Action, 4> kActions = {{
      {"drain", DeviceAction::kDrain, "write nothing more to a device, and empty it"},
      {"disable", DeviceAction::kDisable, "neither read nor write a device until it is enabled"},
      {"enable", DeviceAction::kEnable, "use a device again"},
      {"rm", DeviceAction::kRemove, "let go of a device; what is on it stays"},
  }};
  for (const Action& action : kActions) {
    auto flags = std::make_shared<DeviceFlags>();
    flags->action = action.action;
    add_action(line, *device, action.name, action.help, flags, run_change)
        ->add_option("ID", flags->device,
                     "whole, or as much of it as no other device's begins with")
        ->required();
  }
}

}  // namespace larder::apps
