// SPDX-License-Identifier: Apache-2.0
// The disks of a node as an operator sees and changes them, while the node serves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "larder/status.h"
#include "tier/cold/device_record.h"

namespace larder::node {

struct DeviceStatus {
  std::string id;    // uuid in lower case, 36 characters
  std::string path;  // where this node finds it
  tier::DeviceState state = tier::DeviceState::kHealthy;
  std::uint64_t capacity = 0;  // bytes
  std::uint64_t used = 0;      // bytes
  std::uint64_t records = 0;
  std::uint64_t errors = 0;  // reads, writes and flushes that failed, ever
  std::string last_error;    // of those; empty: none
};

// Called by one thread at a time, never by a reactor: every call may block for seconds. Errors go
// to the operator as they are, so their words say what to do. kNotFound: no device of this node has
// that id; kConflict: the device cannot do so in its present state, or another node owns it.
class DeviceControl {
 public:
  virtual ~DeviceControl() = default;
  virtual Result<std::vector<DeviceStatus>> list() = 0;
  // A directory or a block device by its absolute path; what is on it is taken up if it is this
  // node's. At most `size` bytes of it are used; 0: what is there.
  virtual Result<DeviceStatus> add(const std::string& path, std::uint64_t size) = 0;
  // Begins to empty the device and returns; the state says draining until it is removed.
  virtual Result<DeviceStatus> drain(const std::string& id) = 0;
  virtual Result<DeviceStatus> disable(const std::string& id) = 0;
  virtual Result<DeviceStatus> enable(const std::string& id) = 0;
  // The node lets go of the device. What is on it stays.
  virtual Result<void> remove(const std::string& id) = 0;
};

}  // namespace larder::node
