// SPDX-License-Identifier: Apache-2.0
#include "transfer/breaker.h"

#include <algorithm>
#include <limits>

namespace larder::transfer {

TransportSet Breakers::open_for(SegmentId target, env::Nanos now) {
  TransportSet open;
  if (entries_used_.load(std::memory_order_acquire) == 0) return open;
  const std::lock_guard lock(mutex_);
  const auto first = states_.lower_bound(Key{target.value, TransportType::kUnspecified});
  for (auto at = first; at != states_.end() && at->first.first == target.value; ++at) {
    State& state = at->second;
    if (state.failures < kFailuresMax) continue;
    if (now < state.open_until) {
      open.add(at->first.second);
    } else {
      state.open_until = now + state.open_for;  // others wait for what the probe says
      state.probing = true;
    }
  }
  return open;
}

void Breakers::failed(SegmentId target, TransportType transport, env::Nanos now) {
  const std::lock_guard lock(mutex_);
  const Key key{target.value, transport};
  auto at = states_.find(key);
  if (at == states_.end()) {
    if (states_.size() == kEntriesMax) return;
    at = states_.emplace(key, State{}).first;
    entries_used_.store(states_.size(), std::memory_order_release);
  }
  State& state = at->second;
  if (state.failures < kFailuresMax) {
    if (++state.failures < kFailuresMax) return;
  } else if (!state.probing) {
    return;  // it was under way when the breaker opened, and tells nothing new
  }
  state.probing = false;
  state.open_for = std::clamp(state.open_for * 2, kOpenMin, kOpenMax);
  state.open_until = now + state.open_for;
}

void Breakers::worked(SegmentId target, TransportType transport) {
  if (entries_used_.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(mutex_);
  states_.erase(Key{target.value, transport});
  entries_used_.store(states_.size(), std::memory_order_release);
}

void Breakers::forget(SegmentId target) {
  const std::lock_guard lock(mutex_);
  const auto first = states_.lower_bound(Key{target.value, TransportType::kUnspecified});
  auto last = first;
  while (last != states_.end() && last->first.first == target.value) ++last;
  states_.erase(first, last);
  entries_used_.store(states_.size(), std::memory_order_release);
}

}  // namespace larder::transfer
