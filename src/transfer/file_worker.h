// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "fileio/file_queue.h"
#include "transfer/ring_memory.h"
#include "transfer/transport.h"
#include "transfer/two_class_queue.h"

namespace larder::transfer {

// One thread with one FileQueue. HIGH pieces enter the queue first; LOW ones get every eighth turn
// while HIGH ones wait.
class FileWorker {
 public:
  // `memory`: whose ranges the backend may pin while they are registered; null: none.
  static Result<std::unique_ptr<FileWorker>> create(std::unique_ptr<fileio::IoBackend> backend,
                                                    PieceSink& sink,
                                                    const MemoryTable* memory = nullptr);
  // Cancels what is left, and waits some seconds for what runs. What does not end by then never
  // does, and its memory stays lent.
  ~FileWorker();

  // Any thread.
  void add(std::span<const Piece* const> pieces);
  void cancel(PieceToken token) noexcept;
  // As Transport says. At the deadline what is left is cancelled, and where the backend is at rest
  // ends at once, also what the backend never reported.
  bool drain(std::int64_t deadline);
  std::string_view backend() const noexcept { return backend_; }
  RingMemory& memory() noexcept { return memory_; }

 private:
  // Where the thread sleeps, or is about to. Whoever wakes it makes it kNot, so that one does.
  // kFull: in the queue, and new pieces are no reason to wake up.
  enum class Sleep : std::uint8_t { kNot, kIdle, kInQueue, kFull };

  FileWorker(std::unique_ptr<fileio::FileQueue> queue, std::string_view backend, PieceSink& sink,
             const MemoryTable* memory);
  void run();
  void start_some();
  std::size_t take_some(std::span<const Piece*> into);
  void start(const Piece& piece);
  void cancel_some();
  void finish(std::span<const fileio::FileDone> done);
  void sleep_idle();
  std::size_t sleep_in_queue(std::span<fileio::FileDone> done);
  bool full() const;
  bool has_news() const;
  void wake(Sleep where) noexcept;
  bool settle_if_asked();
  void cancel_waiting();
  void count_ended(std::size_t pieces);

  std::unique_ptr<fileio::FileQueue> queue_;  // the worker's own thread's
  RingMemory memory_;
  std::string_view backend_;
  PieceSink& sink_;
  std::atomic<std::size_t> unfinished_{0};
  std::mutex mutex_;  // the rest
  std::condition_variable drained_;
  std::condition_variable woken_;  // it sleeps here while nothing runs: cheaper than in the queue
  Sleep sleep_ = Sleep::kNot;
  TwoClassQueue waiting_;
  std::vector<PieceToken> cancelled_;
  bool settling_ = false;  // drain() waits for settle_if_asked()
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace larder::transfer
