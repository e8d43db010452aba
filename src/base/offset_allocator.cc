// SPDX-License-Identifier: Apache-2.0
#include "base/offset_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <new>

namespace larder {
namespace {

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t step) noexcept {
  return (value + step - 1) / step * step;
}
constexpr std::uint64_t alignment_of(std::uint64_t size) noexcept {
  return size >= OffsetAllocator::kPagedSizeMin ? OffsetAllocator::kPageBytes
                                                : OffsetAllocator::kUnitBytes;
}

}  // namespace

Result<OffsetAllocator> OffsetAllocator::create(std::uint64_t capacity, std::uint32_t nodes_max) {
  if (capacity == 0 || capacity > kCapacityMax || capacity % kUnitBytes != 0) {
    return fail(Code::kInvalidArgument,
                fmt::format("segment capacity {} must be a multiple of {} from {} to {} bytes",
                            capacity, kUnitBytes, kUnitBytes, kCapacityMax));
  }
  if (nodes_max < 3 || nodes_max > kNodesDefaultMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("nodes_max {} must be from 3 to {}", nodes_max, kNodesDefaultMax));
  }
  OffsetAllocator made(capacity, nodes_max);
  for (auto& row : made.heads_) row.fill(kNone);
  if (!made.reserve_spares(1)) {
    return fail(Code::kExhausted, "no memory for the nodes of a segment's allocator");
  }
  const std::uint32_t id = made.take_spare();  // node 0, which is always the block at offset 0
  made.at(id) = Node{0, capacity, kNone, kNone, kNone, kNone};
  made.hang(id);
  return made;
}

std::uint64_t OffsetAllocator::rounded(std::uint64_t size) noexcept {
  return round_up(size, alignment_of(size));
}

// Units below 8 have a bin each; above, a row is a power of two cut into eight.
OffsetAllocator::Bin OffsetAllocator::bin_of(std::uint64_t size) noexcept {
  const std::uint64_t units = size / kUnitBytes;
  if (units < kSubBins) return {0, static_cast<std::uint32_t>(units)};
  const auto log = static_cast<std::uint32_t>(std::bit_width(units)) - 1;
  return {log - 2, static_cast<std::uint32_t>(units >> (log - 3)) & (kSubBins - 1)};
}

OffsetAllocator::Bin OffsetAllocator::bin_at_least(std::uint64_t size) noexcept {
  const std::uint64_t units = size / kUnitBytes;
  if (units < kSubBins) return bin_of(size);
  const auto log = static_cast<std::uint32_t>(std::bit_width(units)) - 1;
  return bin_of(size + ((1ULL << (log - 3)) - 1) * kUnitBytes);
}

std::uint64_t OffsetAllocator::aligned_start(const Node& node, std::uint64_t size) noexcept {
  return round_up(node.offset, alignment_of(size));
}

bool OffsetAllocator::fits(const Node& node, std::uint64_t size) noexcept {
  return aligned_start(node, size) + size <= node.offset + node.size;
}

bool OffsetAllocator::reserve_spares(std::uint32_t count) noexcept {
  while (spare_count_ < count) {
    const std::uint32_t more = std::min(kChunkNodes, nodes_max_ - nodes_made_);
    if (more == 0) return false;
    std::unique_ptr<Node[]> chunk(new (std::nothrow) Node[kChunkNodes]);
    if (!chunk) return false;
    try {
      chunks_.push_back(std::move(chunk));
    } catch (const std::exception&) {
      return false;
    }
    nodes_made_ += more;
    for (std::uint32_t id = nodes_made_; id-- > nodes_made_ - more;) give_spare(id);
  }
  return true;
}

std::uint32_t OffsetAllocator::take_spare() noexcept {
  const std::uint32_t id = spare_head_;
  spare_head_ = at(id).bin_next;
  --spare_count_;
  return id;
}

void OffsetAllocator::give_spare(std::uint32_t id) noexcept {
  at(id) = Node{0, 0, kNone, kNone, kSpare, spare_head_};
  spare_head_ = id;
  ++spare_count_;
}

void OffsetAllocator::hang(std::uint32_t id) noexcept {
  Node& node = at(id);
  const Bin bin = bin_of(node.size);
  std::uint32_t& head = heads_[bin.row][bin.column];
  node.bin_prev = kNone;
  node.bin_next = head;
  if (head != kNone) at(head).bin_prev = id;
  head = id;
  columns_[bin.row] = static_cast<std::uint8_t>(columns_[bin.row] | (1U << bin.column));
  rows_ |= 1ULL << bin.row;
  ++free_blocks_;
}

void OffsetAllocator::unhang(std::uint32_t id) noexcept {
  const Node& node = at(id);
  if (node.bin_next != kNone) at(node.bin_next).bin_prev = node.bin_prev;
  if (node.bin_prev != kNone) {
    at(node.bin_prev).bin_next = node.bin_next;
  } else {
    const Bin bin = bin_of(node.size);
    heads_[bin.row][bin.column] = node.bin_next;
    if (node.bin_next == kNone) {
      columns_[bin.row] = static_cast<std::uint8_t>(columns_[bin.row] & ~(1U << bin.column));
      if (columns_[bin.row] == 0) rows_ &= ~(1ULL << bin.row);
    }
  }
  --free_blocks_;
}

