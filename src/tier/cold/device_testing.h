// SPDX-License-Identifier: Apache-2.0
// For the tests of device records.
#pragma once

#include <string>

#include "env/clock.h"
#include "meta/memory_backend.h"
#include "tier/cold/device_registry.h"

namespace larder::tier {

inline DeviceRecord sample_device() {
  DeviceRecord record;
  record.id = "0123abcd-4567-89ef-0123-456789abcdef";
  record.path = "/srv/cold";
  record.owner = {"node-a", 7};
  record.capacity = 1000;
  record.used = 10;
  record.reserved = 20;
  record.failures = 3;
  record.last_error = "EIO";
  record.updated_at = 5;
  return record;
}

// A new incarnation of a node, with a lease.
inline DeviceOwner start_node(meta::MetadataBackend& backend, const env::Clock& clock,
                              const std::string& stable_id,
                              meta::Micros ttl = 10 * meta::Micros{1'000'000}) {
  meta::Lease lease;
  lease.stable_id = stable_id;
  lease.state = meta::NodeState::kActive;
  const auto got = backend.allocate_lease(lease, clock.wall() / env::kMicro, ttl);
  return {stable_id, got->epoch};
}

}  // namespace larder::tier
