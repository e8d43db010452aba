// SPDX-License-Identifier: Apache-2.0
// Keeps traffic away from a transport that keeps failing towards one target, and lets it back only
// after a probe went through.
//
// Closed: all go. After kFailuresMax failures in a row: open for a while, which doubles up to a
// limit. Then half-open: one request is let through; it closes the breaker or opens it again.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "env/clock.h"
#include "larder/transfer.h"
#include "transfer/selector.h"

namespace larder::transfer {

// Any thread.
class Breakers {
 public:
  static constexpr int kFailuresMax = 3;
  static constexpr env::Nanos kOpenMin = 100 * env::kMilli;
  static constexpr env::Nanos kOpenMax = 10 * env::kSecond;
  static constexpr std::size_t kEntriesMax = 4096;  // beyond: the target is not kept from anything

  // Transports that are not to be used towards the target now. A half-open one is left out of the
  // set for the one caller that is to probe it.
  TransportSet open_for(SegmentId target, env::Nanos now);
  void failed(SegmentId target, TransportType transport, env::Nanos now);
  void worked(SegmentId target, TransportType transport);
  void forget(SegmentId target);
  std::size_t open() const noexcept { return entries_used_.load(std::memory_order_relaxed); }

 private:
  struct State {
    int failures = 0;
    env::Nanos open_until = 0;
    env::Nanos open_for = 0;
    bool probing = false;  // one was let through, and has not answered
  };
  using Key = std::pair<std::uint64_t, TransportType>;

  std::atomic<std::size_t> entries_used_{0};  // nothing ever failed: no lock is taken
  std::mutex mutex_;
  std::map<Key, State> states_;
};

}  // namespace larder::transfer
