// SPDX-License-Identifier: Apache-2.0
// Blocks of memory for the ends of values that do not fill theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace larder::client {

// One thread. Memory is kept for the next round.
class BounceBlocks {
 public:
  static constexpr std::size_t kBytesMax = 16U << 20U;

  // All are free again.
  void reset(std::uint32_t block_bytes) {
    if (block_bytes != block_bytes_) chunks_.clear();
    block_bytes_ = block_bytes;
    used_ = 0;
  }
  // Empty: kBytesMax are in use.
  std::span<std::byte> take() {
    const std::size_t chunk = used_ / kPerChunk;
    if ((used_ + 1) * block_bytes_ > kBytesMax) return {};
    if (chunk == chunks_.size()) {
      chunks_.push_back(std::make_unique<std::byte[]>(kPerChunk * block_bytes_));
    }
    return {chunks_[chunk].get() + used_++ % kPerChunk * block_bytes_, block_bytes_};
  }

 private:
  static constexpr std::size_t kPerChunk = 16;
  std::uint32_t block_bytes_ = 0;
  std::size_t used_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
};

}  // namespace larder::client
