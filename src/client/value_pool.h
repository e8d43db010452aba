// SPDX-License-Identifier: Apache-2.0
// Memory for values that a client owns: kept when let go, by powers of two, up to a bound.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "larder/status.h"
#include "larder/value.h"

namespace larder::client {

class ValuePool : public std::enable_shared_from_this<ValuePool> {
 public:
  static constexpr std::size_t kKeptBytesMax = 128 << 20;
  ~ValuePool();
  // Contents are arbitrary. kExhausted when there is no memory.
  Result<Value> take(std::size_t bytes);
  void give_back(std::byte* memory, std::size_t capacity) noexcept;

 private:
  static constexpr std::size_t kClasses = 33;  // 2^0 .. 2^32
  static std::byte* allocate(std::size_t capacity) noexcept;

  std::mutex mutex_;
  std::array<std::vector<std::byte*>, kClasses> kept_;
  std::size_t kept_bytes_ = 0;
};

}  // namespace larder::client
