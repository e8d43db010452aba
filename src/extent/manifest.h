// SPDX-License-Identifier: Apache-2.0
// What a record is a copy of: enough to build its route again when only the device is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "extent/uuid.h"
#include "larder/status.h"

namespace larder::extent {

inline constexpr std::size_t kManifestKeyMax = 1024;  // bytes; the same as of a logical key
inline constexpr std::size_t kManifestNameMax = 255;  // bytes of tenant, domain and object set
inline constexpr std::size_t kManifestFixedBytes = 48;
inline constexpr std::size_t kManifestBytesMax =
    kManifestFixedBytes + 3 * kManifestNameMax + kManifestKeyMax;

struct Manifest {
  std::string tenant;
  std::string domain;
  std::string object_set;
  std::string key;             // never empty
  std::uint64_t version = 0;   // of the route
  std::uint64_t length = 0;    // bytes of the object
  std::uint64_t checksum = 0;  // XXH3-64 of the object
  Uuid device;                 // on which the record is

  bool operator==(const Manifest&) const = default;
};

// The bytes, at most kManifestBytesMax. kInvalidArgument: the key is empty; a text is too long.
Result<std::vector<std::byte>> encode(const Manifest& manifest);
std::size_t encoded_bytes(const Manifest& manifest) noexcept;
// kVersionMismatch: written by a newer program. kCorrupt: lengths that do not add up to exactly
// these bytes, an empty key, reserved bytes that are not zero. Texts may hold any bytes.
Result<Manifest> decode(std::span<const std::byte> bytes);

}  // namespace larder::extent
