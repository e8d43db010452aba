// SPDX-License-Identifier: Apache-2.0
// The ranges of memory that transfers may touch. A range that a transfer uses is pinned, and a
// pinned range cannot be unregistered: that is the one place where lent memory is accounted for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <span>
#include <vector>

#include "larder/status.h"
#include "larder/transfer_types.h"

namespace larder::transfer {

struct MemoryRangeRecord {
  std::byte* base = nullptr;
  std::uint64_t bytes = 0;
  Location location;
  // What keeps the memory, when it is the engine's own: goes with the record.
  std::shared_ptr<void> owner;
  // The memfd that holds exactly this range, for peers on this machine; -1: none. The owner's.
  int shared_fd = -1;
  std::uint64_t shared_inode = 0;
  std::atomic<std::uint32_t> pins{0};

  bool holds(const void* address, std::uint64_t length) const noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const auto from = reinterpret_cast<std::uintptr_t>(base);
    return at >= from && length <= bytes && at - from <= bytes - length;
  }
};

// Unpins when destroyed. Movable.
class RangePin {
 public:
  RangePin() = default;
  explicit RangePin(MemoryRangeRecord& range) noexcept : range_(&range) {
    range_->pins.fetch_add(1, std::memory_order_relaxed);
  }
  RangePin(RangePin&& other) noexcept : range_(other.range_) { other.range_ = nullptr; }
  RangePin& operator=(RangePin&& other) noexcept {
    reset();
    range_ = other.range_;
    other.range_ = nullptr;
    return *this;
  }
  ~RangePin() { reset(); }
  void reset() noexcept {
    // Release: what was done to the memory comes before whoever sees it unpinned.
    if (range_ != nullptr) range_->pins.fetch_sub(1, std::memory_order_release);
    range_ = nullptr;
  }
  RangePin another() const noexcept { return range_ != nullptr ? RangePin(*range_) : RangePin(); }
  const MemoryRangeRecord* get() const noexcept { return range_; }
  explicit operator bool() const noexcept { return range_ != nullptr; }

 private:
  MemoryRangeRecord* range_ = nullptr;
};

// Any thread.
class MemoryTable {
 public:
  static constexpr std::size_t kRangesMax = 65536;

  // All or none. kAlreadyExists: overlaps a registered range, or another of these. kExhausted.
  Result<void> add(std::vector<std::unique_ptr<MemoryRangeRecord>> ranges);
  // All or none, by start address. kNotFound; kConflict: pinned. Gives the records back, so that
  // owned memory is released outside the lock.
  Result<std::vector<std::unique_ptr<MemoryRangeRecord>>> remove(std::span<void* const> addresses);

  // Looks ranges up while it lives; register and unregister wait meanwhile, so hold it briefly.
  class Reader {
   public:
    explicit Reader(const MemoryTable& table) : table_(table), lock_(table.mutex_) {}
    // Null unless one registered range holds all of it. Pin it to use it longer than the reader.
    // `guess`: a range found by this reader, often the right one again; may be null.
    MemoryRangeRecord* find(const void* address, std::uint64_t bytes,
                            MemoryRangeRecord* guess = nullptr) const noexcept;
    std::span<const std::unique_ptr<MemoryRangeRecord>> all() const noexcept {
      return table_.ranges_;
    }

   private:
    const MemoryTable& table_;
    std::shared_lock<std::shared_mutex> lock_;
  };
  RangePin pin(const void* address, std::uint64_t bytes) const;
  // Grows with each change of what is registered.
  std::uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }

 private:
  std::size_t position(const void* address) const noexcept;  // of the first range that ends after

  mutable std::shared_mutex mutex_;
  std::vector<std::unique_ptr<MemoryRangeRecord>> ranges_;  // by address
  std::atomic<std::uint64_t> generation_{1};
};

}  // namespace larder::transfer
