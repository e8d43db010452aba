// SPDX-License-Identifier: Apache-2.0
#include "transfer/submitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "env/clock.h"

namespace larder::transfer {
namespace {

// Copies that the submitting thread makes itself: each up to the first limit, or all of a submit up
// to the second (some 100 us). A hand-over to another thread costs 2 to 30 us.
constexpr std::uint64_t kCopyNowBytes = 64 << 10;
constexpr std::uint64_t kCopyNowTotal = 1 << 20;
constexpr std::uint64_t kCopyNowMax = 4 << 20;  // of small ones in one submit
constexpr std::uint64_t kMergedBytesMax = 64 << 20;

bool is_copy(TransportType type) {
  return type == TransportType::kMemcpy || type == TransportType::kShm;
}

std::int64_t deadline_of(const TransferRequest& request) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(request.deadline.time_since_epoch())
      .count();
}

tl::unexpected<Error> invalid(std::string text) {
  return fail(Code::kInvalidArgument, std::move(text));
}

// What needs nothing but the request itself.
Result<void> check(const TransferRequest& request, std::int64_t now) {
  if (static_cast<std::uint8_t>(request.opcode) > 1) return invalid("the opcode is unknown");
  if (static_cast<std::size_t>(request.intent) >= kIntentCount) {
    return invalid("the intent is unknown");
  }
  if (static_cast<std::uint8_t>(request.traffic_class) > 2) return invalid("the class is unknown");
  if (request.length == 0 || request.length > kTransferBytesMax) {
    return invalid(fmt::format("a length of {}; 1 to {} bytes are allowed", request.length,
                               kTransferBytesMax));
  }
  if (request.target_offset + request.length < request.target_offset) {
    return invalid(fmt::format("target offset {} + length {} goes beyond 2^64",
                               request.target_offset, request.length));
  }
  if (request.deadline != std::chrono::steady_clock::time_point() && deadline_of(request) <= now) {
    return fail(Code::kDeadlineExceeded, "the deadline has passed already; nothing was moved");
  }
  return {};
}

}  // namespace

// One submit: what its requests share is looked up once.
struct Submitter::Call {
  Call(const BatchRef& of, std::span<const TransferRequest> list) : batch(of), requests(list) {}

  const BatchRef& batch;
  std::span<const TransferRequest> requests;
  std::int64_t now = 0;
  std::vector<Planned> planned;
  std::deque<std::shared_ptr<const Segment>> segments;  // entries do not move
  std::deque<std::shared_ptr<const RemoteDescription>> remotes;
  std::vector<RangePin> pins;  // of ranges that are copied from or to now
  std::vector<Job*> jobs;
  std::shared_ptr<SubmitGroup> group;
  // Of the last request that was planned.
  const TransferRequest* last = nullptr;
  const Planned* last_planned = nullptr;
  const MemoryTable::Reader* reader = nullptr;
};

Result<std::vector<SubmitResult>> Submitter::submit(const BatchRef& batch,
                                                    std::span<const TransferRequest> requests,
                                                    std::function<void()> then) {
  if (parts_.dispatcher.quarantined_bytes() > quarantine_bytes_max_) {
    return fail(Code::kBackpressure,
                "submit: too much memory is lent to requests that were given up and are not yet "
                "quiescent (quarantine_bytes_max); retry later");
  }
  thread_local std::vector<Planned> planned;
  Call call{batch, requests};
  call.now = env::monotonic_now();
  call.planned = std::move(planned);
  call.planned.clear();
  call.planned.reserve(requests.size());
  std::vector<SubmitResult> results(requests.size());
  {
    const std::lock_guard lock(batch->submit_mutex());
    plan_all(call, results);
    const auto accepted = static_cast<std::uint32_t>(call.planned.size());
    if (then && accepted > 0) {
      call.group = std::make_shared<SubmitGroup>(accepted, std::move(then));
    }
    for (Planned& item : call.planned) accept(call, item);
    batch->begin_work(accepted, accepted);
    batch->publish_tasks(batch->tasks() + accepted);
  }
  // Without the lock: what ends here may run the batch's callback, which may submit again.
  start_jobs(call);
  copy_small(call);
  call.planned.clear();
  planned = std::move(call.planned);
  return results;
}

