// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/probe.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

namespace larder::apps {
namespace {

// A worker stops after this many times the duration of wall time, whatever settle() takes.
constexpr env::Nanos kWallFactorMax = 50;

struct WorkerRound {
  Reservoir latency;
  std::uint64_t calls = 0;
  env::Nanos timed = 0;
};

Result<void> timed_span(Probe& probe, std::size_t thread, std::size_t calls, WorkerRound& round) {
  const env::Nanos start = env::monotonic_now();
  LARDER_TRY(probe.step(thread));
  const env::Nanos first = env::monotonic_now();
  env::Nanos end = first;
  if (calls > 1) {
    for (std::size_t i = 1; i < calls; ++i) LARDER_TRY(probe.step(thread));
    end = env::monotonic_now();
  }
  round.calls += calls;
  round.timed += end - start;
  round.latency.add(first - start);
  return {};
}

Result<WorkerRound> run_worker(Probe& probe, std::size_t thread, env::Nanos duration) {
  WorkerRound round;
  const std::size_t calls = std::max<std::size_t>(probe.calls_per_span(), 1);
  const env::Nanos give_up = env::monotonic_now() + kWallFactorMax * duration;
  do {
    LARDER_TRY(timed_span(probe, thread, calls, round));
    LARDER_TRY(probe.settle(thread));
  } while (round.timed < duration && env::monotonic_now() < give_up);
  return round;
}

std::vector<Result<WorkerRound>> run_workers(Probe& probe, env::Nanos duration) {
  std::vector<Result<WorkerRound>> results(probe.threads(), fail(Code::kInternal, "did not run"));
  if (results.size() == 1) {
    results[0] = run_worker(probe, 0, duration);
    return results;
  }
  std::atomic<std::size_t> ready{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      ready.fetch_add(1);
      while (ready.load() < results.size()) std::this_thread::yield();
      results[i] = run_worker(probe, i, duration);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

double median_of(const std::vector<Round>& rounds, double (*pick)(const Round&)) {
  std::vector<double> values;
  for (const Round& round : rounds) values.push_back(pick(round));
  return median(std::move(values));
}

Result<void> run_into(Probe& probe, env::Nanos duration, std::vector<Round>& rounds) {
  LARDER_ASSIGN(Round round, run_round(probe, duration));
  rounds.push_back(std::move(round));
  return {};
}

}  // namespace

Result<Round> run_round(Probe& probe, env::Nanos duration) {
  LARDER_TRY(probe.begin());
  auto workers = run_workers(probe, duration);
  const auto ended = probe.end();
  Round round;
  for (auto& worker : workers) {
    if (!worker) return fail(std::move(worker).error());
    const double seconds = static_cast<double>(std::max<env::Nanos>(worker->timed, 1)) / 1e9;
    const double calls_per_s = static_cast<double>(worker->calls) / seconds;
    round.items_per_s += calls_per_s * static_cast<double>(probe.items_per_call());
    round.bytes_per_s += calls_per_s * static_cast<double>(probe.bytes_per_call());
    round.latency.merge(worker->latency);
  }
  LARDER_TRY(ended);
  return round;
}

Summary summarize(const std::vector<Round>& rounds) {
  Summary summary;
  summary.ops_per_s = median_of(rounds, [](const Round& r) { return r.items_per_s; });
  summary.bytes_per_s = median_of(rounds, [](const Round& r) { return r.bytes_per_s; });
  std::vector<double> p50;
  std::vector<double> p99;
  std::vector<double> p999;
  for (const Round& round : rounds) {
    const Percentiles got = round.latency.percentiles();
    p50.push_back(got.p50_us);
    p99.push_back(got.p99_us);
    p999.push_back(got.p999_us);
  }
  summary.latency = {median(std::move(p50)), median(std::move(p99)), median(std::move(p999))};
  return summary;
}

Result<Pair> run_pair(std::span<const ProbePtr> limits, Measure measure, Probe& ours,
                      const Rhythm& rhythm) {
  std::vector<std::vector<Round>> limit_rounds(limits.size());
  std::vector<Round> our_rounds;
  for (const ProbePtr& limit : limits) LARDER_TRY(run_round(*limit, rhythm.round / 4));
  LARDER_TRY(run_round(ours, rhythm.round / 4));
  for (std::size_t i = 0; i < rhythm.rounds; ++i) {
    for (std::size_t j = 0; j < limits.size(); ++j) {
      LARDER_TRY(run_into(*limits[j], rhythm.round, limit_rounds[j]));
    }
    LARDER_TRY(run_into(ours, rhythm.round, our_rounds));
  }
  Pair pair;
  pair.ours = summarize(our_rounds);
  for (std::size_t j = 0; j < limits.size(); ++j) {
    const Summary summary = summarize(limit_rounds[j]);
    if (j == 0 || ratio_of(measure, summary, pair.limit) > 1) {
      pair.limit = summary;
      pair.limit_name = limits[j]->name();
    }
  }
  return pair;
}

Result<Summary> run_alone(Probe& probe, const Rhythm& rhythm) {
  std::vector<Round> rounds;
  LARDER_TRY(run_round(probe, rhythm.round / 4));
  for (std::size_t i = 0; i < rhythm.rounds; ++i) {
    LARDER_TRY(run_into(probe, rhythm.round, rounds));
  }
  return summarize(rounds);
}

}  // namespace larder::apps
