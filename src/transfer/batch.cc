// SPDX-License-Identifier: Apache-2.0
#include "transfer/batch.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <string>

namespace larder::transfer {
namespace {

constexpr std::uint32_t kOutcomeMask = 0xff;
constexpr std::uint32_t kQuiescent = 1U << 8;
constexpr std::uint32_t kClaimed = 1U << 9;  // somebody is writing the outcome
// A batch keeps its task array for the next user up to this many tasks.
constexpr std::uint32_t kTasksKept = 1024;

constexpr std::uint64_t kReference = 1;
constexpr std::uint64_t kGeneration = 1ULL << 32;

std::uint32_t references(std::uint64_t life) {
  return static_cast<std::uint32_t>(life);
}
std::uint32_t generation(std::uint64_t life) {
  return static_cast<std::uint32_t>(life >> 32);
}

}  // namespace

// ---- tasks ----

Outcome Task::outcome() const noexcept {
  return static_cast<Outcome>(state_.load(std::memory_order_acquire) & kOutcomeMask);
}

bool Task::quiescent() const noexcept {
  return (state_.load(std::memory_order_acquire) & kQuiescent) != 0;
}

bool Task::set_outcome(Outcome outcome, std::unique_ptr<Error>&& error) noexcept {
  if ((state_.fetch_or(kClaimed, std::memory_order_acq_rel) & kClaimed) != 0) return false;
  error_ = std::move(error);
  state_.fetch_or(static_cast<std::uint32_t>(outcome), std::memory_order_release);
  return true;
}

void Task::end(Outcome outcome, const Error* error) {
  if (error != nullptr) error_ = std::make_unique<Error>(*error);
  state_.store(kClaimed | kQuiescent | static_cast<std::uint32_t>(outcome),
               std::memory_order_release);
}

bool Task::finish(Outcome outcome, const Error* error) {
  if ((state_.fetch_or(kClaimed, std::memory_order_acq_rel) & kClaimed) != 0) {
    set_quiescent();
    return false;
  }
  if (error != nullptr) error_ = std::make_unique<Error>(*error);
  state_.fetch_or(kQuiescent | static_cast<std::uint32_t>(outcome), std::memory_order_release);
  return true;
}

void Task::set_quiescent() noexcept {
  state_.fetch_or(kQuiescent, std::memory_order_release);
}

void Task::raise_bytes(std::uint64_t bytes) noexcept {
  std::uint64_t before = bytes_.load(std::memory_order_relaxed);
  while (before < bytes &&
         !bytes_.compare_exchange_weak(before, bytes, std::memory_order_relaxed)) {
  }
}

TaskStatus Task::status() const {
  const std::uint32_t state = state_.load(std::memory_order_acquire);
  TaskStatus status;
  status.outcome = static_cast<Outcome>(state & kOutcomeMask);
  status.quiescent = (state & kQuiescent) != 0;
  status.bytes = bytes_.load(std::memory_order_relaxed);
  status.transport = static_cast<TransportType>(transport_.load(std::memory_order_relaxed));
  if (status.outcome != Outcome::kPending && error_ != nullptr) {
    status.code = error_->code();
    status.message = error_->message();
  }
  return status;
}

void Task::reset() noexcept {
  state_.store(0, std::memory_order_relaxed);
  transport_.store(0, std::memory_order_relaxed);
  bytes_.store(0, std::memory_order_relaxed);
  error_.reset();
  record.started.store(0, std::memory_order_relaxed);
  record.ended.store(0, std::memory_order_relaxed);
  record.pieces.store(0, std::memory_order_relaxed);
  record.merged.store(1, std::memory_order_relaxed);
  record.attempts.store(0, std::memory_order_relaxed);
  record.job.store(0, std::memory_order_relaxed);
}

// ---- work and idleness ----

void Batch::begin_work(std::uint32_t outcomes, std::uint32_t quiets) noexcept {
  work_.fetch_add((std::uint64_t{outcomes} << 32) + quiets, std::memory_order_relaxed);
}

void Batch::end_work(std::uint32_t outcomes, std::uint32_t quiets) {
  const std::uint64_t ended = (std::uint64_t{outcomes} << 32) + quiets;
  // Sequentially consistent, as is a listener's entry: one of the two sees the other.
  if (work_.fetch_sub(ended) != ended) return;
  if (listeners_.load() != 0 || dozers_.load() != 0) announce_idle();
}

namespace {

void raise_event(int fd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(fd, &one, sizeof(one));
}

}  // namespace

void Batch::announce_idle() {
  std::shared_ptr<std::function<void(BatchId)>> callback;
  {
    const std::lock_guard lock(idle_mutex_);
    idle_.notify_all();
    callback = callback_;
    if (event_.valid()) raise_event(event_.get());
    for (const int event : wake_by_) raise_event(event);
  }
  if (callback) (*callback)(id_);
}

BatchStatus Batch::status() const noexcept {
  BatchStatus status;
  // Work first: what it says is over has been counted as completed by then.
  const std::uint64_t work = work_.load(std::memory_order_acquire);
  status.tasks = tasks();
  status.pending = static_cast<std::size_t>(work >> 32);
  status.unquiet = static_cast<std::size_t>(work & 0xffffffff);
  status.completed = completed_.load(std::memory_order_relaxed);
  return status;
}

bool Batch::wait_idle(std::int64_t deadline) {
  if (idle()) return true;
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline)};
  listeners_.fetch_add(1);
  bool over = false;
  {
    std::unique_lock lock(idle_mutex_);
    over = idle_.wait_until(lock, until, [this] { return work_.load() == 0; });
  }
  listeners_.fetch_sub(1);
  return over;
}

