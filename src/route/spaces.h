// SPDX-License-Identifier: Apache-2.0
// Key spaces as small numbers, so that an entry does not carry three names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "larder/status.h"
#include "route/entry.h"

namespace larder::route {

struct Space {
  std::uint32_t id = 0;
  std::uint64_t seed = 0;  // of the hashes of its keys
};

// Any thread. Spaces are never forgotten; their number is bounded.
class Spaces {
 public:
  static constexpr std::size_t kSpacesMax = 65536;
  // Makes the space known. kExhausted beyond kSpacesMax,
  // kInvalidArgument when a part has more than 255 bytes.
  Result<Space> intern(std::string_view tenant, std::string_view domain,
                       std::string_view object_set);
  // Only if it is known: look-ups of strangers must not fill the table.
  bool find(std::string_view tenant, std::string_view domain, std::string_view object_set,
            Space& into) const;
  struct Names {
    std::string tenant;
    std::string domain;
    std::string object_set;
  };
  // Of a space that is known; else empty ones.
  Names names(std::uint32_t id) const;

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, Space> by_name_;
  std::vector<const std::string*> by_id_;  // keys of by_name_, which stay where they are
};

KeyRef key_in(const Space& space, std::string_view key) noexcept;

}  // namespace larder::route
