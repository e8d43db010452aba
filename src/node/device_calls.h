// SPDX-License-Identifier: Apache-2.0
// Operators' calls about devices, on a thread of their own: they may take seconds.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "larder/client.h"
#include "larder/status.h"
#include "rpc/responder.h"

namespace larder::node {

struct StoreCore;

struct DeviceCall {
  std::optional<DeviceAction> action;  // none: list
  std::string device;                  // path or id, as the action says
  std::uint64_t size = 0;
};

// One call runs at a time, in the order in which they came; at most kWaitingMax wait. The thread is
// started by the first. submit() from any thread.
class DeviceCalls {
 public:
  static constexpr std::size_t kWaitingMax = 16;

  explicit DeviceCalls(StoreCore& core) : core_(core) {}
  // Waits for the call that runs; those that wait are given up (kUnavailable).
  ~DeviceCalls();
  DeviceCalls(const DeviceCalls&) = delete;
  DeviceCalls& operator=(const DeviceCalls&) = delete;

  // Answers through `responder`, later or, when too many wait, at once with kBackpressure.
  // `core.devices` is set.
  void submit(DeviceCall call, rpc::Responder responder);

 private:
  struct Waiting {
    DeviceCall call;
    rpc::Responder responder;
  };
  void run();
  void answer(Waiting waiting);

  StoreCore& core_;
  std::mutex mutex_;  // guards the following
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace larder::node