// The head of the first bin from `bin` upwards that holds a block, or kNone.
std::uint32_t OffsetAllocator::first_from(Bin bin) const noexcept {
  if (bin.row >= kRows) return kNone;
  const std::uint32_t columns = columns_[bin.row] & (0xFFU << bin.column);
  if (columns != 0) return heads_[bin.row][static_cast<std::size_t>(std::countr_zero(columns))];
  const std::uint64_t rows = rows_ & (~0ULL << bin.row << 1U);
  if (rows == 0) return kNone;
  const auto row = static_cast<std::size_t>(std::countr_zero(rows));
  return heads_[row][static_cast<std::size_t>(std::countr_zero(0U + columns_[row]))];
}

std::uint32_t OffsetAllocator::find(std::uint64_t size) const noexcept {
  // A block of the next bin is surely long enough; whether its start suits a large request is seen
  // by looking. Only when it does not, ask for one that is long enough wherever it starts.
  std::uint32_t id = first_from(bin_at_least(size));
  if (id != kNone && fits(at(id), size)) return id;
  const std::uint64_t slack = alignment_of(size) - kUnitBytes;
  if (id != kNone && slack > 0) id = first_from(bin_at_least(size + slack));
  if (id != kNone && fits(at(id), size)) return id;
  return scan(size);
}

// Blocks of nearly the wanted size may fit too: look at some in each bin that is no sure fit.
std::uint32_t OffsetAllocator::scan(std::uint64_t size) const noexcept {
  Bin bin = bin_of(size);
  const Bin end = bin_at_least(size + alignment_of(size) - kUnitBytes);
  while (bin.row < kRows && (bin.row < end.row || bin.column <= end.column)) {
    std::uint32_t id = heads_[bin.row][bin.column];
    for (std::uint32_t seen = 0; id != kNone && seen < kScanMax; ++seen) {
      if (fits(at(id), size)) return id;
      id = at(id).bin_next;
    }
    if (bin.row == end.row && bin.column == end.column) break;
    bin = bin.column + 1 < kSubBins ? Bin{bin.row, bin.column + 1} : Bin{bin.row + 1, 0};
  }
  return kNone;
}

// Cuts block `id` at `at_offset`; the left part keeps the id. Returns the right part.
std::uint32_t OffsetAllocator::split_off(std::uint32_t id, std::uint64_t at_offset) noexcept {
  const std::uint32_t right = take_spare();
  Node& left = at(id);
  at(right) =
      Node{at_offset, left.offset + left.size - at_offset, id, left.after, kUsed, next_tag_};
  if (left.after != kNone) at(left.after).before = right;
  if (left.after == kNone) last_ = right;
  left.after = right;
  left.size = at_offset - left.offset;
  return right;
}

// Block `id` swallows its right neighbour, which hangs in no bin any more.
void OffsetAllocator::merge_after(std::uint32_t id) noexcept {
  Node& node = at(id);
  const std::uint32_t gone = node.after;
  node.size += at(gone).size;
  node.after = at(gone).after;
  if (node.after != kNone) at(node.after).before = id;
  if (node.after == kNone) last_ = id;
  give_spare(gone);
}

std::optional<Allocation> OffsetAllocator::allocate(std::uint64_t size) noexcept {
  if (size == 0 || size > capacity_) return std::nullopt;
  const std::uint64_t want = rounded(size);
  std::uint32_t id = find(want);
  if (id == kNone || !reserve_spares(2)) return std::nullopt;
  return take(id, aligned_start(at(id), want), want);
}

// Of a free block that holds the range; two nodes are spare.
Allocation OffsetAllocator::take(std::uint32_t id, std::uint64_t start,
                                 std::uint64_t size) noexcept {
  unhang(id);
  if (start > at(id).offset) {
    const std::uint32_t gap = id;
    id = split_off(gap, start);
    hang(gap);
  }
  if (at(id).size > size) hang(split_off(id, start + size));
  Node& node = at(id);
  node.bin_prev = kUsed;
  node.bin_next = next_tag_++;
  used_ += size;
  ++allocations_;
  return Allocation{start, size, id, static_cast<std::uint16_t>(node.bin_next)};
}

std::optional<Allocation> OffsetAllocator::allocate_longest(std::uint64_t size) noexcept {
  if (size == 0 || rows_ == 0) return std::nullopt;
  const auto row = static_cast<std::size_t>(std::bit_width(rows_)) - 1;
  const auto column = static_cast<std::size_t>(std::bit_width(0U + columns_[row])) - 1;
  const std::uint32_t id = heads_[row][column];
  const std::uint64_t want = rounded(std::min(size, capacity_));
  const std::uint64_t start = aligned_start(at(id), want);
  const std::uint64_t end = at(id).offset + at(id).size;
  if (start >= end || !reserve_spares(2)) return std::nullopt;
  // What is cut off may be small, and then need less than this alignment; it has it all the same.
  const std::uint64_t unit = alignment_of(want);
  const std::uint64_t most = (end - start) / unit * unit;
  if (most == 0) return std::nullopt;
  return take(id, start, std::min(want, most));
}

