// SPDX-License-Identifier: Apache-2.0
#include "node/pin_table.h"

#include <algorithm>

namespace larder::node {

PinTable::~PinTable() {
  for (auto& [hash, pin] : pins_) let_go(pin);
}

void PinTable::let_go(Pin& pin) noexcept {
  pin.entry->pins().fetch_sub(pin.count, std::memory_order_relaxed);
}

Result<void> PinTable::pin(route::EntryRef entry, env::Nanos lease_end) {
  const std::lock_guard lock(mutex_);
  entry->pins().fetch_add(1, std::memory_order_relaxed);
  const auto [begin, end] = pins_.equal_range(entry->hash());
  for (auto it = begin; it != end; ++it) {
    Pin& pin = it->second;
    if (pin.entry.get() != entry.get()) continue;
    ++pin.count;
    const bool endless = pin.lease_end == 0 || lease_end == 0;
    pin.lease_end = endless ? 0 : std::max(pin.lease_end, lease_end);
    return {};
  }
  if (pins_.size() >= kPinsMax) {
    entry->pins().fetch_sub(1, std::memory_order_relaxed);
    return fail(Code::kExhausted, "this connection already pins " + std::to_string(kPinsMax) +
                                      " objects; unpin some");
  }
  const std::uint64_t hash = entry->hash();
  pins_.emplace(hash, Pin{std::move(entry), 1, lease_end});
  return {};
}

Result<void> PinTable::unpin(const route::KeyRef& key) {
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = pins_.equal_range(key.hash);
  for (auto it = begin; it != end; ++it) {
    if (!it->second.entry->matches(key)) continue;
    it->second.entry->pins().fetch_sub(1, std::memory_order_relaxed);
    if (--it->second.count == 0) pins_.erase(it);
    return {};
  }
  return fail(Code::kNotFound, "not pinned by this client");
}

std::size_t PinTable::expire(env::Nanos now) {
  const std::lock_guard lock(mutex_);
  std::size_t ended = 0;
  for (auto it = pins_.begin(); it != pins_.end();) {
    Pin& pin = it->second;
    if (pin.lease_end == 0 || pin.lease_end > now) {
      ++it;
      continue;
    }
    let_go(pin);
    it = pins_.erase(it);
    ++ended;
  }
  return ended;
}

std::size_t PinTable::size() const {
  const std::lock_guard lock(mutex_);
  return pins_.size();
}

}  // namespace larder::node