void Submitter::plan_all(Call& call, std::vector<SubmitResult>& results) const {
  const MemoryTable::Reader reader(parts_.memory);
  call.reader = &reader;
  const std::uint32_t before = call.batch->tasks();
  for (std::size_t i = 0; i < call.requests.size(); ++i) {
    const TransferRequest& request = call.requests[i];
    Planned item;
    item.request = i;
    item.task = before + static_cast<std::uint32_t>(call.planned.size());
    const Result<void> fine =
        item.task < call.batch->capacity()
            ? plan(call, request, item)
            : fail(Code::kExhausted, "the batch has no room for further tasks");
    if (!fine) {
      results[i] = {fine.error().code(), 0, fine.error().message()};
      parts_.telemetry.failed({.intent = request.intent, .opcode = request.opcode},
                              Outcome::kFailed, 1);
      continue;
    }
    results[i].task = item.task;
    call.planned.push_back(std::move(item));
    call.last = &request;
    call.last_planned = &call.planned.back();
  }
  choose_copies(call);
  call.reader = nullptr;
}

// ---- one request ----

Result<void> Submitter::plan(Call& call, const TransferRequest& request, Planned& out) const {
  LARDER_TRY(check(request, call.now));
  out.deadline = deadline_of(request);
  out.local = call.reader->find(request.local, request.length,
                                call.last != nullptr ? call.last_planned->local : nullptr);
  if (out.local == nullptr) {
    return invalid(fmt::format("local memory {} + {} bytes is not inside one registered range",
                               request.local, request.length));
  }
  LARDER_TRY(find_target(call, request, out));
  return select(call, request, out);
}

Result<void> Submitter::find_target(Call& call, const TransferRequest& request,
                                    Planned& out) const {
  if (call.last != nullptr && call.last->target == request.target) {
    out.segment = call.last_planned->segment;
  } else {
    auto segment = parts_.segments.find(request.target);
    if (segment == nullptr) {
      return fail(Code::kNotFound, "the target segment is not open (any more)");
    }
    call.segments.push_back(std::move(segment));
    out.segment = &call.segments.back();
  }
  const Segment& segment = **out.segment;
  out.query.segment_type = segment.type;
  out.query.same_process = segment.same_process;
  out.query.same_machine = segment.same_machine;
  if (segment.type == SegmentType::kFile) return {};  // its end is found when it is read
  if (!segment.same_process) return find_remote(call, request, out);
  auto* const there = reinterpret_cast<std::byte*>(request.target_offset);
  out.target = call.reader->find(there, request.length,
                                 call.last != nullptr ? call.last_planned->target : nullptr);
  if (out.target == nullptr) {
    return invalid(fmt::format("target {} + {} bytes is not inside one registered range",
                               fmt::ptr(there), request.length));
  }
  out.near = there;
  out.query.remote_memory = out.target->location.type;
  return {};
}

Result<void> Submitter::find_remote(Call& call, const TransferRequest& request, Planned& out) {
  Peer& peer = *(*out.segment)->peer;
  const bool same = call.last != nullptr && out.segment == call.last_planned->segment;
  if (same) {
    out.remote = call.last_planned->remote;
  } else {
    call.remotes.push_back(peer.current());
    out.remote = &call.remotes.back();
  }
  out.buffer =
      (*out.remote)
          ->find(request.target_offset, request.length, same ? call.last_planned->buffer : nullptr);
  if (out.buffer == nullptr) {
    call.remotes.push_back(peer.renewed());
    out.remote = &call.remotes.back();
    out.buffer = (*out.remote)->find(request.target_offset, request.length);
  }
  if (out.buffer == nullptr) {
    return fail(Code::kNotFound,
                fmt::format("{} has no registered range that holds {:#x} + {} bytes",
                            (*out.segment)->name, request.target_offset, request.length));
  }
  out.query.remote_memory = out.buffer->location.type;
  out.mapping = out.buffer->mapping.get();
  if (out.mapping != nullptr) {
    out.near = out.mapping->data() + (request.target_offset - out.buffer->address);
  } else {
    // What is not mapped is as far away as another machine, for the transports that copy.
    out.query.same_machine = false;
  }
  return {};
}

