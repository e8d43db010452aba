// SPDX-License-Identifier: Apache-2.0
// Which parts of a segment or a device are taken. It hands out offsets and never touches what lies
// there.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "larder/status.h"

namespace larder {

// One range that is in use. Keep it whole: free() checks every field against what it gave out.
struct Allocation {
  std::uint64_t offset = 0;  // bytes from the start of the segment
  std::uint64_t size = 0;    // bytes taken: the request, rounded up
  std::uint32_t node = 0;
  // Differs when a node is reused (in all but one of 65,536 times): a late second free is seen.
  std::uint16_t tag = 0;

  bool operator==(const Allocation&) const = default;
};

// Two-level segregated fit: free blocks hang in bins, eight per power of two, found by bitmaps;
// neighbours merge at once when freed. allocate() and free() take constant time.
// Not thread safe: the caller holds a lock. Always: used() + free_bytes() == capacity().
class OffsetAllocator {
 public:
  static constexpr std::uint64_t kUnitBytes = 64;               // of every offset and size
  static constexpr std::uint64_t kPageBytes = 4096;             // of large ones, for DMA
  static constexpr std::uint64_t kPagedSizeMin = 32ULL << 10;   // from here on they are large
  static constexpr std::uint64_t kCapacityMax = 64ULL << 40;    // 64 TiB
  static constexpr std::uint32_t kNodesDefaultMax = 1U << 28U;  // 8 GiB of nodes

  // `capacity` bytes, a multiple of kUnitBytes. Each allocation and each free gap needs a node of
  // 32 bytes; beyond `nodes_max` of them allocate() answers "full". Error: kInvalidArgument.
  static Result<OffsetAllocator> create(std::uint64_t capacity,
                                        std::uint32_t nodes_max = kNodesDefaultMax);

  // What a request of `size` bytes takes.
  static std::uint64_t rounded(std::uint64_t size) noexcept;

  // Empty when no free block fits, when `size` is 0, and when nodes ran out. A block that needs a
  // look beyond kScanMax candidates of nearly its own size may be missed.
  std::optional<Allocation> allocate(std::uint64_t size) noexcept;

  // Up to `size` bytes, in the longest free block that is found at once: within an eighth of the
  // longest there is. For who can do with several pieces. Empty when nothing is free.
  std::optional<Allocation> allocate_longest(std::uint64_t size) noexcept;

  // Exactly these bytes, which lie after all that is in use. For who builds an allocator from
  // ranges that are known, in order of offset. Empty: not multiples of kUnitBytes, not behind
  // everything, beyond the end, or nodes ran out.
  std::optional<Allocation> allocate_at(std::uint64_t offset, std::uint64_t size) noexcept;

  // False, and nothing changed, when `allocation` is not exactly one that is in use now.
  bool free(const Allocation& allocation) noexcept;
  bool in_use(const Allocation& allocation) const noexcept;

  std::uint64_t capacity() const noexcept { return capacity_; }
  std::uint64_t used() const noexcept { return used_; }
  std::uint64_t free_bytes() const noexcept { return capacity_ - used_; }
  std::uint64_t allocations() const noexcept { return allocations_; }
  std::uint64_t free_blocks() const noexcept { return free_blocks_; }
  // Bytes of the largest free block. Walks the highest bin: for metrics, not for every request.
  std::uint64_t largest_free() const noexcept;
  // Memory that the nodes take, spare ones included.
  std::uint64_t report_node_bytes() const noexcept;

  // Walks everything; empty when all is well, else what is wrong. For tests and debugging.
  std::string check() const;

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;
  static constexpr std::uint32_t kUsed = 0xFFFFFFFEU;     // in bin_prev: allocated
  static constexpr std::uint32_t kSpare = 0xFFFFFFFDU;    // in bin_prev: no block, may be recycled
  static constexpr std::uint32_t kChunkNodes = 1U << 12;  // 128 KiB a chunk
  static constexpr std::uint32_t kScanMax = 64;
  static constexpr std::uint32_t kSubBins = 8;
  static constexpr std::uint32_t kRows = 40;

  // A block, used or free. Blocks cover the segment without gaps, linked in address order.
  struct Node {
    std::uint64_t offset;
    std::uint64_t size;
    std::uint32_t before;  // neighbours by address
    std::uint32_t after;
    std::uint32_t bin_prev;  // neighbours in the bin; kUsed and kSpare mark the other states
    std::uint32_t bin_next;  // when used: the tag; when spare: the next spare
  };
  static_assert(sizeof(Node) == 32);
  struct Bin {
    std::uint32_t row;
    std::uint32_t column;
  };

  OffsetAllocator(std::uint64_t capacity, std::uint32_t nodes_max) noexcept
      : capacity_(capacity), nodes_max_(nodes_max) {}

  static Bin bin_of(std::uint64_t size) noexcept;        // the bin in which a block of `size` hangs
  static Bin bin_at_least(std::uint64_t size) noexcept;  // the first whose blocks all hold `size`
  static std::uint64_t aligned_start(const Node& node, std::uint64_t size) noexcept;
  static bool fits(const Node& node, std::uint64_t size) noexcept;

  Node& at(std::uint32_t id) noexcept { return chunks_[id / kChunkNodes][id % kChunkNodes]; }
  const Node& at(std::uint32_t id) const noexcept {
    return chunks_[id / kChunkNodes][id % kChunkNodes];
  }
  bool reserve_spares(std::uint32_t count) noexcept;
  std::uint32_t take_spare() noexcept;
  void give_spare(std::uint32_t id) noexcept;
  void hang(std::uint32_t id) noexcept;
  void unhang(std::uint32_t id) noexcept;
  std::uint32_t first_from(Bin bin) const noexcept;
  std::uint32_t find(std::uint64_t size) const noexcept;
  std::uint32_t scan(std::uint64_t size) const noexcept;
  std::uint32_t split_off(std::uint32_t id, std::uint64_t at_offset) noexcept;
  void merge_after(std::uint32_t id) noexcept;
  Allocation take(std::uint32_t id, std::uint64_t start, std::uint64_t size) noexcept;
  std::string check_bins(std::uint64_t free_blocks) const;

  std::uint64_t capacity_;
  std::uint32_t nodes_max_;
  std::uint64_t used_ = 0;
  std::uint64_t allocations_ = 0;
  std::uint64_t free_blocks_ = 0;
  std::uint32_t last_ = 0;  // the block at the end of the segment
  std::vector<std::unique_ptr<Node[]>> chunks_;
  std::uint32_t spare_head_ = kNone;
  std::uint32_t spare_count_ = 0;
  std::uint32_t nodes_made_ = 0;
  std::uint32_t next_tag_ = 1;
  std::uint64_t rows_ = 0;  // bit r: some bin of row r holds a block
  std::array<std::uint8_t, kRows> columns_{};
  std::array<std::array<std::uint32_t, kSubBins>, kRows> heads_{};
};

}  // namespace larder
