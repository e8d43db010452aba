// SPDX-License-Identifier: Apache-2.0
#include "transfer/file_worker.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "env/clock.h"
#include "env/thread.h"

namespace larder::transfer {
namespace {

constexpr std::size_t kDoneAtOnce = 64;
constexpr std::size_t kStartAtOnce = 64;
// For what runs to end once drain() has given up on it; more of it is the destructor's.
constexpr env::Nanos kDrainGrace = 100 * env::kMilli;
constexpr env::Nanos kStopGrace = 5 * env::kSecond;

constexpr std::uint64_t tag_of(PieceToken token) {
  return (std::uint64_t{token.generation} << 32) | token.index;
}
constexpr PieceToken token_of(std::uint64_t tag) {
  return {static_cast<std::uint32_t>(tag), static_cast<std::uint32_t>(tag >> 32)};
}

}  // namespace

Result<std::unique_ptr<FileWorker>> FileWorker::create(std::unique_ptr<fileio::IoBackend> backend,
                                                       PieceSink& sink, const MemoryTable* memory) {
  const std::string_view name = backend->name();
  // No more than the backend soon begins: what waits here is still in order of its class.
  const std::size_t ops = 2 * backend->depth();
  LARDER_ASSIGN(auto queue, fileio::FileQueue::create(std::move(backend), {.ops_max = ops}));
  return std::unique_ptr<FileWorker>(new FileWorker(std::move(queue), name, sink, memory));
}

FileWorker::FileWorker(std::unique_ptr<fileio::FileQueue> queue, std::string_view backend,
                       PieceSink& sink, const MemoryTable* memory)
    : queue_(std::move(queue)),
      memory_(memory, *queue_),
      backend_(backend),
      sink_(sink),
      thread_([this] { run(); }) {}

FileWorker::~FileWorker() {
  Sleep where = Sleep::kNot;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    where = std::exchange(sleep_, Sleep::kNot);
  }
  wake(where);
  thread_.join();
}

// A system call, and only where the thread sleeps: while it works it looks before it sleeps.
void FileWorker::wake(Sleep where) noexcept {
  if (where == Sleep::kInQueue || where == Sleep::kFull) queue_->wake();
  if (where == Sleep::kIdle) woken_.notify_one();
}

void FileWorker::add(std::span<const Piece* const> pieces) {
  Sleep where = Sleep::kNot;
  unfinished_.fetch_add(pieces.size(), std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    for (const Piece* const piece : pieces) waiting_.push(piece);
    if (sleep_ != Sleep::kFull) where = std::exchange(sleep_, Sleep::kNot);
  }
  wake(where);
}

void FileWorker::cancel(PieceToken token) noexcept {
  Sleep where = Sleep::kNot;
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(token);
    where = std::exchange(sleep_, Sleep::kNot);
  }
  wake(where);
}

bool FileWorker::drain(std::int64_t deadline) {
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline)};
  std::unique_lock lock(mutex_);
  if (drained_.wait_until(lock, until, [this] { return unfinished_.load() == 0; })) return true;
  settling_ = true;
  wake(std::exchange(sleep_, Sleep::kNot));
  // Bounded: the thread may be in a callback of somebody's.
  const auto patience = std::chrono::nanoseconds(10 * kDrainGrace);
  drained_.wait_for(lock, patience, [this] { return !settling_; });
  return unfinished_.load() == 0;
}

void FileWorker::run() {
  env::set_thread_name("larder-file");
  std::array<fileio::FileDone, kDoneAtOnce> done;
  while (true) {
    cancel_some();
    start_some();
    if (settle_if_asked()) return;
    if (unfinished_.load(std::memory_order_relaxed) == 0) {
      sleep_idle();
    } else {
      finish(std::span(done).first(sleep_in_queue(done)));
    }
  }
}

// A dead queue is not full: it has an error for every piece.
bool FileWorker::full() const {
  return queue_->healthy() && queue_->room() == 0;
}

// Under the lock.
bool FileWorker::has_news() const {
  return stopping_ || settling_ || !cancelled_.empty() || (!waiting_.empty() && !full());
}

