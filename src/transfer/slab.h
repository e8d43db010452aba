// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/spin_lock.h"

namespace larder::transfer {

// Objects that are reused and whose memory is never given back: whoever holds an index, however
// old, may look at the object and find out by its generation that it is another one now. Any
// thread. T is default-constructed once, when its place is first used.
template <class T>
class Slab {
 public:
  explicit Slab(std::uint32_t objects_max)
      : objects_max_(objects_max), chunks_((objects_max + kChunk - 1) / kChunk) {}

  // Null when there never was such an object.
  T* at(std::uint32_t index) const noexcept {
    if (index / kChunk >= chunks_.size()) return nullptr;
    T* const chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
    return chunk != nullptr ? chunk + index % kChunk : nullptr;
  }
  // Nothing when all are in use.
  std::optional<std::uint32_t> take() {
    const std::lock_guard lock(lock_);
    if (!free_.empty()) {
      const std::uint32_t index = free_.back();
      free_.pop_back();
      return index;
    }
    if (used_ == objects_max_) return std::nullopt;
    if (used_ % kChunk == 0) {
      owned_.push_back(std::make_unique<T[]>(kChunk));
      free_.reserve(owned_.size() * kChunk);
      chunks_[used_ / kChunk].store(owned_.back().get(), std::memory_order_release);
    }
    return used_++;
  }
  void give(std::uint32_t index) noexcept {
    const std::lock_guard lock(lock_);
    free_.push_back(index);
  }
  std::uint32_t in_use() const {
    const std::lock_guard lock(lock_);
    return used_ - static_cast<std::uint32_t>(free_.size());
  }

 private:
  static constexpr std::uint32_t kChunk = 256;
  const std::uint32_t objects_max_;
  std::vector<std::atomic<T*>> chunks_;
  mutable SpinLock lock_;  // the rest
  std::vector<std::unique_ptr<T[]>> owned_;
  std::vector<std::uint32_t> free_;
  std::uint32_t used_ = 0;
};

}  // namespace larder::transfer
