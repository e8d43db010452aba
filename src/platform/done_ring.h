// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "platform/copy_engine.h"

namespace larder::platform {

// Ended copies until they are fetched; holds as many as an engine is deep. One thread.
class DoneRing {
 public:
  explicit DoneRing(std::size_t depth) : ring_(depth) {}

  std::size_t size() const noexcept { return count_; }
  // The engine's depth keeps this from ever being full.
  void push(CopyDone done) noexcept {
    ring_[(first_ + count_) % ring_.size()] = std::move(done);
    ++count_;
  }
  // Moves out the oldest, as many as fit; returns how many.
  std::size_t take(std::span<CopyDone> into) noexcept {
    const std::size_t n = std::min(into.size(), count_);
    for (std::size_t i = 0; i < n; ++i) {
      into[i] = std::move(ring_[first_]);
      first_ = (first_ + 1) % ring_.size();
    }
    count_ -= n;
    return n;
  }

 private:
  std::vector<CopyDone> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace larder::platform