bool Batch::wake_by(int event) {
  const std::lock_guard lock(idle_mutex_);
  dozers_.fetch_add(1);
  if (work_.load() == 0) {
    dozers_.fetch_sub(1);
    return false;
  }
  wake_by_.push_back(event);
  return true;
}

void Batch::wake_no_more(int event) {
  const std::lock_guard lock(idle_mutex_);
  dozers_.fetch_sub(1);
  wake_by_.erase(std::find(wake_by_.begin(), wake_by_.end(), event));
}

void Batch::subscribe(std::function<void(BatchId)> callback) {
  const std::lock_guard lock(idle_mutex_);
  if (callback_ == nullptr) listeners_.fetch_add(1);
  callback_ = std::make_shared<std::function<void(BatchId)>>(std::move(callback));
}

Result<int> Batch::event_fd() {
  const std::lock_guard lock(idle_mutex_);
  if (!event_.valid()) {
    event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event_.valid()) {
      return fail(Code::kExhausted, "event_fd: no file descriptor left; raise ulimit -n");
    }
    listeners_.fetch_add(1);
  }
  return event_.get();
}

void Batch::reset() noexcept {
  const std::uint32_t used = count_.load(std::memory_order_relaxed);
  if (allocated_ > kTasksKept) {
    tasks_.reset();
    allocated_ = 0;
  } else {
    for (std::uint32_t i = 0; i < used; ++i) tasks_[i].reset();
  }
  count_.store(0, std::memory_order_relaxed);
  completed_.store(0, std::memory_order_relaxed);
  listeners_.store(0, std::memory_order_relaxed);
  callback_.reset();
  event_.reset();
}

// ---- references ----

BatchRef::BatchRef(BatchRef&& other) noexcept : table_(other.table_), batch_(other.batch_) {
  other.batch_ = nullptr;
}

BatchRef& BatchRef::operator=(BatchRef&& other) noexcept {
  if (this != &other) {
    reset();
    table_ = other.table_;
    batch_ = std::exchange(other.batch_, nullptr);
  }
  return *this;
}

BatchRef BatchRef::another() const noexcept {
  batch_->life_.fetch_add(kReference, std::memory_order_relaxed);
  return {*table_, *batch_};
}

void BatchRef::reset() noexcept {
  if (batch_ != nullptr) table_->release(*batch_);
  batch_ = nullptr;
}

// ---- the table ----

BatchTable::BatchTable(std::size_t batches_max)
    : batches_max_(batches_max), chunks_((batches_max + kChunk - 1) / kChunk) {}

