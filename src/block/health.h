// SPDX-License-Identifier: Apache-2.0
// How a device fares, judged by how its operations end.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "block/block_types.h"

namespace larder::block {

enum class HealthState : std::uint8_t {
  kHealthy = 0,
  kDegraded = 1,  // errors lately: fewer than HealthLimits::heal_after successes since the last
  kFailed = 2,    // takes no operations until it is opened again
};

struct Health {
  HealthState state = HealthState::kHealthy;
  std::uint64_t consecutive_errors = 0;
  std::uint64_t errors = 0;  // since it was opened
  std::string reason;        // of the first failure that was final, else of the last error
};

struct HealthLimits {
  std::uint64_t fail_after = 64;  // consecutive errors; at least 1
  std::uint64_t heal_after = 64;  // consecutive successes; at least 1
};

// Any thread. No error of the device: what the caller stopped, what it cannot do at all, and a
// write for which there is no space behind it.
//
// A flush that failed fails the device at once, and for good: the kernel reports lost writes once
// and then takes the pages for clean, so that a second flush would succeed without them.
class HealthBook {
 public:
  explicit HealthBook(const HealthLimits& limits = {}) : limits_(limits) {}

  // Keeps `done` in the books, and corrects it: a flush that ends well on a device that has failed
  // meanwhile may have missed what the failed one lost, so it fails, too.
  void note(BlockDone& done);
  void fail(std::string reason);
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  Health now() const;

 private:
  void note_success();
  void note_error(const BlockDone& done);

  const HealthLimits limits_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> spotless_{true};  // healthy, no consecutive errors: successes take no lock
  mutable std::mutex mutex_;          // guards what follows
  Health health_;
  std::uint64_t successes_ = 0;  // since the last error
};

}  // namespace larder::block
