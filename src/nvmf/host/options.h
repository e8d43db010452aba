// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "block/health.h"
#include "env/clock.h"
#include "nvmf/host/host_identity.h"
#include "nvmf/host/url.h"
#include "obs/metrics.h"

namespace larder::nvmf {

// What a lost connection means for the operations in flight and those to come.
enum class Reattach : std::uint8_t {
  // They wait for a new association, and are sent once more; see NvmeDevice.
  kOnce = 0,
  kNever = 1,  // they fail, and so does the device
};

struct NvmeDeviceOptions {
  NvmeUrl url;  // what it says comes before the same here
  HostIdentityOptions host = {};
  std::uint16_t queues = 64;          // I/O queues asked for; as many BlockQueues at a time
  std::uint16_t queue_entries = 128;  // asked for; commands of one connection, and one more
  std::uint32_t command_bytes_max = 2U << 20U;  // a longer operation becomes several commands
  env::Nanos connect_timeout = 5 * env::kSecond;
  env::Nanos io_timeout = 30 * env::kSecond;  // of one command, from being sent on
  env::Nanos keep_alive = 15 * env::kSecond;  // 0: none
  Reattach reattach = Reattach::kOnce;
  env::Nanos reattach_timeout = 10 * env::kSecond;  // an operation waits so long for it
  std::string expected_id = {};      // Identity::id; not empty: another one is an error
  obs::Registry* metrics = nullptr;  // outlives the device and its queues; null: none
  block::HealthLimits health = {};
};

// With what the URL says put in. kInvalidArgument: they make no sense.
Result<NvmeDeviceOptions> settled(const NvmeDeviceOptions& given);

}  // namespace larder::nvmf
