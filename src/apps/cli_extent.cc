// SPDX-License-Identifier: Apache-2.0
// extent dump, check and bench: what is on a disk, offline.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli.h"
#include "apps/console.h"
#include "apps/exit_codes.h"
#include "apps/extent_bench.h"
#include "base/units.h"
#include "block/block_device.h"
#include "extent/inspect.h"
#include "nvmf/host/url.h"
#include "tier/cold/disk_place.h"

namespace larder::apps {
namespace {

using Json = nlohmann::ordered_json;

struct ExtentFlags {
  std::string path;
  bool json = false;
  bool headers_only = false;
  std::uint64_t limit = 0;  // records; 0: all
};

std::string dump_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string hex(std::uint64_t number) {
  return fmt::format("{:016x}", number);
}

Json json_of(const extent::SuperblockReport& s) {
  if (!s.error.empty()) return {{"superblock_at", s.offset}, {"error", s.error}};
  return {{"superblock_at", s.offset},
          {"version", s.version},
          {"uuid", s.uuid.to_string()},
          {"generation", s.generation},
          {"clean", s.clean},
          {"epoch", s.epoch},
          {"owner", s.owner},
          {"device_bytes", s.device_bytes},
          {"block_bytes", s.block_bytes},
          {"cells", s.cells},
          {"data_offset", s.data_offset},
          {"data_bytes", s.data_bytes}};
}

std::string text_of(const extent::SuperblockReport& s) {
  if (!s.error.empty()) {
    return fmt::format("superblock at {}: {}\n", s.offset, printable(s.error));
  }
  return fmt::format(
      "superblock at {}: {} version {} write {} {} epoch {} owner '{}' blocks of {} cells {} data "
      "{} from {}\n",
      s.offset, s.uuid.to_string(), s.version, s.generation, s.clean ? "clean" : "in use", s.epoch,
      printable(s.owner), s.block_bytes, s.cells, base::human_bytes(s.data_bytes), s.data_offset);
}

Json json_of(const extent::RecordInfo& r) {
  auto extents = Json::array();
  for (const auto& e : r.extents) extents.push_back({e.offset, e.bytes});
  Json out{{"cell", r.id.cell},
           {"cells", r.cells},
           {"sequence", r.sequence},
           {"bytes", r.payload_bytes},
           {"checksum", hex(r.checksum)},
           {"extents", extents},
           {"tenant", r.manifest.tenant},
           {"domain", r.manifest.domain},
           {"object_set", r.manifest.object_set},
           {"key", r.manifest.key},
           {"version", r.manifest.version}};
  if (r.payload_good) out["payload_good"] = *r.payload_good;
  return out;
}

std::string text_of(const extent::RecordInfo& r) {
  std::string where;
  for (const auto& e : r.extents) where += fmt::format(" {}+{}", e.offset, e.bytes);
  return fmt::format("cell {} sequence {:x} bytes {} checksum {} at{} {}/{}/{} '{}' version {}{}\n",
                     r.id.cell, r.sequence, r.payload_bytes, hex(r.checksum), where,
                     printable(r.manifest.tenant), printable(r.manifest.domain),
                     printable(r.manifest.object_set), printable(r.manifest.key),
                     r.manifest.version, r.payload_good.value_or(true) ? "" : " PAYLOAD DAMAGED");
}

Json json_of(const extent::InspectReport& r) {
  const double nanos = static_cast<double>(r.scan_nanos);
  return {{"good", r.good()},
          {"records", r.records},
          {"payload_bytes", r.payload_bytes},
          {"stored_bytes", r.stored_bytes},
          {"tombstones", r.tombstones},
          {"cells_seen", r.cells_seen},
          {"damaged_headers", r.damaged_headers},
          {"damaged_payloads", r.damaged_payloads},
          {"overlapping", r.overlapping},
          {"header_bytes_read", r.bytes_read},
          {"seconds", nanos / 1e9}};
}

std::string text_of(const extent::InspectReport& r) {
  return fmt::format(
      "{}: {} records of {} in {}, {} tombstones; damaged: {} headers, {} payloads, {} "
      "superblocks; {} overlaps\n",
      r.good() ? "good" : "DAMAGED", grouped(r.records), base::human_bytes(r.payload_bytes),
      base::human_bytes(r.stored_bytes), r.tombstones, r.damaged_headers, r.damaged_payloads,
      std::count_if(r.superblocks.begin(), r.superblocks.end(),
                    [](const auto& s) { return !s.error.empty(); }),
      r.overlapping);
}

// Prints as it goes: a device may have millions of records.
class Printer {
 public:
  explicit Printer(bool json) : json_(json) {}
  template <class What>
  bool operator()(const What& what) {
    if (result) result = print(json_ ? dump_of(json_of(what)) : text_of(what));
    return result.has_value();
  }
  void damage(std::uint64_t cell, const std::string& what) {
    if (!result) return;
    result = print(json_ ? dump_of({{"damaged_cell", cell}, {"error", what}})
                         : fmt::format("cell {} DAMAGED: {}\n", cell, printable(what)));
  }
  Result<void> result;