BatchTable::~BatchTable() {
  for (const auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
}

Batch* BatchTable::place(std::uint32_t index) const noexcept {
  if (index / kChunk >= chunks_.size()) return nullptr;
  Batch* const chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
  return chunk != nullptr ? &chunk[index % kChunk] : nullptr;
}

Result<BatchId> BatchTable::allocate(std::size_t tasks_max) {
  if (tasks_max == 0 || tasks_max > kBatchTasksMax) {
    return fail(Code::kInvalidArgument, "allocate batch: " + std::to_string(tasks_max) +
                                            " tasks; 1 to " + std::to_string(kBatchTasksMax) +
                                            " are allowed");
  }
  std::uint32_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else if (used_ < batches_max_) {
      index = used_++;
      if (place(index) == nullptr) {
        chunks_[index / kChunk].store(new Batch[kChunk], std::memory_order_release);
      }
    } else {
      return fail(Code::kExhausted, "allocate batch: " + std::to_string(batches_max_) +
                                        " are in use (batches_max); free those that are done");
    }
  }
  Batch& batch = *place(index);
  const auto wanted = static_cast<std::uint32_t>(tasks_max);
  if (batch.allocated_ < wanted) {
    batch.tasks_ = std::make_unique<Task[]>(wanted);
    batch.allocated_ = wanted;
  }
  batch.capacity_ = wanted;
  batch.place_ = index;
  const std::uint64_t life = batch.life_.load(std::memory_order_relaxed);
  batch.id_ = {(std::uint64_t{generation(life)} << 32) | (index + 1)};
  live_.fetch_add(1, std::memory_order_relaxed);
  batch.life_.store(life + kReference, std::memory_order_release);
  return batch.id_;
}

BatchRef BatchTable::find(BatchId id) noexcept {
  Batch* const batch = place(static_cast<std::uint32_t>(id.value) - 1);
  if (batch == nullptr) return {};
  std::uint64_t life = batch->life_.load(std::memory_order_relaxed);
  do {
    if (generation(life) != static_cast<std::uint32_t>(id.value >> 32) || references(life) == 0) {
      return {};
    }
  } while (!batch->life_.compare_exchange_weak(life, life + kReference, std::memory_order_acq_rel,
                                               std::memory_order_relaxed));
  return {*this, *batch};
}

// The new generation and the end of the id's reference are one step; the caller's reference stays.
Result<BatchRef> BatchTable::free(BatchId id) {
  BatchRef reference = find(id);
  if (!reference) return fail(Code::kNotFound, "free batch: no such batch (any more)");
  std::uint64_t life = reference->life_.load(std::memory_order_relaxed);
  do {
    if (generation(life) != static_cast<std::uint32_t>(id.value >> 32)) {
      return fail(Code::kNotFound, "free batch: it was freed already");
    }
  } while (!reference->life_.compare_exchange_weak(
      life, life + kGeneration - kReference, std::memory_order_acq_rel, std::memory_order_relaxed));
  live_.fetch_sub(1, std::memory_order_relaxed);
  kept_.fetch_add(1, std::memory_order_relaxed);
  return reference;
}

void BatchTable::release(Batch& batch) noexcept {
  if (references(batch.life_.fetch_sub(kReference, std::memory_order_acq_rel)) != 1) return;
  batch.reset();
  kept_.fetch_sub(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  free_.push_back(batch.place_);
}

std::vector<BatchRef> BatchTable::all() {
  std::uint32_t used = 0;
  {
    const std::lock_guard lock(mutex_);
    used = used_;
  }
  std::vector<BatchRef> batches;
  for (std::uint32_t i = 0; i < used; ++i) {
    Batch* const batch = place(i);
    std::uint64_t life = batch->life_.load(std::memory_order_relaxed);
    while (references(life) != 0 && !batch->life_.compare_exchange_weak(life, life + kReference)) {
    }
    if (references(life) != 0) batches.emplace_back(*this, *batch);
  }
  return batches;
}

}  // namespace larder::transfer
