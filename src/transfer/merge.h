// SPDX-License-Identifier: Apache-2.0
// Which neighbours of a list of requests may travel as one.
//
// A merged run gets one class, one policy, one deadline, so requests join only if they would have
// been treated alike in every respect. The trace id is not such a respect: it tells observers which
// call a request belongs to and changes nothing about how its bytes move; every request keeps its
// own, and its own result. To split runs by it would undo the commonest merge there is, the blocks
// of a key range that several calls of one tenant read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "larder/transfer.h"

namespace larder::transfer {

struct MergeItem {
  Opcode opcode = Opcode::kRead;
  bool staged = false;
  Intent intent = Intent::kUnknown;
  TrafficClass traffic_class = TrafficClass::kLow;        // the effective one
  TransportType hint = TransportType::kUnspecified;       // what the request asks for
  TransportType transport = TransportType::kUnspecified;  // what was selected
  std::uint16_t rule = 0;                                 // Selection::rule
  std::uint32_t tenant = 0;
  std::int64_t deadline = 0;  // monotonic ns; 0: none
  std::uint64_t trace_id = 0;
  SegmentId target = {};
  // The registered ranges that hold the two ends. Ranges that touch are still two: each is pinned,
  // checked and perhaps placed on its own. 0 where there is none, as in a file.
  std::uint64_t local_buffer = 0;
  std::uint64_t target_buffer = 0;
  std::uint64_t local_address = 0;
  std::uint64_t target_offset = 0;
  std::uint64_t length = 0;  // bytes
};

// True when `after` goes on where `before` ends, in local memory and in the target, and both are
// equal in all else but the trace id. Empty requests and ends beyond 2^64 - 1 join nothing.
bool continues(const MergeItem& before, const MergeItem& after) noexcept;

// Requests first .. last, both included.
struct MergedRun {
  std::size_t first = 0;
  std::size_t last = 0;
  std::uint64_t bytes = 0;
  std::size_t count() const noexcept { return last - first + 1; }
  bool operator==(const MergedRun&) const = default;
};

//   MergedRuns runs(items, bytes_max);
//   while (const auto run = runs.next()) ...
//
// Covers every item exactly once, in order. A run is as long as its begin, `continues` and
// `bytes_max` allow; one request is a run whatever its size. Linear, allocates nothing. The items
// are the caller's, and must stay.
class MergedRuns {
 public:
  MergedRuns(std::span<const MergeItem> items, std::uint64_t bytes_max) noexcept
      : items_(items), bytes_max_(bytes_max) {}
  // Empty after the last.
  std::optional<MergedRun> next() noexcept;

 private:
  std::span<const MergeItem> items_;
  std::uint64_t bytes_max_;
  std::size_t at_ = 0;
};

}  // namespace larder::transfer
