// SPDX-License-Identifier: Apache-2.0
#include "transfer/copy_transport.h"

#include <cstring>

#include "env/thread.h"
#include "platform/stream_copy.h"
#include "transfer/shared_memory.h"

namespace larder::transfer {
namespace {

// A piece's limit: large enough to hide a hand-over (about 1 us) behind 100 us of copying, small
// enough that two cores share a value of 16 MiB evenly.
constexpr std::uint64_t kCopyBytes = 1 << 20;

void move_bytes(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  const auto a = reinterpret_cast<std::uintptr_t>(to);
  const auto b = reinterpret_cast<std::uintptr_t>(from);
  const bool apart = a + bytes <= b || b + bytes <= a;
  if (apart && bytes >= platform::kStreamBytesMin) {
    platform::stream_copy(to, from, bytes);
  } else {
    std::memmove(to, from, bytes);  // a request may name overlapping ranges
  }
}

}  // namespace

CopyTransport::CopyTransport(TransportType type, unsigned workers, PieceSink& sink)
    : type_(type), sink_(sink) {
  for (unsigned i = 0; i < workers; ++i) {
    workers_.emplace_back([this] { run_worker(); });
  }
}

CopyTransport::~CopyTransport() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

TransportAbilities CopyTransport::abilities() const noexcept {
  TransportAbilities can;
  can.moves = {Ability::kCpuToCpu};
  can.same_process_only = type_ == TransportType::kMemcpy;
  can.same_machine_only = true;
  can.bytes_max = kCopyBytes;
  return can;
}

// A peer may take its memory back at any moment: what was copied counts only if it had not by the
// end of the copy.
Result<void> CopyTransport::copy(Opcode opcode, std::byte* local, std::byte* near,
                                 const SharedMapping* mapping, std::uint64_t bytes) {
  if (near == nullptr) {
    return fail(Code::kUnavailable, "the target's memory is not mapped in this process");
  }
  move_bytes(opcode == Opcode::kRead ? local : near, opcode == Opcode::kRead ? near : local, bytes);
  if (mapping == nullptr || mapping->lent()) return {};
  return fail(Code::kUnavailable, "the peer has taken its memory back");
}

void CopyTransport::submit(std::span<const Piece* const> pieces) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    for (const Piece* const piece : pieces) waiting_.push(piece);
    wake = sleeping_ > 0;
  }
  if (!wake) return;
  if (pieces.size() > 1) {
    work_.notify_all();
  } else {
    work_.notify_one();
  }
}

const Piece* CopyTransport::take() {
  const Piece* const piece = waiting_.take();
  if (piece != nullptr) ++running_;
  return piece;
}

void CopyTransport::run(const Piece& piece) {
  const PieceToken token = piece.token;
  const auto done = copy(piece.opcode, piece.local, piece.near, piece.mapping, piece.bytes);
  sink_.piece_done(token, done ? nullptr : &done.error());
  ended();
}

void CopyTransport::ended() {
  const std::lock_guard lock(mutex_);
  --running_;
  if (running_ == 0 && waiting_.empty()) drained_.notify_all();
}

bool CopyTransport::help() {
  const Piece* piece = nullptr;
  {
    const std::lock_guard lock(mutex_);
    piece = take();
  }
  if (piece == nullptr) return false;
  run(*piece);
  return true;
}

// The last pieces are with workers: some 100 us.
bool CopyTransport::worth_polling() const {
  const std::lock_guard lock(mutex_);
  return running_ > 0;
}

void CopyTransport::rest() {
  const std::lock_guard lock(mutex_);
  if (workers_.empty()) workers_.emplace_back([this] { run_worker(); });
}

void CopyTransport::run_worker() {
  env::set_thread_name("larder-copy");
  std::unique_lock lock(mutex_);
  while (true) {
    const Piece* const piece = take();
    if (piece != nullptr) {
      lock.unlock();
      run(*piece);
      lock.lock();
      continue;
    }
    if (stopping_) return;
    ++sleeping_;
    work_.wait(lock);
    --sleeping_;
  }
}

void CopyTransport::cancel(PieceToken token) noexcept {
  const Piece* found = nullptr;
  {
    const std::lock_guard lock(mutex_);
    found = waiting_.remove(token);
    if (found != nullptr) ++running_;
  }
  if (found == nullptr) return;  // it is being copied, and soon done
  const Error error(Code::kCancelled, "cancelled before it was copied");
  sink_.piece_done(token, &error);
  ended();
}

bool CopyTransport::drain(std::int64_t deadline) {
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline)};
  std::unique_lock lock(mutex_);
  return drained_.wait_until(lock, until, [this] { return running_ == 0 && waiting_.empty(); });
}

}  // namespace larder::transfer
