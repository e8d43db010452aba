// SPDX-License-Identifier: Apache-2.0
// The pins of one connection. They end with it, or with their lease.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "env/clock.h"
#include "larder/status.h"
#include "route/entry.h"

namespace larder::node {

class PinTable {
 public:
  static constexpr std::size_t kPinsMax = 1 << 20;  // per connection
  PinTable() = default;
  PinTable(const PinTable&) = delete;
  PinTable& operator=(const PinTable&) = delete;
  ~PinTable();

  // Pins nest: each pin needs its unpin. `lease_end` 0: none; a later pin of the same object
  // extends the lease, never shortens it. kExhausted beyond kPinsMax.
  Result<void> pin(route::EntryRef entry, env::Nanos lease_end);
  // kNotFound when this connection holds no pin under the key.
  Result<void> unpin(const route::KeyRef& key);
  // Ends the leases that ran out; returns how many pins that were.
  std::size_t expire(env::Nanos now);
  std::size_t size() const;

 private:
  struct Pin {
    route::EntryRef entry;
    std::uint32_t count = 0;
    env::Nanos lease_end = 0;  // 0: none
  };
  static void let_go(Pin& pin) noexcept;

  mutable std::mutex mutex_;
  std::unordered_multimap<std::uint64_t, Pin> pins_;  // by the key's hash
};

}  // namespace larder::node