 private:
  const bool json_;
};

Result<std::shared_ptr<block::BlockDevice>> open_store(const std::string& name) {
  tier::Location place;
  place.path = name;
  place.remote = nvmf::is_nvme_url(name);
  return tier::open_device(place, nullptr);
}

Result<int> inspect_file(const ExtentFlags& flags, bool dump) {
  LARDER_ASSIGN(const auto device, open_store(flags.path));
  Printer printer(flags.json);
  std::uint64_t printed = 0;
  extent::InspectOptions options;
  options.verify_payloads = !dump && !flags.headers_only;
  options.record = [&](const extent::RecordInfo& record) {
    const bool bad = !record.payload_good.value_or(true);
    if ((dump || bad) && !printer(record)) return false;
    return flags.limit == 0 || ++printed < flags.limit;
  };
  options.damage = [&](std::uint64_t cell, const std::string& what) { printer.damage(cell, what); };
  extent::InspectReport report;
  const auto inspected = extent::inspect(*device, options, report);
  for (const auto& superblock : report.superblocks) printer(superblock);
  LARDER_TRY(printer.result);
  LARDER_TRY(inspected);
  printer(report);
  LARDER_TRY(printer.result);
  return report.good() ? kExitOk : kExitWrongBytes;
}

void choose(CommandLine& line, CLI::App* app, std::function<Result<int>()> run) {
  app->callback([&line, run = std::move(run)] {
    line.chosen = [run] {
      const auto done = run();
      return done ? *done : report_error(done.error());
    };
  });
}

CLI::App* add_inspection(CommandLine& line, CLI::App& parent, const char* name, const char* help,
                         const std::shared_ptr<ExtentFlags>& flags, bool dump) {
  auto* app = parent.add_subcommand(name, help);
  app->add_option("file", flags->path, "a file, a disk, or nvme-tcp://HOST[:PORT]/NQN[#NSID]")
      ->required();
  app->add_flag("--json", flags->json, "one JSON object a line");
  choose(line, app, [flags, dump] { return inspect_file(*flags, dump); });
  return app;
}

void add_benches(CommandLine& line, CLI::App& parent) {
  auto flags = std::make_shared<ExtentBenchFlags>();
  auto* bench = parent.add_subcommand("bench", "a store in a new file against the bare file");
  bench->add_option("file", flags->path, "is made, and removed afterwards")->required();
  bench->add_option("--size", flags->bytes, "of the file, bytes")
      ->transform(CLI::AsSizeValue(false));
  bench->add_option("--record", flags->record, "payload bytes of each record")
      ->transform(CLI::AsSizeValue(false));
  bench->add_option("--rounds", flags->rounds, "medians of so many");
  bench->add_option("--under-way", flags->under_way, "puts at a time");
  bench->add_option("--group", flags->group, "puts that a flush waits for");
  bench->add_option("--queues", flags->queues, "of the recovery");
  bench->add_option("--piece", flags->piece, "bytes of each read of a get")
      ->transform(CLI::AsSizeValue(false));
  bench->add_flag("--json", flags->json, "on one line");
  choose(line, bench, [flags] { return run_extent_bench(*flags); });
  auto churn = std::make_shared<AllocatorBenchFlags>();
  auto* space = parent.add_subcommand("bench-space", "mixed sizes in a full store, in memory");
  space->add_option("--records", churn->records, "about so many at a time");
  space->add_option("--churn", churn->churn, "how often each is replaced");
  space->add_flag("--json", churn->json, "on one line");
  choose(line, space, [churn] { return run_allocator_bench(*churn); });
}

}  // namespace

void add_extent_command(CommandLine& line) {
  auto* app = line.app.add_subcommand(
      "extent", "looks at the record store on a file or disk that no node has open");
  app->require_subcommand(1);
  auto dump = std::make_shared<ExtentFlags>();
  add_inspection(line, *app, "dump", "prints superblocks and records", dump, true)
      ->add_option("--limit", dump->limit, "so many records at most");
  auto check = std::make_shared<ExtentFlags>();
  add_inspection(line, *app, "check", "verifies headers and payloads; exit 4: something is damaged",
                 check, false)
      ->add_flag("--headers-only", check->headers_only, "leaves the payloads out");
  add_benches(line, *app);
}

}  // namespace larder::apps
