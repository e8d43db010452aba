// SPDX-License-Identifier: Apache-2.0
#include "apps/replay/restart.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "apps/console.h"
#include "apps/replay/content.h"
#include "apps/replay/ideal.h"
#include "env/clock.h"

namespace larder::apps {
namespace {

using Json = nlohmann::ordered_json;

struct Fate {
  std::uint64_t kept = 0;
  std::unordered_set<std::uint64_t> lost;
};

double rate(std::uint64_t hits, std::uint64_t blocks) noexcept {
  return blocks == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(blocks);
}

SessionOptions part_of(const SessionOptions& session, std::uint64_t from, std::uint64_t to) {
  SessionOptions part = session;
  part.open = [open = session.open, from, to]() -> Result<std::unique_ptr<TraceSource>> {
    LARDER_ASSIGN(auto whole, open());
    return std::make_unique<TracePart>(std::move(whole), from, to);
  };
  return part;
}

// What a crash at this moment costs: of the blocks played so far, those that no disk has.
Result<Fate> ask_fate(Client& client, const SessionOptions& first) {
  const BlockContent content(first.settings.salt);
  std::unordered_map<std::string, std::uint64_t> ids;
  LARDER_ASSIGN(const auto source, first.open());
  TraceRequest request;
  while (true) {
    LARDER_ASSIGN(const bool more, source->next(request));
    if (!more) break;
    for (const std::uint64_t id : request.ids) ids.try_emplace(content.key(id), id);
  }
  Fate fate;
  std::vector<std::string_view> keys;
  for (auto at = ids.begin(); at != ids.end();) {
    keys.clear();
    for (; at != ids.end() && keys.size() < kBatchItemsMax; ++at) keys.push_back(at->first);
    LARDER_ASSIGN(const auto answers, client.stat(keys));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (answers[i].code != Code::kOk) continue;
      if (answers[i].info.tier == Tier::kHot) {
        fate.lost.insert(ids.at(std::string(keys[i])));
      } else {
        ++fate.kept;
      }
    }
  }
  return fate;
}

// The second half's ideal: warm from the first, without what was lost.
Result<std::uint64_t> ideal_after(const SessionOptions& session, std::uint64_t half,
                                  std::uint64_t end, const Fate& fate) {
  IdealLru ideal(session.capacity_blocks);
  LARDER_ASSIGN(const auto source, session.open());
  TraceRequest request;
  std::uint64_t before = 0;
  for (std::uint64_t at = 0; at < end; ++at) {
    LARDER_ASSIGN(const bool more, source->next(request));
    if (!more) break;
    if (at == half) {
      before = ideal.hits();
      for (const std::uint64_t id : fate.lost) ideal.forget(id);
    }
    ideal.play(request.ids);
  }
  return ideal.hits() - before;
}

}  // namespace

Result<bool> TracePart::next(TraceRequest& request) {
  while (at_ < to_) {
    LARDER_ASSIGN(const bool more, whole_->next(request));
    if (!more) return false;
    if (at_ == from_) first_ms_ = request.timestamp_ms;
    if (at_++ < from_) continue;
    request.timestamp_ms -= std::min(request.timestamp_ms, first_ms_);
    return true;
  }
  return false;
}

double RestartReport::hit_rate() const noexcept {
  return rate(first.hits + second.hits, first.blocks + second.blocks);
}

double RestartReport::ideal_hit_rate() const noexcept {
  return rate(first.ideal_hits + second.ideal_hits, first.blocks + second.blocks);
}

std::string restart_json(const RestartReport& report) {
  const Json out{{"hit_rate", report.hit_rate()},
                 {"ideal_hit_rate", report.ideal_hit_rate()},
                 {"kept_blocks", report.kept_blocks},
                 {"lost_blocks", report.lost_blocks},
                 {"restart_seconds", report.restart_seconds},
                 {"wrong_bytes", report.first.wrong_bytes + report.second.wrong_bytes},
                 {"first_half", Json::parse(report_json(report.first))},
                 {"second_half", Json::parse(report_json(report.second))}};
  return out.dump(2) + '\n';
}

std::string restart_table(const RestartReport& report) {
  const auto percent = [](double value) { return fmt::format("{:.2f}%", value * 100); };
  return "First half\n" + report_table(report.first) + "\nSecond half, after the kill\n" +
         report_table(report.second) + '\n' +
         format_table(
             {{"blocks on disk when killed", grouped(report.kept_blocks)},
              {"blocks lost with DRAM", grouped(report.lost_blocks)},
              {"hit rate of both halves", percent(report.hit_rate())},
              {"ideal, the lost set aside", percent(report.ideal_hit_rate())},
              {"wrong bytes", grouped(report.first.wrong_bytes + report.second.wrong_bytes)},
              {"from kill to answer", fmt::format("{:.2f} s", report.restart_seconds)}});
}

Result<std::uint64_t> capacity_with_disks(const SessionOptions& session) {
  LARDER_ASSIGN(const auto client, Client::connect(session.client));
  LARDER_ASSIGN(const NodeInfo info, client->info());
  std::uint64_t bytes = info.capacity_bytes;
  const auto devices = client->devices();
  if (!devices && devices.error().code() != Code::kUnsupported) return fail(devices.error());
  if (devices) {
    for (const DeviceInfo& device : *devices) bytes += device.capacity_bytes;
  }
  return bytes / session.settings.block_bytes;
}

Result<RestartReport> run_restart(const SessionOptions& session, LocalNode& node) {
  LARDER_ASSIGN(auto watcher, Client::connect(session.client));
  SessionOptions whole = session;
  if (whole.capacity_blocks == 0) {
    LARDER_ASSIGN(whole.capacity_blocks, capacity_with_disks(session));
  }
  LARDER_ASSIGN(auto source, session.open());
  LARDER_ASSIGN(const TraceSurvey survey, survey_trace(*source, 1));
  if (survey.requests < 2) {
    return fail(Code::kInvalidArgument, "a trace of less than 2 requests has no halves");
  }
  const std::uint64_t half = survey.requests / 2;
  const SessionOptions first = part_of(whole, 0, half);
  RestartReport report;
  LARDER_ASSIGN(report.first, run_session(first));
  if (report.first.interrupted) return report;
  LARDER_ASSIGN(const Fate fate, ask_fate(*watcher, first));
  report.kept_blocks = fate.kept;
  report.lost_blocks = fate.lost.size();
  watcher.reset();
  const env::Nanos killed = env::monotonic_now();
  LARDER_TRY(node.kill_and_restart());
  report.restart_seconds = static_cast<double>(env::monotonic_now() - killed) / env::kSecond;
  LARDER_ASSIGN(report.second, run_session(part_of(whole, half, survey.requests)));
  LARDER_ASSIGN(report.second.ideal_hits,
                ideal_after(whole, half, half + report.second.requests, fate));
  return report;
}

}  // namespace larder::apps
