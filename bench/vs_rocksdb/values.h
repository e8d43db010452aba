// SPDX-License-Identifier: Apache-2.0
// The same keys and values for all stores.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "block/aligned_buffer.h"
#include "larder/status.h"

namespace larder::vs_rocksdb {

// "block-" and 16 hex digits that tell nothing of the order.
std::string key_of(std::uint64_t number);

// Random bytes, and in the front the number: no two values are alike, and none can be compressed.
class Values {
 public:
  // `slots` values at a time are in memory. `blank`: for reading into, with nothing in it.
  static Result<Values> create(std::uint64_t value_bytes, std::uint64_t slots, bool blank = false);
  // Value `number`, in the memory of slot `number % slots`.
  std::span<const std::byte> make(std::uint64_t number);
  std::span<std::byte> slot(std::uint64_t index) noexcept;
  std::uint64_t slots() const noexcept { return slots_; }

 private:
  block::AlignedBuffer memory_;
  std::uint64_t value_bytes_ = 0;
  std::uint64_t slots_ = 0;
};

// kCorrupt: these are not the bytes of that value. Looks at length and number: the stores verify
// their checksums.
Result<void> check_value(std::uint64_t number, std::span<const std::byte> bytes,
                         std::uint64_t value_bytes);
// 0 .. count - 1, shuffled, always the same.
std::vector<std::uint64_t> shuffled(std::uint64_t count);

}  // namespace larder::vs_rocksdb
