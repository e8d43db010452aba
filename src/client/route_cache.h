// SPDX-License-Identifier: Apache-2.0
// Routes that this client has seen, so that the next read of a value needs no round trip. A cached
// route is a guess that shared memory confirms or refuses; nothing here is ever believed by itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/spin_lock.h"
#include "client/attachment.h"

namespace larder::client {

// Set-associative, bounded, any thread.
class RouteCache {
 public:
  // Rounded up to a power of two; 0: keeps nothing.
  explicit RouteCache(std::size_t entries);
  bool find(std::string_view key, std::uint64_t hash, Route& into) const;
  void insert(std::string_view key, std::uint64_t hash, const Route& route);
  void clear();

 private:
  static constexpr std::size_t kWays = 4;
  struct Entry {
    std::uint64_t hash = 0;
    Route route;
    std::string key;
  };
  struct alignas(64) Set {
    mutable SpinLock lock;
    std::uint8_t next = 0;  // the way that the next stranger takes
    Entry ways[kWays];
  };
  Set& set_of(std::uint64_t hash) const noexcept;

  mutable std::vector<Set> sets_;
};

}  // namespace larder::client
