// SPDX-License-Identifier: Apache-2.0
// nvme discover and identify: what is behind an address, before it is used.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli.h"
#include "apps/console.h"
#include "apps/exit_codes.h"
#include "base/units.h"
#include "nvmf/host/discover.h"
#include "nvmf/pdu/connect.h"

namespace larder::apps {
namespace {

using Json = nlohmann::ordered_json;

struct NvmeFlags {
  std::string url;
  std::string host_nqn;
  std::string timeout = "10s";
  bool json = false;
};

constexpr const char* kExamples =
    "Examples:\n"
    "  larder nvme discover nvme-tcp://10.0.0.7            what the target there offers\n"
    "  larder nvme identify nvme-tcp://10.0.0.7/nqn.2024-01.org.example:disk\n"
    "                                                      its limits and its namespaces\n"
    "The host NQN is --host-nqn, else that of /etc/nvme/hostnqn, else one that is made once and "
    "kept.";

Result<void> print_json(const Json& json) {
  return print(json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
}

Result<nvmf::ToolOptions> options_of(const NvmeFlags& flags) {
  nvmf::ToolOptions options;
  LARDER_ASSIGN(options.url, nvmf::parse_nvme_url(flags.url));
  options.host.nqn = flags.host_nqn;
  const auto timeout = base::parse_duration(flags.timeout);
  if (!timeout) return fail(Code::kInvalidArgument, "--timeout: " + timeout.error().message());
  options.timeout = timeout->count();
  return options;
}

std::string transport_of(const nvmf::DiscoveredSubsystem& found) {
  switch (static_cast<nvmf::TransportType>(found.transport)) {
    case nvmf::TransportType::kTcp:
      return found.secure ? "tcp+tls" : "tcp";
    case nvmf::TransportType::kRdma:
      return "rdma";
    case nvmf::TransportType::kFc:
      return "fc";
    case nvmf::TransportType::kLoop:
      return "loop";
  }
  return std::to_string(found.transport);
}

std::string type_of(const nvmf::DiscoveredSubsystem& found) {
  switch (static_cast<nvmf::SubsystemType>(found.type)) {
    case nvmf::SubsystemType::kNvm:
      return "nvm";
    case nvmf::SubsystemType::kReferral:
      return "referral";
    case nvmf::SubsystemType::kCurrentDiscovery:
      return "discovery";
  }
  return std::to_string(found.type);
}

// The URL to use it by; empty for what is not spoken here.
std::string url_of(const nvmf::DiscoveredSubsystem& found) {
  const bool usable = found.transport == static_cast<std::uint8_t>(nvmf::TransportType::kTcp) &&
                      found.type == static_cast<std::uint8_t>(nvmf::SubsystemType::kNvm) &&
                      !found.secure;
  const auto port = base::parse_u64(found.port);
  if (!usable || !port || *port == 0 || *port > 65535) return {};
  nvmf::NvmeUrl url;
  url.host = found.address;
  url.port = static_cast<std::uint16_t>(*port);
  url.nqn = found.nqn;
  return url.to_string();
}

Result<int> run_discover(const NvmeFlags& flags) {
  LARDER_ASSIGN(const auto options, options_of(flags));
  LARDER_ASSIGN(const auto found, nvmf::discover(options));
  if (flags.json) {
    auto list = Json::array();
    for (const auto& one : found) {
      list.push_back({{"transport", transport_of(one)},
                      {"type", type_of(one)},
                      {"address", one.address},
                      {"port", one.port},
                      {"nqn", one.nqn},
                      {"url", url_of(one)}});
    }
    LARDER_TRY(print_json({{"subsystems", list}}));
    return kExitOk;
  }
  if (found.empty()) print_note("the target lists no subsystem for this host");
  std::vector<std::vector<std::string>> rows{{"type", "transport", "address", "port", "nqn"}};
  std::string urls;
  for (const auto& one : found) {
    rows.push_back({type_of(one), transport_of(one), printable(one.address), printable(one.port),
                    printable(one.nqn)});
    const std::string url = url_of(one);
    if (!url.empty()) urls += printable(url) + "\n";
  }
  if (!found.empty()) LARDER_TRY(print(format_table(rows) + urls));
  return kExitOk;
}

Json json_of(const nvmf::NvmeUrl& url, const nvmf::Identified& all,
             const nvmf::NamespaceFacts& facts) {
  const auto identity = nvmf::identity_of(url, all.controller, facts);
  Json out{{"nsid", facts.nsid},
           {"id", identity.id},
           {"block_bytes", facts.shape.block_bytes},
           {"blocks", facts.shape.blocks},
           {"bytes", facts.shape.blocks * facts.shape.block_bytes},
           {"write_protected", facts.shape.write_protected}};
  if (const auto geometry = nvmf::geometry_of(all.controller, facts)) {
    out["sector_bytes"] = geometry->sector_bytes;
    out["discard_bytes"] = geometry->discard_bytes;
    out["discard_zeroes"] = geometry->discard_zeroes;
    out["write_zeroes"] = geometry->zeroes_max > 0;
  } else {
    out["unusable"] = geometry.error().message();
  }
  return out;
}

Json json_of(const nvmf::Identified& all) {
  const nvmf::ControllerLimits& limits = all.controller.limits;
  return {{"nqn", limits.subnqn},
          {"model", limits.model},
          {"serial", limits.serial},
          {"firmware", limits.firmware},
          {"controller", limits.cntlid},
          {"transfer_bytes_max", limits.transfer_max},
          {"in_capsule_bytes", limits.in_capsule_max},
          {"queue_entries_max", all.controller.cap.queue_entries_max()},
          {"io_queues", all.io_queues},
          {"keep_alive_step_ms", limits.keep_alive_step_ms},
          {"volatile_write_cache", limits.volatile_cache},
          {"write_zeroes", limits.write_zeroes},
          {"deallocate", limits.deallocate}};
}

std::string text_of(const nvmf::Identified& all) {
  const nvmf::ControllerLimits& limits = all.controller.limits;
  const std::string most =
      limits.transfer_max == 0 ? "without limit" : base::human_bytes(limits.transfer_max);
  return fmt::format(
      "{} ({}, serial {}, firmware {})\n"
      "commands up to {}, {} in a capsule, {} I/O queues of {} entries, {}\n",
      printable(limits.subnqn), printable(limits.model), printable(limits.serial),
      printable(limits.firmware), most, base::human_bytes(limits.in_capsule_max), all.io_queues,
      all.controller.cap.queue_entries_max(),
      limits.volatile_cache ? "a volatile write cache" : "no volatile write cache");
}

Result<int> run_identify(const NvmeFlags& flags) {
  LARDER_ASSIGN(const auto options, options_of(flags));
  LARDER_ASSIGN(const nvmf::Identified all, nvmf::identify(options));
  if (flags.json) {
    Json out = json_of(all);
    out["namespaces"] = Json::array();
    for (const auto& facts : all.namespaces) {
      out["namespaces"].push_back(json_of(options.url, all, facts));
    }
    out["unusable"] = all.others;
    LARDER_TRY(print_json(out));
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows{{"namespace", "size", "block", "id"}};
  for (const auto& facts : all.namespaces) {
    rows.push_back({std::to_string(facts.nsid),
                    base::human_bytes(facts.shape.blocks * facts.shape.block_bytes),
                    std::to_string(facts.shape.block_bytes),
                    printable(nvmf::identity_of(options.url, all.controller, facts).id)});
  }
  LARDER_TRY(print(text_of(all) + format_table(rows)));
  for (const std::string& other : all.others) print_note(printable(other));
  return kExitOk;
}

void add_action(CommandLine& line, CLI::App& parent, const char* name, const char* help,
                Result<int> (*run)(const NvmeFlags&)) {
  const auto flags = std::make_shared<NvmeFlags>();
  auto* app = parent.add_subcommand(name, help);
  app->add_option("URL", flags->url, "nvme-tcp://HOST[:PORT][/NQN[#NSID]]")->required();
  app->add_option("--host-nqn", flags->host_nqn, "who we say we are");
  app->add_option("--timeout", flags->timeout, "for all of it; default 10s");
  app->add_flag("--json", flags->json, "answer in JSON on stdout");
  app->callback([&line, flags, run] {
    line.chosen = [flags, run] {
      const auto exit = run(*flags);
      return exit ? *exit : report_error(exit.error());
    };
  });
}

}  // namespace

void add_nvme_command(CommandLine& line) {
  auto* nvme = line.app.add_subcommand("nvme", "remote NVMe namespaces (NVMe/TCP): what is where");
  nvme->require_subcommand(1);
  nvme->footer(kExamples);
  add_action(line, *nvme, "discover", "list the subsystems that a target offers", run_discover);
  add_action(line, *nvme, "identify", "show a subsystem's limits and namespaces", run_identify);
}

}  // namespace larder::apps