// At once: who spins here is in the way of the thread that is about to submit, where both are on
// one core. A wake-up that preempts it costs 10 us; spinning and yielding was seen to cost 70.
void FileWorker::sleep_idle() {
  std::unique_lock lock(mutex_);
  while (!has_news()) {
    sleep_ = Sleep::kIdle;
    woken_.wait(lock);
  }
  sleep_ = Sleep::kNot;
}

std::size_t FileWorker::sleep_in_queue(std::span<fileio::FileDone> done) {
  {
    const std::lock_guard lock(mutex_);
    if (has_news()) return 0;
    sleep_ = full() ? Sleep::kFull : Sleep::kInQueue;
  }
  const std::size_t ended = queue_->wait(done, fileio::kNoDeadline);
  const std::lock_guard lock(mutex_);
  sleep_ = Sleep::kNot;
  return ended;
}

// True: the thread is to end. Only the queue knows whether its backend is at rest, and only this
// thread may ask it.
bool FileWorker::settle_if_asked() {
  bool stop = false;
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_ && !settling_) return false;
    stop = stopping_;
  }
  cancel_waiting();
  queue_->quiesce(env::monotonic_now() + (stop ? kStopGrace : kDrainGrace));
  std::array<fileio::FileDone, kDoneAtOnce> done;
  while (const std::size_t ended = queue_->poll(done)) finish(std::span(done).first(ended));
  const std::lock_guard lock(mutex_);
  settling_ = false;
  drained_.notify_all();
  return stop;
}

void FileWorker::cancel_waiting() {
  TwoClassQueue waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting = std::exchange(waiting_, {});
  }
  const Error error(Code::kCancelled, "the engine is shutting down");
  while (const Piece* const piece = waiting.take()) {
    sink_.piece_done(piece->token, &error);
    count_ended(1);
  }
}

// Hands pieces to the queue until it is full; they begin with the next wait, in one system call.
void FileWorker::start_some() {
  std::array<const Piece*, kStartAtOnce> taken;
  while (const std::size_t count = take_some(taken)) {
    for (const Piece* const piece : std::span(taken).first(count)) start(*piece);
  }
}

std::size_t FileWorker::take_some(std::span<const Piece*> into) {
  const std::size_t room = queue_->healthy() ? queue_->room() : into.size();
  std::size_t count = 0;
  const std::lock_guard lock(mutex_);
  while (count < std::min(room, into.size())) {
    const Piece* const piece = waiting_.take();
    if (piece == nullptr) break;
    into[count++] = piece;
  }
  return count;
}

void FileWorker::start(const Piece& piece) {
  const fileio::File& file = *piece.target->file;
  const std::span<std::byte> memory(piece.local, piece.bytes);
  const std::uint64_t tag = tag_of(piece.token);
  memory_.use(piece.local, piece.bytes);
  const auto taken =
      queue_->submit(piece.opcode == Opcode::kRead
                         ? fileio::FileOp::read(file, piece.target_offset, memory, tag)
                         : fileio::FileOp::write(file, piece.target_offset, memory, tag));
  if (taken) return;
  sink_.piece_done(piece.token, &taken.error());
  count_ended(1);
}

void FileWorker::cancel_some() {
  std::vector<PieceToken> cancelled;
  std::vector<PieceToken> waiting;
  {
    const std::lock_guard lock(mutex_);
    cancelled.swap(cancelled_);
    for (const PieceToken token : cancelled) {
      if (waiting_.remove(token) != nullptr) waiting.push_back(token);
    }
  }
  const Error error(Code::kCancelled, "cancelled before it was read or written");
  for (const PieceToken token : waiting) {
    sink_.piece_done(token, &error);
    count_ended(1);
  }
  for (const PieceToken token : cancelled) queue_->cancel(tag_of(token));
}

void FileWorker::finish(std::span<const fileio::FileDone> done) {
  for (const fileio::FileDone& one : done) {
    std::optional<Error> error;
    if (!one.ok()) error = fileio::describe(one);
    sink_.piece_done(token_of(one.tag), error ? &*error : nullptr);
  }
  if (!done.empty()) count_ended(done.size());
}

void FileWorker::count_ended(std::size_t pieces) {
  if (unfinished_.fetch_sub(pieces) != pieces) return;
  const std::lock_guard lock(mutex_);
  drained_.notify_all();
}

}  // namespace larder::transfer
