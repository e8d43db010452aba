// SPDX-License-Identifier: Apache-2.0
// Key lists inside message bodies.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "larder/client.h"
#include "larder/status.h"

namespace larder::pb {
class Keys;
}

namespace larder::wire {

inline constexpr std::size_t kSpaceNameBytesMax = 255;

// kInvalidArgument unless each part has 1 to 255 bytes.
Result<void> validate_space(const KeySpace& space);

// What travels of a key. Keys are not validated by the client: an invalid one is the server's
// per-item answer. Of an over-long one, one byte over the limit is enough for the server to refuse
// it.
inline constexpr std::size_t kPackedKeyMax = kKeyBytesMax + 1;
inline std::string_view packed(std::string_view key) {
  return key.substr(0, kPackedKeyMax);
}

// Fills the message with packed keys.
void pack_keys(const KeySpace& space, std::span<const std::string_view> keys, pb::Keys& into);

// For operations whose keys come as payload (key_stream.h): the space, and how many will come.
void announce_keys(const KeySpace& space, std::size_t count, pb::Keys& into);
// The space names and the number are within bounds, and no keys are in the message itself.
Result<void> check_announced(const pb::Keys& message);

// What a received list holds: views into the message, which must outlive them.
struct KeyList {
  std::string_view tenant;
  std::string_view domain;
  std::string_view object_set;
  std::vector<std::string_view> keys;
};
// Checks that lengths and data agree, space names and the number of keys are within bounds. A
// single key's own length is judged per item, so that one bad key never fails its neighbours.
// Reuses `into`'s memory.
Result<void> unpack_keys(const pb::Keys& message, KeyList& into);

}  // namespace larder::wire
