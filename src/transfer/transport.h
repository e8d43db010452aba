// SPDX-License-Identifier: Apache-2.0
// The contract of whatever moves bytes. A transport gets pieces and ends each of them exactly once;
// a piece has ended only when nothing the transport started can touch its memory any more, however
// it ended. Everything else (outcomes, retries, quarantine, metrics) is the core's.
#pragma once

#include <cstdint>
#include <span>

#include "larder/transfer.h"
#include "transfer/segment.h"
#include "transfer/selector.h"

namespace larder::transfer {

class SharedMapping;

// Names one use of a piece. A transport that reports a token twice, or one that is long over, is
// counted and has no effect.
struct PieceToken {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
};

// What a transport is asked to move. Read-only to it, and at its address until the piece has ended.
struct Piece {
  Opcode opcode = Opcode::kRead;
  TrafficClass traffic_class = TrafficClass::kLow;
  Intent intent = Intent::kUnknown;
  MemoryType local_type = MemoryType::kCpu;
  std::byte* local = nullptr;
  const Segment* target = nullptr;
  std::uint64_t target_offset = 0;
  // The target in this process's address space; null when it cannot be reached so.
  std::byte* near = nullptr;
  const SharedMapping* mapping = nullptr;  // that `near` is in; null: this process's own memory
  std::uint64_t incarnation = 0;           // of the peer that the target offset is of
  std::uint64_t bytes = 0;
  std::int64_t deadline = 0;  // monotonic ns; 0: none
  std::uint64_t trace_id = 0;
  bool attended = true;  // some thread will wait or poll; false: a callback waits
  PieceToken token;
};

// Where pieces end. Any thread, never from within a transport's own lock.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  // `error` null: all bytes of the piece have arrived.
  virtual void piece_done(PieceToken token, const Error* error) noexcept = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual TransportType type() const noexcept = 0;
  virtual TransportAbilities abilities() const noexcept = 0;
  // Takes all of them; each ends by piece_done(), perhaps before this returns. Any thread.
  virtual void submit(std::span<const Piece* const> pieces) = 0;
  // Best effort: it should end soon. Unknown tokens are ignored. Any thread.
  virtual void cancel(PieceToken token) noexcept = 0;
  // Lends the calling thread, which has nothing to do but wait for pieces, to this transport for a
  // moment. True when something was moved.
  virtual bool help() { return false; }
  // The same for what takes next to no time: picking up what has come.
  virtual bool look() { return false; }
  // Something is under way that a lent thread may soon see end: to poll for it beats a sleep.
  virtual bool worth_polling() const { return false; }
  // The thread that helped or looked will not come back soon.
  virtual void rest() {}
  // The calling thread sleeps here until there is something for look(), `wake` is readable, or
  // `deadline` (monotonic ns). False at once: there is nothing here that it could wait for.
  virtual bool doze(int wake, std::int64_t deadline) {
    static_cast<void>(wake);
    static_cast<void>(deadline);
    return false;
  }
  // No further submits come. Returns true when every piece has ended, by `deadline` (monotonic ns).
  virtual bool drain(std::int64_t deadline) = 0;
};

}  // namespace larder::transfer
