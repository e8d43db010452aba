// SPDX-License-Identifier: Apache-2.0
#include "apps/replay/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "apps/console.h"
#include "apps/exit_codes.h"
#include "apps/replay/ideal.h"
#include "apps/stop_signal.h"
#include "base/units.h"

namespace larder::apps {
namespace {

Result<std::vector<std::unique_ptr<Client>>> connect(const SessionOptions& options) {
  std::vector<std::unique_ptr<Client>> clients;
  for (std::size_t i = 0; i < options.workers; ++i) {
    ClientOptions client = options.client;
    client.connections_max = 1;  // a worker has one call in flight
    LARDER_ASSIGN(auto connected, Client::connect(std::move(client)));
    clients.push_back(std::move(connected));
  }
  return clients;
}

// Shows progress on this thread until `done` is set by the other one.
class Watch {
 public:
  Watch(const Replay& replay, const TraceSurvey& survey, const SessionOptions& options)
      : replay_(replay), survey_(survey), options_(options) {}

  void until_done() {
    ProgressLine line(options_.progress);
    const env::Nanos start = env::monotonic_now();
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::milliseconds(500), [&] { return done_; })) {
      show(line, start);
    }
  }
  void finish() {
    const std::scoped_lock lock(mutex_);
    done_ = true;
    wake_.notify_all();
  }

 private:
  void show(ProgressLine& line, env::Nanos start) const {
    const ReplayProgress now = replay_.progress();
    const double seconds = static_cast<double>(env::monotonic_now() - start) / env::kSecond;
    const double all = static_cast<double>(std::max<std::uint64_t>(survey_.requests, 1));
    line.update(static_cast<double>(now.requests) / all,
                fmt::format("{} of {} requests, {}, {} wrong bytes", grouped(now.requests),
                            grouped(survey_.requests),
                            base::human_rate(static_cast<double>(now.bytes) / seconds),
                            grouped(now.wrong_bytes)));
  }

  const Replay& replay_;
  const TraceSurvey& survey_;
  const SessionOptions& options_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;  // under mutex_
};

Result<ReplayReport> play(const SessionOptions& options, const TraceSurvey& survey,
                          std::vector<std::unique_ptr<Client>> clients) {
  LARDER_ASSIGN(auto source, options.open());
  std::vector<std::unique_ptr<BlockStore>> stores;
  for (auto& client : clients) {
    LARDER_ASSIGN(auto store, make_client_store(std::move(client)));
    stores.push_back(std::move(store));
  }
  Replay replay(options.settings, *source);
  Watch watch(replay, survey, options);
  Result<ReplayReport> report = fail(Code::kInternal, "the replay did not run");
  std::jthread runner([&] {
    report = replay.run(std::move(stores));
    watch.finish();
  });
  watch.until_done();
  runner.join();
  if (report) {
    if (const auto* reader = dynamic_cast<const TraceReader*>(source.get())) {
      report->broken_lines = reader->broken_lines();
      report->first_broken = reader->first_broken();
    }
  }
  return report;
}

std::string mode_of(double speed) {
  if (speed <= 0) return "fastest";
  return speed == 1.0 ? std::string("recorded speed") : fmt::format("{:g} times its speed", speed);
}

}  // namespace

Result<TraceSurvey> survey_trace(TraceSource& source, std::uint64_t capacity_blocks,
                                 std::uint64_t requests_max) {
  TraceSurvey survey;
  IdealLru ideal(capacity_blocks);
  TraceRequest request;
  while (requests_max == 0 || survey.requests < requests_max) {
    LARDER_ASSIGN(const bool more, source.next(request));
    if (!more) break;
    ideal.play(request.ids);
    if (survey.requests++ == 0) survey.first_ms = request.timestamp_ms;
    survey.last_ms = std::max(survey.last_ms, request.timestamp_ms);
  }
  survey.blocks = ideal.asked();
  survey.ideal_hits = ideal.hits();
  return survey;
}

Result<ReplayReport> run_session(const SessionOptions& options) {
  LARDER_ASSIGN(auto clients, connect(options));
  ClientOptions watcher_options = options.client;
  watcher_options.connections_max = 1;
  LARDER_ASSIGN(const auto watcher, Client::connect(std::move(watcher_options)));
  LARDER_ASSIGN(const NodeInfo before, watcher->info());
  std::uint64_t capacity = options.capacity_blocks;
  if (capacity == 0) capacity = before.capacity_bytes / options.settings.block_bytes;
  const Path path = clients.front()->path();

  LARDER_ASSIGN(auto checked, options.open());
  LARDER_ASSIGN(TraceSurvey survey, survey_trace(*checked, capacity));
  checked.reset();
  if (survey.requests == 0) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}: the trace holds no requests", printable(options.trace_name)));
  }
  LARDER_ASSIGN(ReplayReport report, play(options, survey, std::move(clients)));
  LARDER_ASSIGN(const NodeInfo after, watcher->info());
  if (report.interrupted) {  // compare with the ideal of as many requests as were played
    LARDER_ASSIGN(auto again, options.open());
    LARDER_ASSIGN(survey,
                  survey_trace(*again, capacity, std::max<std::uint64_t>(report.requests, 1)));
  }
  report.trace = options.trace_name;
  report.mode = mode_of(options.settings.speed);
  report.path = path_name(path);
  report.capacity_blocks = capacity;
  report.ideal_hits = survey.ideal_hits;
  report.evictions = after.evictions - before.evictions;
  return report;
}

int judge(const ReplayReport& report) {
  if (report.wrong_bytes > 0) {
    return report_error(Error(
        Code::kCorrupt,
        fmt::format("{} wrong bytes in {} blocks came back: {}. Please report this with the "
                    "command line and salt {}",
                    report.wrong_bytes, report.wrong_blocks, report.first_error, report.salt)));
  }
  if (report.errors > 0) {
    return report_error(Error(Code::kInternal, fmt::format("{} blocks failed; the first: {}",
                                                           report.errors, report.first_error)));
  }
  if (report.interrupted) {
    const int number = StopSignal::received();
    print_note("interrupted; the figures are of the requests played so far");
    return number > 0 ? 128 + number : kExitError;
  }
  return kExitOk;
}

}  // namespace larder::apps
