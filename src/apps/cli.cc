// SPDX-License-Identifier: Apache-2.0
#include "apps/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <vector>

#include "apps/bench/bench.h"
#include "apps/console.h"
#include "apps/doctor.h"
#include "apps/doctor_disk.h"
#include "apps/doctor_nvme.h"
#include "apps/exit_codes.h"

namespace larder::apps {
namespace {

void add_doctor_command(CommandLine& line) {
  auto options = std::make_shared<DoctorOptions>();
  auto* app = line.app.add_subcommand(
      "doctor", "what this machine offers, what each lack costs and how to mend it");
  app->add_flag("--json", options->json, "answer in JSON on stdout");
  app->add_option("--dir", options->dir, "the folder where data would be kept");
  auto disk = std::make_shared<std::string>();
  app->add_option("--disk", *disk,
                  "DIR[:SIZE]: only try this folder as a disk for the cold tier; or "
                  "nvme-tcp://HOST[:PORT]/NQN[#NSID]: this remote namespace, by reading");
  app->callback([&line, options, disk] {
    line.chosen = [options, disk] {
      if (disk->empty()) return run_doctor(*options);
      if (nvmf::is_nvme_url(*disk)) return run_nvme_doctor(*disk, options->json);
      const auto spec = parse_disk_spec(*disk);
      return spec ? run_disk_doctor(*spec, options->json) : report_error(spec.error());
    };
  });
}

void add_version_command(CommandLine& line) {
  line.app.add_subcommand("version", "print the version")->callback([&line] {
    line.chosen = [] {
      const auto done = print(std::string("larder " LARDER_VERSION "\n"));
      return done ? kExitOk : report_error(done.error());
    };
  });
}

void add_bench_entry(CommandLine& line) {
  // Parses for itself (see run_larder); listed here for --help.
  line.app.add_subcommand("bench", "measure the machine and the store: larder bench --help");
}

// CLI11 writes to streams; what it says goes the way of all our errors.
int explain(const CLI::App& app, const CLI::ParseError& e) {
  std::ostringstream out;
  std::ostringstream ignored;
  if (app.exit(e, out, ignored) == 0) {  // --help, --version
    const auto done = print(out.str());
    return done ? kExitOk : report_error(done.error());
  }
  std::string what = e.what();
  const auto used = app.get_subcommands();
  what +=
      used.empty() ? "; see larder --help" : "; see larder " + used.front()->get_name() + " --help";
  return report_error(Error(Code::kInvalidArgument, std::move(what)));
}

void describe(CLI::App& app) {
  app.name("larder");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("larder " LARDER_VERSION));
  app.footer(std::string(kExitCodesHelp) + "\nMore on a command: larder COMMAND --help");
}

}  // namespace

int run_larder(std::span<const std::string> arguments) {
  if (!arguments.empty() && arguments.front() == "bench") {
    return run_bench(arguments.subspan(1));
  }
  CLI::App app("Larder keeps the KV caches of large-language-model serving.");
  CommandLine line{app, {}};
  describe(app);
  add_node_command(line);
  add_value_commands(line);
  add_key_commands(line);
  add_device_command(line);
  add_replay_commands(line);
  add_extent_command(line);
  add_nvme_command(line);
  add_target_command(line);
  add_doctor_command(line);
  add_bench_entry(line);
  add_version_command(line);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& e) {
    return explain(app, e);
  } catch (const std::exception& e) {
    return report_error(Error(Code::kInvalidArgument, e.what()));
  }
  return line.chosen ? line.chosen() : static_cast<int>(kExitUsage);
}

}  // namespace larder::apps
