// SPDX-License-Identifier: Apache-2.0
// What the metadata service keeps about one device of the cold tier, and which of its states may
// follow which. JSON, so that a person can read it where it is stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "larder/status.h"
#include "meta/records.h"

namespace larder::tier {

// Stored by name: a new one is unknown to older nodes, which then refuse the record.
enum class DeviceState : std::uint8_t {
  kHealthy = 0,          // takes records
  kFull = 1,             // above its critical mark: read, not written to, until it is below its low
  kDraining = 2,         // read, not written to; on its way out
  kFailed = 3,           // neither: its owner cannot use it
  kDisabledByAdmin = 4,  // neither, until it is enabled
};
inline constexpr std::size_t kDeviceStates = 5;
std::string_view device_state_name(DeviceState state) noexcept;  // "disabled_by_admin"

enum class DeviceKind : std::uint8_t {
  kFile = 0,    // a file in a directory
  kRaw = 1,     // a block device of this host
  kRemote = 2,  // a namespace behind a network
};
std::string_view device_kind_name(DeviceKind kind) noexcept;

// One incarnation of a node: who owns a device, and the fence against its predecessors.
struct DeviceOwner {
  std::string stable_id;
  std::uint64_t epoch = 0;  // 1 to meta::kEpochMax
  bool operator==(const DeviceOwner&) const = default;
  std::string to_string() const { return stable_id + ":" + std::to_string(epoch); }
};

struct DeviceRecord {
  std::string id;  // uuid: 36 characters, lower case
  DeviceKind kind = DeviceKind::kFile;
  std::string path;  // where its owner finds it; UTF-8
  DeviceOwner owner;
  DeviceState state = DeviceState::kHealthy;
  // Bytes on the device. used + reserved is at most the capacity.
  std::uint64_t capacity = 0;
  std::uint64_t used = 0;
  std::uint64_t reserved = 0;
  std::uint64_t failures = 0;   // reads, writes and flushes that failed, ever
  std::string last_error;       // empty: none yet
  meta::Micros updated_at = 0;  // wall time; grows with each change

  bool operator==(const DeviceRecord&) const = default;
};

inline constexpr std::size_t kDevicePathBytesMax = 4095;
inline constexpr std::size_t kDeviceErrorBytesMax = 512;
inline constexpr std::uint64_t kDeviceBytesMax = 1ULL << 60U;

bool is_device_id(std::string_view text) noexcept;
// Printable ASCII of at most kDeviceErrorBytesMax: fit for `last_error`, whatever a library said.
std::string device_error_text(std::string_view text);

// kInvalidArgument, naming the field.
Result<void> validate_device(const DeviceRecord& record);
// Of a valid record; fails as validate_device() does.
Result<std::string> encode_device(const DeviceRecord& record);
// Any bytes. kCorrupt, naming the field; kVersionMismatch for a format of a later version.
Result<DeviceRecord> decode_device(std::string_view text);

// Who asks for a change of state: the owner, by what the device does, or an operator.
enum class DeviceActor : std::uint8_t { kOwner = 0, kAdmin = 1 };
bool may_follow(DeviceState from, DeviceState to, DeviceActor actor) noexcept;

}  // namespace larder::tier
