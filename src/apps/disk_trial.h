// SPDX-License-Identifier: Apache-2.0
// How fast a block device moves bytes, for `larder doctor`.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "block/aligned_buffer.h"
#include "block/block_device.h"
#include "env/clock.h"
#include "larder/status.h"

namespace larder::apps {

inline constexpr std::size_t kTrialDepth = 32;           // operations in flight
inline constexpr std::uint64_t kTrialBytes = 1U << 20U;  // of one of them

// Reads or writes kTrialBytes at a time with kTrialDepth in flight. Not thread safe.
class DiskTrial {
 public:
  // On the first `bytes` of the device, a multiple of kTrialBytes, which must outlive it.
  static Result<std::unique_ptr<DiskTrial>> create(block::BlockDevice& device, std::uint64_t bytes);

  block::BlockQueue& queue() noexcept { return *queue_; }
  block::AlignedBuffer& memory() noexcept { return memory_; }

  // Bytes per second over `span`, and over all of `bytes` once. Places are `stride` apart; of
  // writes, with a flush in the end.
  Result<double> run(block::OpKind kind, std::uint64_t stride, env::Nanos span);
  // One that shares no factor with the number of places: it visits each, and none after its
  // neighbour.
  std::uint64_t stride() const noexcept { return parts_ % 7 == 0 ? 11 : 7; }

 private:
  DiskTrial() = default;
  Result<void> submit(block::OpKind kind, std::uint64_t piece, std::uint64_t stride);

  block::AlignedBuffer memory_;  // outlives the queue, whose operations use it
  std::array<block::Piece, kTrialDepth> pieces_{};
  std::unique_ptr<block::BlockQueue> queue_;
  std::uint64_t parts_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace larder::apps
