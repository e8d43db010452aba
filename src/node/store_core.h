// SPDX-License-Identifier: Apache-2.0
// What the sessions of a node share.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "env/clock.h"
#include "larder/client.h"
#include "node/client_buffers.h"
#include "node/pin_table.h"
#include "obs/metrics.h"
#include "qos/managed.h"
#include "route/route_table.h"
#include "route/spaces.h"
#include "tier/cold/cold_tier.h"
#include "tier/hot/fence.h"
#include "tier/hot/hot_store.h"
#include "wire/frame.h"

namespace larder::node {

class DeviceControl;

struct OpMetrics {
  obs::Counter* requests = nullptr;
  obs::Counter* errors = nullptr;     // whole calls refused
  obs::Histogram* latency = nullptr;  // from the request's last byte to the answer's hand-over
};
struct StoreMetrics {
  std::array<OpMetrics, wire::kOpMax + 1> ops;
  obs::Counter* hits = nullptr;
  obs::Counter* misses = nullptr;
  obs::Counter* puts = nullptr;
  obs::Counter* puts_present = nullptr;  // the same bytes were stored already
  obs::Counter* bytes_put = nullptr;
  obs::Counter* bytes_got = nullptr;
  obs::Counter* damaged = nullptr;  // values that failed their checksum on arrival
  obs::Counter* lease_expiries = nullptr;
  obs::Histogram* cold_latency = nullptr;  // of gets that waited for a disk
};
Result<StoreMetrics> register_store_metrics(obs::Registry& registry);

inline Tier tier_of(bool hot, bool cold) noexcept {
  if (!cold) return Tier::kHot;
  return hot ? Tier::kHotAndCold : Tier::kCold;
}

struct StoreCore {
  std::string id;      // "stable:epoch"
  std::string socket;  // path of the node's Unix socket
  env::Clock* clock = nullptr;
  bool share_memory = true;
  std::unique_ptr<tier::Fence> fence;
  // Declared before the routes: they outlive their entries. Without disks there is no cold tier.
  std::unique_ptr<tier::HotStore> hot;
  std::unique_ptr<tier::ColdTier> cold;
  std::unique_ptr<route::RouteTable> routes;
  route::Spaces spaces;
  ClientBuffers buffers;
  StoreMetrics metrics;
  std::unique_ptr<qos::ManagedTransfers> transfers;  // why values move; never null in a node
  std::function<std::uint64_t()> connections;        // open now; set by the node
  // The node's disks; null when it has none. Set before the node serves; outlives its sessions and
  // its RequestService.
  DeviceControl* devices = nullptr;

  // Pin tables of open connections, for lease expiry and for the total.
  std::mutex pins_mutex;
  std::vector<std::weak_ptr<PinTable>> pin_tables;
  std::shared_ptr<PinTable> add_pin_table();
  std::size_t pins_total();
  // The value was read or put again: it is worth keeping where it is.
  void touch(const route::Entry& entry) noexcept;
  void expire_pins(env::Nanos now);
};

}  // namespace larder::node
