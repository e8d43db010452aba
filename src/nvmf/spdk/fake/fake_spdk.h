// SPDX-License-Identifier: Apache-2.0
// What stands behind the stand-in headers: one subsystem in memory, whose faults tests choose, and
// a driver that behaves as SPDK's documentation says of the calls that we make. For tests.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "nvmf/pdu/identify.h"
#include "nvmf/pdu/status.h"

namespace larder::nvmf {

inline constexpr std::uint32_t kFakeBlockBytes = 4096;
inline constexpr std::uint64_t kFakeNamespaceBlocks = 1024;

// How a command is answered instead of honestly.
enum class FakeFate : std::uint8_t {
  kHonest,
  kFails,  // with FakeSpdk::status
  kLost,   // with the end of the controller
  kMute,   // not at all
};
enum class FakeKind : std::uint8_t { kRead, kWrite, kFlush, kZero, kZeroAndUnmap, kUnmap };

struct FakeSpdk {
  std::recursive_mutex mutex;  // guards what follows
  std::vector<std::byte> memory;
  IdentifyController controller;
  IdentifyNamespace ns;
  Id16 uuid{};
  bool active = true;
  std::uint32_t csi = 0;
  std::uint32_t queues_granted = 16;
  int connect_failures = 0;  // so many attempts fail
  int pair_failures = 0;     // so
  int submit_nomem = 0;      // so many submits find no request free
  std::function<FakeFate(FakeKind)> fate;
  Status status;
  int events = 0;                  // namespace changes to be told
  std::string transport_id;        // of the last attempt
  std::string host_nqn;            // so
  bool dma_only = false;           // payloads must be memory that the driver knows
  std::size_t largest = 0;         // bytes of a command
  std::size_t bounced = 0;         // commands with payload from spdk_dma_malloc()
  std::size_t in_place = 0;        // and with registered payload
  std::size_t free_requests = 64;  // of each queue pair
  // What the driver holds; all zero when everything was given back.
  int controllers = 0;
  int pairs = 0;
  std::map<std::byte*, std::size_t> allocated;
  std::map<std::byte*, std::size_t> registered;
  // Rules that we broke, in words.
  std::vector<std::string> broken;

  // Loses the controller that is attached, if any: its queue pairs fail when they are polled.
  void cut();
  std::string leftovers();
};

FakeSpdk& fake_spdk();
// As it is at first. Not while a device is open.
void reset_fake_spdk();

}  // namespace larder::nvmf
