// SPDX-License-Identifier: Apache-2.0
// The memory that a device may move data into and out of without a copy in between.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "block/block_types.h"
#include "larder/status.h"

namespace larder::nvmf {

// What callers gave to BlockDevice::add_buffer(). Any thread.
class DmaMemory {
 public:
  DmaMemory() = default;
  ~DmaMemory();
  DmaMemory(const DmaMemory&) = delete;
  DmaMemory& operator=(const DmaMemory&) = delete;

  // False: nothing of it can be used.
  bool add(std::span<std::byte> memory);
  void remove(std::span<std::byte> memory);
  // Goes up with each change; so a queue that has a copy knows when to take a new one, and takes no
  // lock otherwise.
  std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  std::vector<std::span<std::byte>> ranges() const;

 private:
  struct Entry {
    std::span<std::byte> given;
    std::span<std::byte> registered;
  };
  std::atomic<std::uint64_t> version_{0};
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Entry> entries_;
};

// Whether all of the pieces lie within these, each in one of them.
bool all_within(std::span<const block::Piece> pieces,
                std::span<const std::span<std::byte>> ranges) noexcept;

// Buffers of equal length that a queue copies through where the caller's memory is not of that
// kind. Not thread safe.
class BouncePool {
 public:
  // None: an empty pool. kExhausted: SPDK has no memory.
  static Result<BouncePool> create(std::size_t parts, std::size_t part_bytes);

  std::byte* take() noexcept {  // nullptr: all are in use
    if (free_.empty()) return nullptr;
    std::byte* const out = free_.back();
    free_.pop_back();
    return out;
  }
  void give(std::byte* part) { free_.push_back(part); }
  std::size_t part_bytes() const noexcept { return part_bytes_; }

 private:
  std::shared_ptr<std::byte> memory_;
  std::vector<std::byte*> free_;
  std::size_t part_bytes_ = 0;
};

}  // namespace larder::nvmf
