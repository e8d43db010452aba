// SPDX-License-Identifier: Apache-2.0
// What the metadata service keeps, and the bounds on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "larder/status.h"

namespace larder::meta {

// Microseconds on a clock that all users of one backend share (wall time between hosts).
using Micros = std::int64_t;

// Numbers are stored: append only.
enum class NodeState : std::uint8_t {
  kStandby = 0,   // warm, not yet in service
  kActive = 1,    // serves and takes new data
  kDraining = 2,  // serves what it has, takes nothing new
  kSealed = 3,    // serves nothing; its data is being taken over
  kOffline = 4,   // gone; final for this epoch
};
std::string_view state_name(NodeState state) noexcept;  // "active"; unknown numbers: "unknown"

// One incarnation of a node. (stable_id, epoch) is its runtime id.
struct Lease {
  std::string stable_id;
  std::uint64_t epoch = 0;
  NodeState state = NodeState::kStandby;
  std::vector<std::string> endpoints;         // "tcp:10.0.0.1:7411", "unix:/run/..."
  std::map<std::string, std::string> labels;  // roles and placement
  std::uint64_t capacity_bytes = 0;
  Micros expires_at = 0;  // set by the backend; live while now < expires_at

  bool operator==(const Lease&) const = default;
};

// A record under a name, changed by compare-and-set: device records and policies.
// Revisions grow across the whole backend and are never reused, so a record that was deleted and
// made again never passes for the old one.
struct Record {
  std::string key;
  std::string value;
  std::uint64_t revision = 0;

  bool operator==(const Record&) const = default;
};

inline constexpr std::size_t kNameBytesMax = 255;  // stable ids, record keys
inline constexpr std::size_t kEndpointsMax = 16;
inline constexpr std::size_t kEndpointBytesMax = 256;
inline constexpr std::size_t kLabelsMax = 32;
inline constexpr std::size_t kLabelKeyBytesMax = 64;
inline constexpr std::size_t kLabelValueBytesMax = 256;
inline constexpr std::size_t kRecordBytesMax = 64 << 10;
inline constexpr std::uint64_t kEpochMax = (1ULL << 63U) - 1;
inline constexpr Micros kTtlMin = 1000;               // 1 ms
inline constexpr Micros kTtlMax = 86'400'000'000;     // a day
inline constexpr Micros kTimeMax = Micros{1} << 62U;  // of any time passed in

// Error kInvalidArgument, naming the field and its limit.
Result<void> validate_name(std::string_view what, std::string_view name);
Result<void> validate_record(std::string_view what, std::string_view key, std::string_view value);
Result<void> validate_lease(const Lease& lease);
Result<void> validate_times(Micros now, Micros ttl);

}  // namespace larder::meta
