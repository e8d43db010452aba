// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "meta/backend.h"

namespace larder::meta {

struct MemoryBackendLimits {
  std::size_t stable_ids = 65536;  // each keeps a mark for good
  std::size_t leases = 65536;      // live ones, over all stable ids
  std::size_t devices = 65536;
  std::size_t policies = 4096;
};

// The backend behind "memory://". Everything under one lock: it serves heartbeats, not requests.
std::shared_ptr<MetadataBackend> make_memory_backend(const MemoryBackendLimits& limits = {});

}  // namespace larder::meta
