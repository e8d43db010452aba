// SPDX-License-Identifier: Apache-2.0
// How jobs end before their time: given up, timed out, or because the engine goes.
#include <algorithm>
#include <utility>

#include "env/clock.h"
#include "env/thread.h"
#include "transfer/dispatcher.h"

namespace larder::transfer {
namespace {

constexpr std::size_t kExpiriesKept = 4096;

}  // namespace

// ---- giving up ----

Result<void> Dispatcher::give_up(Task& task, Outcome outcome, const Error& error) {
  std::uint64_t word = 0;
  // Again when the job has been split meanwhile, and another has the task now.
  for (std::uint64_t now = task.record.job.load(); now != word; now = task.record.job.load()) {
    word = now;
    const auto index = static_cast<std::uint32_t>(word);
    const auto generation = static_cast<std::uint32_t>(word >> 32);
    if (give_up_job(index, generation, outcome, error, &task)) return {};
  }
  return fail(Code::kNotFound, "the task is over");
}

// Made before the lock is taken, under which nothing is allocated. None of a job that is over.
std::vector<std::unique_ptr<Error>> Dispatcher::copies_for(Job& job, const Error& error, bool one) {
  std::size_t count = 1;
  if (!one) {
    const std::lock_guard lock(job.lock);
    count = job.live ? job.tasks : 0;
  }
  std::vector<std::unique_ptr<Error>> copies(count);
  for (auto& copy : copies) copy = std::make_unique<Error>(error);
  return copies;
}

// Sets the outcome of one task, or of all; the job goes on while some other task wants it.
bool Dispatcher::give_up_job(std::uint32_t index, std::uint32_t generation, Outcome outcome,
                             const Error& error, const Task* only) {
  Job* const job = jobs_.at(index);
  std::array<PieceToken, Job::kSlots> tokens;
  std::size_t count = 0;
  std::uint32_t decided = 0;
  Transport* with = nullptr;
  BatchRef batch;
  qos::Label label;
  auto errors = copies_for(*job, error, only != nullptr);
  std::optional<Error> of_job(error);
  {
    const std::lock_guard lock(job->lock);
    if (!job->live || job->generation != generation) return false;
    batch = job->batch.another();
    label = label_of(*job);
    bool wanted = false;
    for (std::uint32_t i = 0; i < job->tasks; ++i) {
      Task& task = batch->task(job->first_task + i);
      if (only != nullptr && &task != only) {
        wanted |= task.outcome() == Outcome::kPending;
        continue;
      }
      if (!task.set_outcome(outcome, std::move(errors[decided]))) continue;
      ++decided;
      job->quarantined += task.record.length;
      quarantined_.fetch_add(task.record.length);
    }
    if (!wanted) {
      job->given_up = true;
      job->stopping = true;
      if (!job->error) job->error = std::move(of_job);
      with = job->transport;
      for (const PieceSlot& slot : job->slots) {
        if (slot.generation % 2 == 1) tokens[count++] = slot.piece.token;
      }
    }
  }
  for (std::size_t i = 0; i < count; ++i) with->cancel(tokens[i]);
  if (decided > 0) telemetry_.failed(label, outcome, decided);
  if (decided > 0) batch->end_work(decided, 0);  // nothing that ended says nothing of idleness
  return decided > 0;
}

void Dispatcher::watch(const Job& job) {
  if (job.deadline == 0) return;
  const std::lock_guard lock(timer_mutex_);
  // Jobs that ended early leave their entry behind: from time to time they are cleared out.
  if (expiries_.size() > kExpiriesKept + 4 * std::size_t{jobs_.in_use()}) {
    std::erase_if(expiries_, [this](const Expiry& expiry) { return !lives(expiry); });
    std::make_heap(expiries_.begin(), expiries_.end());
  }
  const bool first = expiries_.empty() || job.deadline < expiries_.front().at;
  expiries_.push_back({job.deadline, job.index, job.generation});
  std::push_heap(expiries_.begin(), expiries_.end());
  if (!timer_.joinable()) timer_ = std::thread([this] { run_timer(); });
  if (first) timer_changed_.notify_all();
}

bool Dispatcher::lives(const Expiry& expiry) const {
  Job& job = *jobs_.at(expiry.job);
  const std::lock_guard lock(job.lock);
  return job.live && job.generation == expiry.generation;
}

void Dispatcher::run_timer() {
  env::set_thread_name("larder-expiry");
  std::unique_lock lock(timer_mutex_);
  while (!stopping_) {
    if (expiries_.empty()) {
      timer_changed_.wait(lock);
      continue;
    }
    const Expiry next = expiries_.front();
    if (env::monotonic_now() < next.at) {
      const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(next.at)};
      timer_changed_.wait_until(lock, until);
      continue;
    }
    std::pop_heap(expiries_.begin(), expiries_.end());
    expiries_.pop_back();
    lock.unlock();
    give_up_job(next.job, next.generation, Outcome::kTimedOut,
                Error(Code::kDeadlineExceeded,
                      "the request's deadline passed; its memory is lent until it is quiescent"),
                nullptr);
    lock.lock();
  }
}

void Dispatcher::stop_timer() {
  {
    const std::lock_guard lock(timer_mutex_);
    stopping_ = true;
  }
  timer_changed_.notify_all();
  if (timer_.joinable()) timer_.join();
}

void Dispatcher::cancel_all() {
  closing_.store(true);
  for (std::uint32_t i = 0; Job* const job = jobs_.at(i); ++i) {
    std::uint32_t generation = 0;
    {
      const std::lock_guard lock(job->lock);
      if (!job->live) continue;
      generation = job->generation;
    }
    give_up_job(i, generation, Outcome::kCancelled, shutting_down(), nullptr);
  }
}

bool Dispatcher::drain(std::int64_t deadline) {
  draining_.store(true);
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline)};
  {
    std::unique_lock lock(timer_mutex_);
    if (!drained_.wait_until(lock, until, [this] { return jobs_.in_use() == 0; })) return false;
  }
  stop_timer();  // it may be about to cancel pieces, and transports go away next
  return true;
}

bool Dispatcher::drain_all(std::int64_t deadline) {
  const std::int64_t now = env::monotonic_now();
  const bool soon = drain(now + std::max<std::int64_t>(deadline - now, 0) / 2);
  bool quiet = true;
  for (Transport* const transport : all_) quiet = transport->drain(deadline) && quiet;
  return (soon || drain(deadline)) && quiet;
}

}  // namespace larder::transfer
