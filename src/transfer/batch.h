// SPDX-License-Identifier: Apache-2.0
// Batches and their tasks. A batch's place is reused, never freed, and an id carries the place's
// generation: so a poll needs no lock, and a stale id is recognized.
//
// A batch is kept by references: one of its id (given up by free_batch) and one of each use.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "env/fd.h"
#include "larder/transfer.h"

namespace larder::transfer {

// What explain() tells; written before the task is started, or by whoever has its job.
struct TaskRecord {
  Opcode opcode = Opcode::kRead;
  Intent intent = Intent::kUnknown;
  TrafficClass traffic_class = TrafficClass::kLow;
  MemoryType local_memory = MemoryType::kUnknown;
  bool staged = false;
  bool remote_host = false;  // the target is another machine's memory
  std::uint16_t rule = 0;    // of the policy
  std::uint64_t length = 0;
  std::uint64_t trace_id = 0;
  std::int64_t deadline = 0;
  std::int64_t submitted = 0;
  std::atomic<std::int64_t> started{0};  // first piece handed to a transport
  std::atomic<std::int64_t> ended{0};
  std::atomic<std::uint32_t> pieces{0};
  std::atomic<std::uint32_t> merged{1};    // requests that travelled together
  std::atomic<std::uint32_t> attempts{0};  // transports that it was given to
  // The job that moves it (jobs.h): index and generation, 0 when it never had one.
  std::atomic<std::uint64_t> job{0};
};

class Task {
 public:
  TaskRecord record;

  Outcome outcome() const noexcept;
  bool quiescent() const noexcept;
  // The first outcome stays. True when it was this one.
  bool set_outcome(Outcome outcome, std::unique_ptr<Error>&& error) noexcept;
  void set_quiescent() noexcept;
  // The outcome, unless there is one, and quiescence at one stroke. True when it was this one.
  bool finish(Outcome outcome, const Error* error);
  // Both at once, for a task that nobody else knows of.
  void end(Outcome outcome, const Error* error);
  void set_transport(TransportType type) noexcept {
    transport_.store(static_cast<std::uint8_t>(type), std::memory_order_relaxed);
  }
  // Bytes that have arrived; less than before changes nothing, as when a retry begins again.
  void raise_bytes(std::uint64_t bytes) noexcept;
  TaskStatus status() const;
  void reset() noexcept;

 private:
  // Outcome in the low byte, then kQuiescent and kClaimed.
  std::atomic<std::uint32_t> state_{0};
  std::atomic<std::uint8_t> transport_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::unique_ptr<Error> error_;  // written once, before the outcome is
};

class BatchTable;

class Batch {
 public:
  BatchId id() const noexcept { return id_; }
  Task& task(std::uint32_t index) noexcept { return tasks_[index]; }
  // Those that a submit has published.
  std::uint32_t tasks() const noexcept { return count_.load(std::memory_order_acquire); }
  std::uint32_t capacity() const noexcept { return capacity_; }
  // Held by a submit: tasks are appended by one at a time.
  std::mutex& submit_mutex() noexcept { return submit_mutex_; }
  void publish_tasks(std::uint32_t count) noexcept {
    count_.store(count, std::memory_order_release);
  }

  // Work that keeps the batch from being idle: each task counts once until its outcome and once
  // until it is quiescent. end_work() by the last makes the batch idle: waiters, callback and
  // descriptor are told.
  void begin_work(std::uint32_t outcomes, std::uint32_t quiets) noexcept;
  void end_work(std::uint32_t outcomes, std::uint32_t quiets);
  void count_completed(std::uint32_t tasks) noexcept {
    completed_.fetch_add(tasks, std::memory_order_relaxed);
  }
  BatchStatus status() const noexcept;
  bool idle() const noexcept { return work_.load(std::memory_order_acquire) == 0; }
  // False when the deadline (monotonic ns) passed first.
  bool wait_idle(std::int64_t deadline);
  // A thread that sleeps elsewhere has this eventfd written to when the batch is idle. False: it is
  // idle already, and nothing was noted.
  bool wake_by(int event);
  void wake_no_more(int event);
  // A callback or a descriptor waits for it (or a thread that sleeps).
  bool has_listeners() const noexcept { return listeners_.load(std::memory_order_relaxed) > 0; }
  void subscribe(std::function<void(BatchId)> callback);
  Result<int> event_fd();

 private:
  friend class BatchTable;
  friend class BatchRef;
  void announce_idle();
  void reset() noexcept;

  BatchId id_;
  std::uint32_t place_ = 0;
  // Generation in the high half; references in the low one.
  std::atomic<std::uint64_t> life_{0};
  std::uint32_t capacity_ = 0;
  std::unique_ptr<Task[]> tasks_;
  std::uint32_t allocated_ = 0;
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> completed_{0};
  // Outcomes to come in the high half, quiets to come in the low one.
  std::atomic<std::uint64_t> work_{0};
  std::mutex submit_mutex_;
  std::atomic<std::uint32_t> listeners_{0};  // waiters, a callback, a descriptor
  std::atomic<std::uint32_t> dozers_{0};     // threads in wake_by_
  std::mutex idle_mutex_;                    // the rest
  std::condition_variable idle_;
  std::shared_ptr<std::function<void(BatchId)>> callback_;
  env::Fd event_;
  std::vector<int> wake_by_;
};

// A counted reference. Movable.
class BatchRef {
 public:
  BatchRef() = default;
  BatchRef(BatchTable& table, Batch& batch) noexcept : table_(&table), batch_(&batch) {}
  BatchRef(BatchRef&& other) noexcept;
  BatchRef& operator=(BatchRef&& other) noexcept;
  ~BatchRef() { reset(); }
  BatchRef another() const noexcept;
  void reset() noexcept;
  Batch* get() const noexcept { return batch_; }
  Batch* operator->() const noexcept { return batch_; }
  explicit operator bool() const noexcept { return batch_ != nullptr; }

 private:
  BatchTable* table_ = nullptr;
  Batch* batch_ = nullptr;
};

// Any thread.
class BatchTable {
 public:
  explicit BatchTable(std::size_t batches_max);
  ~BatchTable();
  // kInvalidArgument (size), kExhausted.
  Result<BatchId> allocate(std::size_t tasks_max);
  // Empty: the id is unknown or was freed.
  BatchRef find(BatchId id) noexcept;
  // Ends the id. The place is reused when the last reference goes.
  Result<BatchRef> free(BatchId id);
  // Batches with an id, and those that only work in flight still keeps.
  std::size_t live() const noexcept { return live_.load(std::memory_order_relaxed); }
  std::size_t kept() const noexcept { return kept_.load(std::memory_order_relaxed); }
  // Every batch that is in use now, for shutdown.
  std::vector<BatchRef> all();

 private:
  friend class BatchRef;
  static constexpr std::uint32_t kChunk = 256;
  void release(Batch& batch) noexcept;
  Batch* place(std::uint32_t index) const noexcept;

  const std::size_t batches_max_;
  std::vector<std::atomic<Batch*>> chunks_;  // arrays of kChunk, made as needed
  std::atomic<std::size_t> live_{0};
  std::atomic<std::size_t> kept_{0};
  std::mutex mutex_;  // the rest
  std::vector<std::uint32_t> free_;
  std::uint32_t used_ = 0;
};

}  // namespace larder::transfer
