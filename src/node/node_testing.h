// SPDX-License-Identifier: Apache-2.0
// For the tests of this folder: a store without sockets.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "node/store_core.h"

namespace larder::node {

using Bytes = std::vector<std::byte>;

inline Bytes make_value(std::uint64_t seed, std::size_t bytes) {
  Bytes value(bytes);
  for (std::byte& b : value) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    b = static_cast<std::byte>(seed >> 56);
  }
  return value;
}

struct TestStore {
  explicit TestStore(std::uint64_t capacity = 1 << 20) {
    tier::HotOptions hot;
    hot.capacity = capacity;
    hot.pages = tier::PageMode::k4K;
    hot.populate = false;
    core.hot = tier::HotStore::create(hot).value();
    core.routes = std::make_unique<route::RouteTable>(1);
    core.hot->set_authority(*core.routes);
    core.clock = &env::system_clock();
    core.metrics = register_store_metrics(registry).value();
    core.transfers = std::make_unique<qos::ManagedTransfers>(&registry);
    space = core.spaces.intern("t", "d", "o").value();
  }
  route::EntryRef find(std::string_view key) {
    return core.routes->find(route::key_in(space, key));
  }
  bool holds(std::string_view key, const Bytes& value) {
    const route::EntryRef entry = find(key);
    return entry && entry->length() == value.size() &&
           std::memcmp(core.hot->data(*entry), value.data(), value.size()) == 0;
  }
  void store(std::string_view key, const Bytes& value) {
    auto reservation = core.hot->reserve(value.size());
    ASSERT_TRUE(reservation);
    std::memcpy(reservation->data(), value.data(), value.size());
    std::uint64_t version = 0;
    ASSERT_TRUE(
        core.hot->publish(route::key_in(space, key), 0, *reservation, checksum64(value), version)
            .applied);
  }
  std::uint64_t reserved() const { return core.hot->counters().reserved_bytes.load(); }
  bool adds_up() const {
    return reserved() == 0 && core.hot->used() + core.hot->free_bytes() == core.hot->capacity();
  }

  obs::Registry registry;
  StoreCore core;
  route::Space space;
};

}  // namespace larder::node
