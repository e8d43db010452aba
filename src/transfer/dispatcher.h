// SPDX-License-Identifier: Apache-2.0
// Runs jobs: pieces out to transports, their ends in, failover, time-outs, and the quarantine.
//
// Quarantine is not a place but a fact about a job: its tasks have their outcome, and a transport
// may still touch their memory. The job keeps the memory pinned, and the batch's place, until every
// piece has ended, however long that takes.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "qos/telemetry.h"
#include "transfer/breaker.h"
#include "transfer/job.h"
#include "transfer/slab.h"

namespace larder::transfer {

struct DispatcherOptions {
  std::uint32_t jobs_max = 1 << 17;
  SliceLimits slices;
};

// Any thread.
class Dispatcher final : public PieceSink {
 public:
  Dispatcher(const DispatcherOptions& options, qos::Telemetry& telemetry, Breakers& breakers);
  ~Dispatcher() override;
  // Once, before the first job; they outlive the last job. `stagers`: of the same types as some of
  // the transports, for device memory.
  void install(const Selector& selector, std::vector<Transport*> transports,
               std::vector<Transport*> stagers = {});

  // A job to be filled in; null: jobs_max are in flight.
  Job* make_job();
  // Takes filled-in jobs whose `selection` is made. Their tasks are counted as work of the batch.
  void start(std::span<Job* const> jobs);
  // kCancelled or kTimedOut for one task, now. kNotFound: it has no job (any more).
  Result<void> give_up(Task& task, Outcome outcome, const Error& error);
  void piece_done(PieceToken token, const Error* error) noexcept override;

  std::uint64_t quarantined_bytes() const noexcept { return quarantined_.load(); }
  std::uint64_t stray_ends() const noexcept { return strays_.load(); }
  std::uint32_t jobs() const { return jobs_.in_use(); }
  // Gives every job up.
  void cancel_all();
  // True when all jobs have ended by `deadline` (monotonic ns).
  bool drain(std::int64_t deadline);
  // The same with the transports' help, which get half of the time: what a job waits for may end
  // only when its transport drains. True when they are quiet as well.
  bool drain_all(std::int64_t deadline);
  Transport* transport(TransportType type) const noexcept;
  // What moves a selection; null: nothing can.
  Transport* carrier(const Selection& selection) const noexcept;

 private:
  struct Expiry {
    std::int64_t at;
    std::uint32_t job;
    std::uint32_t generation;
    // For a heap with the earliest on top.
    bool operator<(const Expiry& other) const noexcept { return at > other.at; }
  };
  using Handed = std::vector<std::pair<Transport*, const Piece*>>;

  void begin(Job& job, Handed& out);
  bool next_piece(Job& job, Handed& out);
  void enlist(Job& job);
  void launch(std::span<Job* const> jobs);
  void hand_over(Handed& pieces);
  void hand_out(Handed& pieces);
  void cancel_again(Transport& transport, std::span<const PieceToken> tokens);
  void end_or_retry(Job& job);
  static bool blames(Code code, bool wanted);
  Result<Selection> select_next(Job& job);
  bool retry(Job& job);
  bool split(Job& job);
  bool make_parts(const Job& job, std::vector<Job*>& parts);
  void quiet(Job& part);
  void fill_part(const Job& job, std::uint32_t task, std::uint64_t at, Job& part);
  void end(Job& job);
  void let_go(Job& job);
  void give_back(std::uint32_t job);
  bool give_up_job(std::uint32_t index, std::uint32_t generation, Outcome outcome,
                   const Error& error, const Task* only);
  static Error shutting_down();
  static qos::Label label_of(const Job& job);
  static std::vector<std::unique_ptr<Error>> copies_for(Job& job, const Error& error, bool one);
  void watch(const Job& job);
  bool lives(const Expiry& expiry) const;
  void run_timer();
  void stop_timer();

  const DispatcherOptions options_;
  qos::Telemetry& telemetry_;
  Breakers& breakers_;
  const Selector* selector_ = nullptr;
  std::vector<Transport*> transports_;
  std::vector<Transport*> stagers_;
  std::vector<Transport*> all_;
  Slab<Job> jobs_;
  std::atomic<std::uint64_t> quarantined_{0};
  std::atomic<std::uint64_t> strays_{0};
  std::atomic<bool> closing_{false};
  std::atomic<bool> draining_{false};

  std::mutex timer_mutex_;  // the rest
  std::condition_variable timer_changed_;
  std::vector<Expiry> expiries_;  // a heap
  bool stopping_ = false;
  std::thread timer_;  // runs from the first deadline on
  std::condition_variable drained_;
};

}  // namespace larder::transfer