std::optional<Allocation> OffsetAllocator::allocate_at(std::uint64_t offset,
                                                       std::uint64_t size) noexcept {
  const Node& node = at(last_);
  const bool fits = node.bin_prev != kUsed && size > 0 && offset % kUnitBytes == 0 &&
                    size % kUnitBytes == 0 && offset >= node.offset && offset < capacity_ &&
                    size <= capacity_ - offset;
  if (!fits || !reserve_spares(2)) return std::nullopt;
  return take(last_, offset, size);
}

bool OffsetAllocator::in_use(const Allocation& allocation) const noexcept {
  if (allocation.node >= nodes_made_) return false;
  const Node& node = at(allocation.node);
  return node.bin_prev == kUsed && static_cast<std::uint16_t>(node.bin_next) == allocation.tag &&
         node.offset == allocation.offset && node.size == allocation.size;
}

bool OffsetAllocator::free(const Allocation& allocation) noexcept {
  if (!in_use(allocation)) return false;
  std::uint32_t id = allocation.node;
  used_ -= allocation.size;
  --allocations_;
  const std::uint32_t after = at(id).after;
  if (after != kNone && at(after).bin_prev != kUsed) {
    unhang(after);
    merge_after(id);
  }
  const std::uint32_t before = at(id).before;
  if (before != kNone && at(before).bin_prev != kUsed) {
    unhang(before);
    merge_after(before);
    id = before;
  }
  hang(id);
  return true;
}

std::uint64_t OffsetAllocator::largest_free() const noexcept {
  if (rows_ == 0) return 0;
  const auto row = static_cast<std::size_t>(std::bit_width(rows_)) - 1;
  const auto column = static_cast<std::size_t>(std::bit_width(0U + columns_[row])) - 1;
  std::uint64_t largest = 0;
  for (std::uint32_t id = heads_[row][column]; id != kNone; id = at(id).bin_next) {
    largest = std::max(largest, at(id).size);
  }
  return largest;
}

std::uint64_t OffsetAllocator::report_node_bytes() const noexcept {
  return chunks_.size() * kChunkNodes * sizeof(Node);
}

std::string OffsetAllocator::check() const {
  std::uint64_t end = 0;
  std::uint64_t used = 0;
  std::uint64_t allocations = 0;
  std::uint64_t free_blocks = 0;
  std::uint32_t before = kNone;
  bool before_free = false;
  for (std::uint32_t id = 0; id != kNone; id = at(id).after) {
    const Node& node = at(id);
    if (node.bin_prev == kSpare) return fmt::format("node {} is spare yet in the chain", id);
    if (node.offset != end)
      return fmt::format("node {} starts at {}, not {}", id, node.offset, end);
    if (node.before != before) return fmt::format("node {} does not link back", id);
    if (node.size == 0) return fmt::format("node {} is empty", id);
    const bool is_free = node.bin_prev != kUsed;
    if (is_free && before_free) return fmt::format("nodes {} and {} were not merged", before, id);
    used += is_free ? 0 : node.size;
    allocations += is_free ? 0 : 1;
    free_blocks += is_free ? 1 : 0;
    before_free = is_free;
    before = id;
    end += node.size;
  }
  if (end != capacity_) return fmt::format("blocks end at {}, not {}", end, capacity_);
  if (used != used_) return fmt::format("{} bytes used, counted {}", used, used_);
  if (allocations != allocations_) return "allocations miscounted";
  if (allocations + free_blocks + spare_count_ != nodes_made_) return "nodes were lost";
  return check_bins(free_blocks);
}

std::string OffsetAllocator::check_bins(std::uint64_t free_blocks) const {
  std::uint64_t hung = 0;
  for (std::uint32_t row = 0; row < kRows; ++row) {
    for (std::uint32_t column = 0; column < kSubBins; ++column) {
      const bool marked = (columns_[row] >> column & 1U) != 0;
      if (marked != (heads_[row][column] != kNone)) return "a bitmap differs from its bins";
      std::uint32_t prev = kNone;
      for (std::uint32_t id = heads_[row][column]; id != kNone; id = at(id).bin_next) {
        const Bin bin = bin_of(at(id).size);
        if (bin.row != row || bin.column != column) return fmt::format("node {} misplaced", id);
        if (at(id).bin_prev != prev) return fmt::format("node {} does not link back in bin", id);
        prev = id;
        ++hung;
      }
    }
    if ((rows_ >> row & 1U) != (columns_[row] != 0 ? 1U : 0U)) return "the row bitmap is wrong";
  }
  if (hung != free_blocks || hung != free_blocks_) return "a free block hangs in no bin";
  return {};
}

}  // namespace larder
