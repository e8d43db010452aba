// SPDX-License-Identifier: Apache-2.0
// Which of the engine's memory one ring has pinned: what its operations have used, in parts.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "fileio/file_queue.h"
#include "transfer/memory_table.h"

namespace larder::transfer {

// Pinning at each operation is most of what a large one costs in the kernel. Done with the first
// use of a part instead of at register_memory(): memory that no file ever sees stays free to be
// paged, and counts towards no limit.
class RingMemory {
 public:
  // What is pinned in one go: about 5 ms.
  static constexpr std::uint64_t kPartBytes = 64U << 20U;

  // Both outlive it. `table` null: nothing is ever pinned.
  RingMemory(const MemoryTable* table, fileio::FileQueue& queue) : table_(table), queue_(queue) {}

  // An operation with this memory, which lies in one pinned range, is about to begin.
  void use(const std::byte* memory, std::uint64_t bytes);
  // A range that is no longer registered, and that nothing in flight uses. Any thread.
  void forget(std::span<const std::byte> range) noexcept;

  // Parts that the kernel would not pin (a memory-lock limit, say): these work as others do,
  // slower.
  std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }
  std::uint64_t pinned_bytes() const noexcept { return pinned_.load(std::memory_order_relaxed); }

 private:
  struct Part {
    std::byte* begin = nullptr;
    std::uint64_t bytes = 0;
    bool pinned = false;
  };
  std::vector<Part>::iterator after(const std::byte* address) noexcept;
  void pin(Part part);

  const MemoryTable* const table_;
  fileio::FileQueue& queue_;
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> pinned_{0};
  std::mutex mutex_;         // before the table's own
  std::vector<Part> parts_;  // by address
};

}  // namespace larder::transfer