Result<void> Submitter::select(Call& call, const TransferRequest& request, Planned& out) const {
  Query& query = out.query;
  query.local_memory = out.local->location.type;
  query.bytes = request.length;
  query.intent = request.intent;
  query.traffic_class = request.traffic_class == TrafficClass::kFromIntent
                            ? class_of(request.intent)
                            : request.traffic_class;
  query.policy = request.policy;
  query.hint = request.transport_hint;
  if (call.last != nullptr) {
    const Query& last = call.last_planned->query;
    const bool alike = out.segment == call.last_planned->segment &&
                       last.local_memory == query.local_memory &&
                       last.same_machine == query.same_machine &&
                       last.remote_memory == query.remote_memory && last.bytes == query.bytes &&
                       last.intent == query.intent && last.traffic_class == query.traffic_class &&
                       last.hint == query.hint && last.policy == query.policy;
    if (alike) {
      query.tried = last.tried;
      out.selection = call.last_planned->selection;
      return {};
    }
  }
  query.tried = parts_.breakers.open_for((*out.segment)->id, call.now);
  auto selection = parts_.selector.select(query);
  if (!selection) {
    const bool later = selection.error().code() == Code::kUnsupported && unmapped(out);
    return fail(later ? not_mapped_now(out) : selection.error());
  }
  out.selection = *selection;
  if (parts_.dispatcher.carrier(out.selection) == nullptr) {
    return fail(
        Code::kUnsupported,
        fmt::format("{} memory has no way there: {} takes host memory only, and has no "
                    "staging",
                    memory_type_name(query.local_memory), transport_name(out.selection.transport)));
  }
  return {};
}

// Memory that this engine would map, and cannot, for example because its owner has just died: what
// no transport can do now, one could do later.
bool Submitter::unmapped(const Planned& item) const {
  return item.buffer != nullptr && item.buffer->mapping == nullptr && item.buffer->inode != 0 &&
         (*item.segment)->same_machine &&
         parts_.dispatcher.transport(TransportType::kShm) != nullptr;
}

Error Submitter::not_mapped_now(const Planned& item) {
  return {Code::kUnavailable, (*item.segment)->name +
                                  ": its memory is not mapped at the moment, and "
                                  "no transport is left that does without"};
}

void Submitter::accept(Call& call, Planned& planned) const {
  const TransferRequest& request = call.requests[planned.request];
  TaskRecord& record = call.batch->task(planned.task).record;
  record.opcode = request.opcode;
  record.intent = request.intent;
  record.traffic_class = planned.query.traffic_class;
  record.local_memory = planned.query.local_memory;
  record.staged = planned.selection.staged;
  record.remote_host = !planned.query.same_machine;
  record.rule = planned.selection.rule;
  record.length = request.length;
  record.trace_id = request.trace_id;
  record.deadline = planned.deadline;
  record.submitted = call.now;
}

// ---- copies by this thread ----

// Under the reader, so that the ranges can be pinned.
void Submitter::choose_copies(Call& call) {
  std::uint64_t total = 0;
  for (const Planned& item : call.planned) {
    if (is_copy(item.selection.transport)) total += item.query.bytes;
  }
  std::uint64_t chosen = 0;
  const MemoryRangeRecord* last_local = nullptr;
  const MemoryRangeRecord* last_target = nullptr;
  for (Planned& item : call.planned) {
    const bool small = item.query.bytes <= kCopyNowBytes && chosen < kCopyNowMax;
    item.copy_now = is_copy(item.selection.transport) && !item.selection.staged &&
                    (small || total <= kCopyNowTotal);
    if (!item.copy_now) {
      item.local_pin = RangePin(*item.local);
      if (item.target != nullptr) item.target_pin = RangePin(*item.target);
      continue;
    }
    chosen += item.query.bytes;
    if (item.local != last_local) call.pins.emplace_back(*item.local);
    if (item.target != nullptr && item.target != last_target) call.pins.emplace_back(*item.target);
    last_local = item.local;
    last_target = item.target;
  }
}

void Submitter::copy_small(Call& call) const {
  std::uint32_t ended = 0;
  std::uint32_t completed = 0;
  qos::Label label;
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  const auto count = [&] {
    if (requests > 0) parts_.telemetry.completed(label, requests, bytes);
    requests = bytes = 0;
  };
  for (Planned& item : call.planned) {
    if (!item.copy_now) continue;
    const TransferRequest& request = call.requests[item.request];
    Task& task = call.batch->task(item.task);
    const qos::Label now{item.selection.transport, item.query.traffic_class, request.intent,
                         request.opcode};
    if (!(now == label)) count();
    label = now;
    const auto copied = CopyTransport::copy(request.opcode, static_cast<std::byte*>(request.local),
                                            item.near, item.mapping, request.length);
    task.set_transport(item.selection.transport);
    if (copied) {
      task.raise_bytes(request.length);
      requests += 1;
      bytes += request.length;
      ++completed;
    } else {
      parts_.telemetry.failed(label, Outcome::kFailed, 1);
      item.failure = std::make_unique<Error>(copied.error());
    }
    ++ended;
  }
  if (ended == 0) return;
  count();
  parts_.telemetry.took(label, 0, env::monotonic_now() - call.now);
  call.pins.clear();
  end_copies(call);
  call.batch->count_completed(completed);
  if (call.group) call.group->end(ended, ended == completed);
  call.batch->end_work(ended, ended);
}

