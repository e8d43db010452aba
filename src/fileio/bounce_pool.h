// SPDX-License-Identifier: Apache-2.0
// Aligned memory of the queue's own, in pieces of one size, for transfers that cannot go straight
// to the caller's.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "larder/status.h"

namespace larder::fileio {

// Not thread safe.
class BouncePool {
 public:
  // `count` pieces of `bytes` each, a power of two from one page up; pieces start at multiples of
  // `bytes`. kExhausted: no memory.
  static Result<std::unique_ptr<BouncePool>> create(std::size_t bytes, std::size_t count);
  ~BouncePool();
  BouncePool(const BouncePool&) = delete;
  BouncePool& operator=(const BouncePool&) = delete;

  std::size_t bytes() const noexcept { return bytes_; }
  // nullptr: all are in use.
  std::byte* lease() noexcept;
  void give_back(std::byte* piece) noexcept;
  // Never frees the memory: something may still write to it. For good.
  void leak() noexcept { leaked_ = true; }

 private:
  BouncePool(void* mapping, std::size_t mapped, std::byte* first, std::size_t bytes,
             std::size_t count);

  void* mapping_;
  std::size_t mapped_;  // bytes
  std::size_t bytes_;
  bool leaked_ = false;
  std::vector<std::byte*> free_;
};

}  // namespace larder::fileio
