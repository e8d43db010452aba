// SPDX-License-Identifier: Apache-2.0
// Memory for data on the way between sockets and devices, in chunks. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "block/aligned_buffer.h"

namespace larder::nvmf {

class ChunkPool {
 public:
  static constexpr std::size_t kChunkBytes = 32U << 10U;

  explicit ChunkPool(std::uint64_t bytes_max)
      : chunks_max_(static_cast<std::size_t>(bytes_max / kChunkBytes)) {}

  std::size_t chunks_max() const noexcept { return chunks_max_; }
  std::size_t taken() const noexcept { return all_.size() - free_.size(); }

  // Appends `count` chunks to `into`, or none.
  bool take(std::size_t count, std::vector<std::byte*>& into) {
    while (free_.size() < count && all_.size() < chunks_max_ && grow()) {
    }
    if (free_.size() < count) return false;
    into.insert(into.end(), free_.end() - static_cast<std::ptrdiff_t>(count), free_.end());
    free_.resize(free_.size() - count);
    return true;
  }
  void give_back(std::vector<std::byte*>& from) {
    free_.insert(free_.end(), from.begin(), from.end());
    from.clear();
  }

 private:
  bool grow() {
    auto chunk = block::AlignedBuffer::create(kChunkBytes, 4096);
    if (!chunk) return false;
    free_.reserve(all_.size() + 1);
    free_.push_back(chunk->data());
    all_.push_back(std::move(*chunk));
    return true;
  }

  const std::size_t chunks_max_;
  std::vector<block::AlignedBuffer> all_;
  std::vector<std::byte*> free_;
};

}  // namespace larder::nvmf