// Once nothing pins their memory: whoever sees one that is quiescent may unregister it.
void Submitter::end_copies(Call& call) {
  for (const Planned& item : call.planned) {
    if (!item.copy_now) continue;
    const Outcome outcome = item.failure ? Outcome::kFailed : Outcome::kCompleted;
    call.batch->task(item.task).end(outcome, item.failure.get());
  }
}

// ---- jobs ----

void Submitter::start_jobs(Call& call) const {
  thread_local std::vector<MergeItem> items;
  std::size_t i = 0;
  while (i < call.planned.size()) {
    if (call.planned[i].copy_now) {
      ++i;
      continue;
    }
    const std::size_t first = i;
    items.clear();
    for (; i < call.planned.size() && !call.planned[i].copy_now; ++i) {
      items.push_back(merge_item(call, call.planned[i]));
    }
    MergedRuns runs(items, kMergedBytesMax);
    while (const auto run = runs.next()) {
      if (Job* const job = make_job(call, call.planned[first + run->first], *run)) {
        call.jobs.push_back(job);
      } else {
        refuse_start(call, first + run->first, run->count());
      }
    }
  }
  // Of merged requests the first one's pins hold for all. No others may outlive the transfer.
  for (Planned& item : call.planned) {
    item.local_pin.reset();
    item.target_pin.reset();
  }
  if (!call.jobs.empty()) parts_.dispatcher.start(call.jobs);
}

MergeItem Submitter::merge_item(const Call& call, const Planned& item) {
  const TransferRequest& request = call.requests[item.request];
  MergeItem out;
  out.opcode = request.opcode;
  out.staged = item.selection.staged;
  out.intent = request.intent;
  out.traffic_class = item.query.traffic_class;
  out.hint = request.transport_hint;
  out.transport = item.selection.transport;
  out.rule = item.selection.rule;
  out.tenant = request.tenant;
  out.deadline = item.deadline;
  out.trace_id = request.trace_id;
  out.target = request.target;
  out.local_buffer = reinterpret_cast<std::uintptr_t>(item.local);
  out.target_buffer = item.target != nullptr ? reinterpret_cast<std::uintptr_t>(item.target)
                                             : reinterpret_cast<std::uintptr_t>(item.buffer);
  out.local_address = reinterpret_cast<std::uintptr_t>(request.local);
  out.target_offset = request.target_offset;
  out.length = request.length;
  return out;
}

Job* Submitter::make_job(Call& call, Planned& item, const MergedRun& run) const {
  Job* const job = parts_.dispatcher.make_job();
  if (job == nullptr) return nullptr;
  const TransferRequest& request = call.requests[item.request];
  job->batch = call.batch.another();
  job->first_task = item.task;
  job->tasks = static_cast<std::uint32_t>(run.count());
  job->opcode = request.opcode;
  job->local = static_cast<std::byte*>(request.local);
  job->target_offset = request.target_offset;
  job->near = item.near;
  job->mapping = item.mapping;
  if (item.remote != nullptr) job->remote = *item.remote;
  job->length = run.bytes;
  job->deadline = item.deadline;
  job->trace_id = request.trace_id;
  job->query = item.query;
  // The rule's own name outlives the request's.
  if (!request.policy.empty()) job->query.policy = item.selection.rule_name;
  job->selection = item.selection;
  job->segment = *item.segment;
  job->local_pin = std::move(item.local_pin);
  job->target_pin = std::move(item.target_pin);
  job->group = call.group;
  for (std::uint32_t i = 0; i < job->tasks; ++i) {
    call.batch->task(job->first_task + i)
        .record.merged.store(job->tasks, std::memory_order_relaxed);
  }
  return job;
}

// No place for a further job: the tasks exist already, and fail.
void Submitter::refuse_start(Call& call, std::size_t first, std::size_t count) const {
  const Error error(Code::kBackpressure, "too many transfers are in flight; retry later");
  for (std::size_t i = first; i < first + count; ++i) {
    call.planned[i].local_pin.reset();
    call.planned[i].target_pin.reset();
    call.batch->task(call.planned[i].task).end(Outcome::kFailed, &error);
  }
  const auto tasks = static_cast<std::uint32_t>(count);
  const Planned& item = call.planned[first];
  parts_.telemetry.failed({item.selection.transport, item.query.traffic_class,
                           call.requests[item.request].intent, call.requests[item.request].opcode},
                          Outcome::kFailed, count);
  if (call.group) call.group->end(tasks, false);
  call.batch->end_work(tasks, tasks);
}

}  // namespace larder::transfer
