// SPDX-License-Identifier: Apache-2.0
#include "transfer/dispatcher.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "env/clock.h"
#include "transfer/peer.h"

namespace larder::transfer {
namespace {

constexpr std::uint64_t job_word(const Job& job) {
  return (std::uint64_t{job.generation} << 32) | job.index;
}

// Errors that another transport may not have. A request that is wrong is wrong for all.
bool another_may_do(Code code) {
  return code == Code::kUnavailable || code == Code::kExhausted || code == Code::kUnsupported ||
         code == Code::kInternal || code == Code::kCorrupt || code == Code::kVersionMismatch;
}

}  // namespace

Error Dispatcher::shutting_down() {
  return {Code::kCancelled, "the engine is shutting down"};
}

qos::Label Dispatcher::label_of(const Job& job) {
  return {job.selection.transport, job.query.traffic_class, job.query.intent, job.opcode};
}

Dispatcher::Dispatcher(const DispatcherOptions& options, qos::Telemetry& telemetry,
                       Breakers& breakers)
    : options_(options), telemetry_(telemetry), breakers_(breakers), jobs_(options.jobs_max) {}

Dispatcher::~Dispatcher() {
  stop_timer();
}

void Dispatcher::install(const Selector& selector, std::vector<Transport*> transports,
                         std::vector<Transport*> stagers) {
  selector_ = &selector;
  transports_ = std::move(transports);
  stagers_ = std::move(stagers);
  all_ = transports_;
  all_.insert(all_.end(), stagers_.begin(), stagers_.end());
}

namespace {

Transport* of_type(std::span<Transport* const> transports, TransportType type) noexcept {
  for (Transport* const known : transports) {
    if (known->type() == type) return known;
  }
  return nullptr;
}

}  // namespace

Transport* Dispatcher::transport(TransportType type) const noexcept {
  return of_type(transports_, type);
}

Transport* Dispatcher::carrier(const Selection& selection) const noexcept {
  return of_type(selection.staged ? stagers_ : transports_, selection.transport);
}

Job* Dispatcher::make_job() {
  const auto index = jobs_.take();
  if (!index) return nullptr;
  Job* const job = jobs_.at(*index);
  job->index = *index;
  return job;
}

// ---- pieces out ----

void Dispatcher::start(std::span<Job* const> jobs) {
  for (Job* const job : jobs) enlist(*job);
  launch(jobs);
}

// From here on give_up() finds it.
void Dispatcher::enlist(Job& job) {
  const std::lock_guard lock(job.lock);
  job.live = true;
  job.stopping = false;
  job.given_up = false;
  job.attempted = {};
  job.error.reset();
  for (std::uint32_t i = 0; i < job.tasks; ++i) {
    job.batch->task(job.first_task + i).record.job.store(job_word(job));
  }
}

void Dispatcher::launch(std::span<Job* const> jobs) {
  thread_local Handed handed;
  Handed pieces = std::move(handed);  // a transport may end up here again
  pieces.clear();
  for (Job* const job : jobs) {
    telemetry_.in_flight(label_of(*job), job->tasks);
    watch(*job);
    // What cancel_all() has passed by already.
    if (closing_.load()) {
      give_up_job(job->index, job->generation, Outcome::kCancelled, shutting_down(), nullptr);
    }
    begin(*job, pieces);
  }
  hand_over(pieces);
  handed = std::move(pieces);
}

// With its present selection. The job is not touched after its last piece was handed out.
void Dispatcher::begin(Job& job, Handed& out) {
  bool over = false;
  {
    const std::lock_guard lock(job.lock);
    job.transport = carrier(job.selection);
    job.bytes_done = 0;
    const TransportAbilities can = job.transport->abilities();
    auto plan = SlicePlan::create(
        {.length = job.length,
         .target_offset = job.target_offset,
         .local_address = reinterpret_cast<std::uintptr_t>(job.local),
         .limit = slice_limit(options_.slices, job.query.traffic_class, can.bytes_max),
         .alignment = can.alignment});
    job.planned = 0;
    if (plan) {
      job.plan.emplace(*plan);
      const std::int64_t now = env::monotonic_now();
      for (std::uint32_t i = 0; i < job.tasks; ++i) {
        Task& task = job.batch->task(job.first_task + i);
        task.set_transport(job.selection.transport);
        task.record.started.store(now, std::memory_order_relaxed);
        task.record.attempts.fetch_add(1, std::memory_order_relaxed);
      }
      const bool staged_write = job.selection.staged && job.opcode == Opcode::kWrite;
      const std::uint32_t window = staged_write ? Job::kStagedWriteWindow : Job::kWindow;
      for (std::uint32_t i = 0; i < window && next_piece(job, out); ++i) {
      }
    } else {
      job.error = plan.error();
      job.stopping = true;
    }
    over = job.in_flight == 0;
  }
  if (over) end_or_retry(job);
}

// Under the job's lock. False: there is no further piece.
bool Dispatcher::next_piece(Job& job, Handed& out) {
  if (job.stopping) return false;
  const Slice slice = job.plan->at(job.planned);
  if (slice.length == 0) return false;
  job.planned += slice.length;
  const auto free = std::find_if(job.slots.begin(), job.slots.end(),
                                 [](const PieceSlot& slot) { return slot.generation % 2 == 0; });
  const auto place = static_cast<std::uint32_t>(free - job.slots.begin());
  Piece& piece = free->piece;
  piece.opcode = job.opcode;
  piece.traffic_class = job.query.traffic_class;
  piece.intent = job.query.intent;
  piece.local_type = job.query.local_memory;
  piece.local = job.local + slice.offset;
  piece.target = job.segment.get();
  piece.target_offset = job.target_offset + slice.offset;
  piece.near = job.near != nullptr ? job.near + slice.offset : nullptr;
  piece.mapping = job.mapping;
  piece.incarnation = job.remote != nullptr ? job.remote->incarnation : 0;
  piece.bytes = slice.length;
  piece.deadline = job.deadline;
  piece.trace_id = job.trace_id;
  piece.attended = !job.batch->has_listeners();
  piece.token = {job.index * Job::kSlots + place, ++free->generation};
  ++job.in_flight;
  job.batch->task(job.first_task).record.pieces.fetch_add(1, std::memory_order_relaxed);
  out.emplace_back(job.transport, &piece);
  return true;
}

// What comes up while a transport takes pieces, because it ends some at once, goes out when that
// one is through: a long job must not need a deep stack.
void Dispatcher::hand_over(Handed& pieces) {
  struct Running {
    const Dispatcher* of = nullptr;
    Handed* later = nullptr;
  };
  thread_local Running running;
  if (running.of == this) {
    running.later->insert(running.later->end(), pieces.begin(), pieces.end());
    pieces.clear();
    return;
  }
  Handed later;
  const Running before = std::exchange(running, Running{this, &later});
  while (!pieces.empty()) {
    hand_out(pieces);
    pieces.swap(later);
  }
  running = before;
}

// Each transport gets its pieces in one call, in order: small ones may travel together.
void Dispatcher::hand_out(Handed& pieces) {
  thread_local std::vector<const Piece*> together;
  std::vector<const Piece*> list = std::move(together);
  thread_local std::vector<PieceToken> their_tokens;
  std::vector<PieceToken> tokens = std::move(their_tokens);
  for (Transport* const to : all_) {
    list.clear();
    tokens.clear();
    for (const auto& [transport, piece] : pieces) {
      if (transport != to) continue;
      list.push_back(piece);
      tokens.push_back(piece->token);
    }
    if (list.empty()) continue;
    to->submit(list);
    cancel_again(*to, tokens);
  }
  pieces.clear();
  together = std::move(list);
  their_tokens = std::move(tokens);
}

// Whoever gives a job up while its pieces are made, but not yet handed over, cancels what the
// transport does not know.
void Dispatcher::cancel_again(Transport& transport, std::span<const PieceToken> tokens) {
  for (const PieceToken token : tokens) {
    Job& job = *jobs_.at(token.index / Job::kSlots);
    if (!job.given_up.load(std::memory_order_relaxed)) continue;
    bool runs = false;
    {
      const std::lock_guard lock(job.lock);
      const PieceSlot& slot = job.slots[token.index % Job::kSlots];
      runs = job.given_up && slot.generation == token.generation;
    }
    if (runs) transport.cancel(token);
  }
}

// ---- pieces in ----

void Dispatcher::piece_done(PieceToken token, const Error* error) noexcept {
  Job* const job = jobs_.at(token.index / Job::kSlots);
  if (job == nullptr) return static_cast<void>(strays_.fetch_add(1));
  Handed next;
  bool over = false;
  {
    const std::lock_guard lock(job->lock);
    PieceSlot& slot = job->slots[token.index % Job::kSlots];
    if (slot.generation != token.generation || token.generation % 2 == 0) {
      strays_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    ++slot.generation;
    --job->in_flight;
    if (error == nullptr) {
      job->bytes_done += slot.piece.bytes;
      if (job->tasks == 1) job->batch->task(job->first_task).raise_bytes(job->bytes_done);
    } else {
      job->stopping = true;
      if (!job->error) job->error = *error;
    }
    next_piece(*job, next);
    over = job->in_flight == 0;
  }
  // Not under the lock, and not if another thread may end the job meanwhile: with a piece of this
  // job about to be handed over, nobody can.
  if (!next.empty()) hand_over(next);
  if (over) end_or_retry(*job);
}

// The job has no piece in flight, and gets none but from here: it is this thread's alone, but for
// give_up(), which only sets outcomes and flags.
void Dispatcher::end_or_retry(Job& job) {
  bool wanted = false;
  bool to_blame = false;
  {
    const std::lock_guard lock(job.lock);
    wanted = job.error.has_value() && !job.given_up;
    to_blame = job.error && job.transport != nullptr && blames(job.error->code(), wanted);
  }
  if (to_blame) {
    breakers_.failed(job.segment->id, job.selection.transport, env::monotonic_now());
  }
  if (wanted && (retry(job) || split(job))) return;
  end(job);
}

// A time-out says as much as an error: whoever did not end by then is not to be relied on.
bool Dispatcher::blames(Code code, bool wanted) {
  return code == Code::kDeadlineExceeded || (wanted && another_may_do(code));
}

// What a breaker keeps away is still better than to fail.
Result<Selection> Dispatcher::select_next(Job& job) {
  job.attempted.add(job.selection.transport);
  job.query.tried.add(job.selection.transport);
  auto selection = selector_->select(job.query);
  if (selection) return selection;
  job.query.tried = job.attempted;
  return selector_->select(job.query);
}

bool Dispatcher::retry(Job& job) {
  if (!another_may_do(job.error->code())) return false;
  auto selection = select_next(job);
  if (!selection || carrier(*selection) == nullptr) return false;
  telemetry_.failed_over(job.selection.transport);
  telemetry_.in_flight(label_of(job), -static_cast<std::int64_t>(job.tasks));
  {
    const std::lock_guard lock(job.lock);
    job.selection = *selection;
    if (!job.given_up) {
      job.error.reset();
      job.stopping = false;
    }
  }
  telemetry_.in_flight(label_of(job), job.tasks);
  Handed pieces;
  begin(job, pieces);
  hand_over(pieces);
  return true;
}

// One of several merged requests may be what is wrong: each goes again by itself, so that it fails
// alone.
bool Dispatcher::split(Job& job) {
  std::vector<Job*> parts;
  if (job.tasks == 1 || !make_parts(job, parts)) return false;
  std::vector<Job*> over;
  {
    // While give_up() waits: afterwards it finds the parts. What it has decided goes nowhere.
    const std::lock_guard lock(job.lock);
    const auto decided = [&](const Job* part) {
      return job.batch->task(part->first_task).outcome() != Outcome::kPending;
    };
    std::copy_if(parts.begin(), parts.end(), std::back_inserter(over), decided);
    std::erase_if(parts, decided);
    for (Job* const part : parts) enlist(*part);
    job.live = false;
  }
  telemetry_.in_flight(label_of(job), -static_cast<std::int64_t>(job.tasks));
  const std::uint32_t index = job.index;
  let_go(job);
  for (Job* const part : over) quiet(*part);
  launch(parts);
  give_back(index);
  return true;
}

bool Dispatcher::make_parts(const Job& job, std::vector<Job*>& parts) {
  for (std::uint32_t i = 0; i < job.tasks; ++i) {
    Job* const part = make_job();
    if (part == nullptr) break;
    parts.push_back(part);
  }
  if (parts.size() < job.tasks) {
    for (const Job* const part : parts) give_back(part->index);
    return false;
  }
  std::uint64_t at = 0;
  for (std::uint32_t i = 0; i < job.tasks; ++i) {
    fill_part(job, job.first_task + i, at, *parts[i]);
    at += parts[i]->length;
  }
  return true;
}

// A part whose task has its outcome: the end of it.
void Dispatcher::quiet(Job& part) {
  const std::uint32_t index = part.index;
  const std::uint32_t task = part.first_task;
  const std::shared_ptr<SubmitGroup> group = std::move(part.group);
  {
    const BatchRef batch = part.batch.another();
    let_go(part);
    batch->task(task).set_quiescent();
    if (group) group->end(1, false);
    batch->end_work(0, 1);
  }
  give_back(index);
}

void Dispatcher::fill_part(const Job& job, std::uint32_t task, std::uint64_t at, Job& part) {
  part.batch = job.batch.another();
  part.first_task = task;
  part.tasks = 1;
  part.opcode = job.opcode;
  part.local = job.local + at;
  part.target_offset = job.target_offset + at;
  part.near = job.near != nullptr ? job.near + at : nullptr;
  part.mapping = job.mapping;
  part.remote = job.remote;
  part.length = job.batch->task(task).record.length;
  part.deadline = job.deadline;
  part.trace_id = job.trace_id;
  part.query = job.query;
  part.query.tried = {};
  part.query.bytes = part.length;
  part.selection = job.selection;
  part.segment = job.segment;
  part.local_pin = job.local_pin.another();
  part.target_pin = job.target_pin.another();
  part.group = job.group;
}

// ---- the end of a job ----

void Dispatcher::end(Job& job) {
  const qos::Label label = label_of(job);
  const std::int64_t now = env::monotonic_now();
  {
    const std::lock_guard lock(job.lock);
    job.live = false;  // give_up() comes too late from here on
  }
  const std::optional<Error> error = std::move(job.error);
  const Outcome outcome = error ? Outcome::kFailed : Outcome::kCompleted;
  if (!error) breakers_.worked(job.segment->id, job.selection.transport);
  const std::uint32_t index = job.index;
  const std::uint32_t tasks = job.tasks;
  const std::uint32_t first = job.first_task;
  const std::shared_ptr<SubmitGroup> group = std::move(job.group);
  {
    const BatchRef batch = job.batch.another();
    let_go(job);  // unpins: from here on the memory is the caller's
    std::uint32_t decided = 0;
    std::uint64_t bytes = 0;  // of those that somebody still wanted
    for (std::uint32_t i = 0; i < tasks; ++i) {
      Task& task = batch->task(first + i);
      if (!error) task.raise_bytes(task.record.length);
      task.record.ended.store(now, std::memory_order_relaxed);
      if (!task.finish(outcome, error ? &*error : nullptr)) continue;
      ++decided;
      bytes += task.record.length;
    }
    if (!error) {
      telemetry_.completed(label, decided, bytes);
      batch->count_completed(decided);
    } else if (decided > 0) {
      telemetry_.failed(label, Outcome::kFailed, decided);
    }
    const TaskRecord& record = batch->task(first).record;
    telemetry_.took(label, record.started.load(std::memory_order_relaxed) - record.submitted,
                    now - record.submitted);
    telemetry_.in_flight(label, -static_cast<std::int64_t>(tasks));
    if (group) group->end(tasks, !error && decided == tasks);
    batch->end_work(decided, tasks);
  }
  give_back(index);
}

// Everything that it holds; its place is still taken.
void Dispatcher::let_go(Job& job) {
  std::uint64_t quarantined = 0;
  {
    const std::lock_guard lock(job.lock);
    job.live = false;
    ++job.generation;
    quarantined = std::exchange(job.quarantined, 0);
  }
  quarantined_.fetch_sub(quarantined);
  job.local_pin.reset();
  job.target_pin.reset();
  job.remote.reset();
  job.segment.reset();
  job.group.reset();
  job.batch.reset();
}

// The very last of a job: drain() ends when there are none.
void Dispatcher::give_back(std::uint32_t job) {
  jobs_.give(job);
  if (draining_.load() && jobs_.in_use() == 0) {
    const std::lock_guard lock(timer_mutex_);
    drained_.notify_all();
  }
}

}  // namespace larder::transfer
