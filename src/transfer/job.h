// SPDX-License-Identifier: Apache-2.0
// A job moves one run of a file or of memory for one task, or for several that were merged. It cuts
// the run into pieces, keeps a window of them with one transport, and begins again with another
// transport when that one fails.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/spin_lock.h"
#include "transfer/batch.h"
#include "transfer/memory_table.h"
#include "transfer/segment.h"
#include "transfer/selector.h"
#include "transfer/slice_planner.h"
#include "transfer/submit_group.h"
#include "transfer/transport.h"

namespace larder::transfer {

struct RemoteDescription;

struct PieceSlot {
  Piece piece;
  std::uint32_t generation = 0;  // odd while the transport has it
};

struct Job {
  // Pieces with the transport at a time. Of staged writes twice as many: copies take their turns,
  // and the disk behind them wants some at once (16 MiB: 0.87 of the disk, with 8 pieces 0.77;
  // reads 0.75 and 0.79).
  static constexpr std::uint32_t kWindow = 8;
  static constexpr std::uint32_t kStagedWriteWindow = 16;
  static constexpr std::uint32_t kSlots = kStagedWriteWindow;

  // Set by whoever makes it, constant until it ends.
  BatchRef batch;
  std::uint32_t first_task = 0;
  std::uint32_t tasks = 0;
  Opcode opcode = Opcode::kRead;
  std::byte* local = nullptr;
  std::uint64_t target_offset = 0;
  std::byte* near = nullptr;  // see Piece
  std::uint64_t length = 0;
  std::int64_t deadline = 0;
  std::uint64_t trace_id = 0;
  Query query;
  std::shared_ptr<const Segment> segment;
  RangePin local_pin;
  RangePin target_pin;                              // when the target is memory of this process
  std::shared_ptr<const RemoteDescription> remote;  // when it is a peer's
  const SharedMapping* mapping = nullptr;
  std::shared_ptr<SubmitGroup> group;

  std::uint32_t index = 0;
  SpinLock lock;                 // the rest
  std::uint32_t generation = 1;  // grows when the job ends
  bool live = false;
  TransportSet attempted;  // of query.tried those that really were, not those a breaker kept away
  Selection selection;
  Transport* transport = nullptr;
  std::optional<SlicePlan> plan;
  std::uint64_t planned = 0;  // bytes that pieces were made of
  std::uint32_t in_flight = 0;
  std::uint64_t bytes_done = 0;
  bool stopping = false;  // no further pieces: an error, or nobody waits any more
  // All outcomes are known already. Set under the lock; a look without it is a hint.
  std::atomic<bool> given_up{false};
  std::uint64_t quarantined = 0;
  std::optional<Error> error;  // the first one
  std::array<PieceSlot, kSlots> slots;
};

}  // namespace larder::transfer
