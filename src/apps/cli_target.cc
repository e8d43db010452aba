// SPDX-License-Identifier: Apache-2.0
// target: exports memory, files and disks over NVMe/TCP until a signal asks it to stop.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli.h"
#include "apps/console.h"
#include "apps/exit_codes.h"
#include "apps/stop_signal.h"
#include "apps/target_flags.h"
#include "obs/http.h"
#include "obs/metrics.h"

namespace larder::apps {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples =
    "Examples:\n"
    "  larder target --ram 1GiB\n"
    "  larder target --file /mnt/nvme0/ns1:100GiB --listen 10.0.0.5:4420\n"
    "  larder target --ram 4GiB --read-only --allow-host nqn.2014-08.org.nvmexpress:uuid:...\n"
    "SIGHUP: looks at its files and disks again; those that have grown are served so.\n"
    "It needs no privileges. Any NVMe/TCP host can use it: larder node --disk URL, or\n"
    "nvme connect -t tcp -a HOST -s PORT -n NQN. There is neither TLS nor a password: whoever\n"
    "reaches the port can claim any host name, so listen where only friends can.";

// One counter of the target's as a series.
struct Series {
  const char* name;
  const char* help;
  std::uint64_t nvmf::TargetStats::*field;
};

// house: table
constexpr Series kSeries[] = {
    {"larder_target_connections", "connections that are open", &nvmf::TargetStats::connections},
    {"larder_target_controllers", "controllers that hosts have", &nvmf::TargetStats::controllers},
    {"larder_target_accepted_total", "connections taken", &nvmf::TargetStats::accepted},
    {"larder_target_refused_total", "connections beyond the limits", &nvmf::TargetStats::refused},
    {"larder_target_connects_refused_total", "Connect commands refused",
     &nvmf::TargetStats::connects_refused},
    {"larder_target_protocol_errors_total", "connections ended for breaking the protocol",
     &nvmf::TargetStats::protocol_errors},
    {"larder_target_digest_errors_total", "data that came with a wrong digest",
     &nvmf::TargetStats::digest_errors},
    {"larder_target_keep_alive_expired_total", "controllers ended for their host's silence",
     &nvmf::TargetStats::keep_alive_expired},
    {"larder_target_stalled_total", "connections ended because the host did not go on",
     &nvmf::TargetStats::stalled},
    {"larder_target_reads_total", "read commands", &nvmf::TargetStats::reads},
    {"larder_target_writes_total", "write commands", &nvmf::TargetStats::writes},
    {"larder_target_flushes_total", "flush commands", &nvmf::TargetStats::flushes},
    {"larder_target_errors_total", "commands that ended with an error", &nvmf::TargetStats::errors},
    {"larder_target_read_bytes_total", "bytes that hosts have read",
     &nvmf::TargetStats::bytes_read},
    {"larder_target_written_bytes_total", "bytes that hosts have written",
     &nvmf::TargetStats::bytes_written},
    {"larder_target_bounce_bytes", "memory taken for devices' data",
     &nvmf::TargetStats::bounce_bytes},
};

// A page with the target's numbers. Ends before the target does.
struct MetricsPage {
  obs::Registry registry;
  std::vector<obs::CallbackHandle> series;
  std::unique_ptr<obs::HttpServer> server;
};

Result<std::unique_ptr<MetricsPage>> serve_metrics(const std::string& where,
                                                   const nvmf::Target& target) {
  auto page = std::make_unique<MetricsPage>();
  for (const Series& series : kSeries) {
    LARDER_ASSIGN(auto handle,
                  page->registry.callback(series.name, series.help, [&target, &series] {
                    return static_cast<double>(target.stats().*series.field);
                  }));
    page->series.push_back(std::move(handle));
  }
  const auto address = env::SocketAddress::parse(where);
  if (!address || address->kind != env::SocketAddress::Kind::kTcp) {
    return fail(Code::kInvalidArgument, "--metrics: give HOST:PORT, as in 127.0.0.1:7413");
  }
  obs::HttpOptions options;
  options.bind_address = address->host;
  options.port = address->port;
  LARDER_ASSIGN(
      page->server,
      obs::HttpServer::create(
          options,
          {{"/metrics",
            [raw = page.get()] {
              return obs::HttpReply{200, "text/plain; version=0.0.4", raw->registry.text()};
            }},
           {"/healthz", [] {
              return obs::HttpReply{200, "text/plain", "ok\n"};
            }}}));
  return page;
}

// Scripts wait for this line.
Result<void> announce(const nvmf::Target& target, const MetricsPage* metrics, bool json) {
  std::vector<std::string> urls;
  for (const std::uint32_t nsid : target.namespaces()) urls.push_back(target.url(nsid));
  if (json) {
    Json line = {{"nqn", target.nqn()},
                 {"address", target.address().host},
                 {"port", target.address().port},
                 {"urls", urls}};
    if (metrics != nullptr) line["metrics"] = metrics->server->url() + "/metrics";
    return print(line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
  }
  std::string text = "larder target: serving";
  for (const std::string& url : urls) text += ' ' + url;
  if (metrics != nullptr) text += " metrics " + metrics->server->url() + "/metrics";
  return print(text + '\n');
}

Result<void> run_target(const TargetFlags& flags) {
  LARDER_ASSIGN(nvmf::TargetOptions options, target_options(flags));
  // Before it serves, so that a signal during start-up is not lost.
  LARDER_ASSIGN(const auto signals, StopSignal::install(true));
  LARDER_ASSIGN(auto namespaces, open_namespaces(flags));
  LARDER_ASSIGN(const auto target, nvmf::Target::create(std::move(options), namespaces));
  std::unique_ptr<MetricsPage> metrics;
  if (!flags.metrics.empty()) {
    LARDER_ASSIGN(metrics, serve_metrics(flags.metrics, *target));
  }
  if (!target->address().is_loopback() && flags.allow_hosts.empty()) {
    print_note("any host that reaches " + target->address().to_string() +
               " may read and write; --allow-host NQN names those that may");
  }
  LARDER_TRY(announce(*target, metrics.get(), flags.json));
  int number = signals.wait();
  for (; number == SIGHUP; number = signals.wait()) {
    for (const std::string& text : look_again(*target, namespaces)) print_note(text);
  }
  const nvmf::TargetStats stats = target->stats();
  print_note(fmt::format("signal {}: stopping after {} reads, {} writes, {} errors", number,
                         grouped(stats.reads), grouped(stats.writes), grouped(stats.errors)));
  return {};
}

}  // namespace

void add_target_command(CommandLine& line) {
  auto flags = std::make_shared<TargetFlags>();
  auto* app = line.app.add_subcommand(
      "target", "export memory, files or disks over NVMe/TCP until SIGINT or SIGTERM");
  app->footer(kExamples);
  app->add_option("--ram", flags->ram, "SIZE: a namespace in memory; gone when it ends");
  app->add_option("--file", flags->files,
                  "PATH[:SIZE]: a namespace in a file, made with that size if it is not there");
  app->add_option("--device", flags->devices, "PATH: a namespace on a block device");
  app->add_option("--listen", flags->listen, "HOST:PORT; port 0: any free one")
      ->capture_default_str();
  app->add_option("--advertise", flags->advertise,
                  "HOST[:PORT] that discovery names; default: where the host has reached us");
  app->add_option("--nqn", flags->nqn,
                  "the subsystem's name; default " + nvmf::TargetOptions{}.nqn);
  app->add_option("--allow-host", flags->allow_hosts,
                  "NQN of a host that may connect; default any");
  app->add_flag("--read-only", flags->read_only, "hosts cannot write");
  app->add_option("--block", flags->block_bytes, "bytes of a block: 512 or 4096")
      ->capture_default_str();
  app->add_option("--threads", flags->threads, "for sockets")->capture_default_str();
  app->add_option("--metrics", flags->metrics, "HOST:PORT for a page with numbers; default none");
  app->add_flag("--json", flags->json, "announce in JSON on stdout");
  app->callback([&line, flags] {
    line.chosen = [flags] {
      const auto done = run_target(*flags);
      return done ? kExitOk : report_error(done.error());
    };
  });
}

}  // namespace larder::apps
