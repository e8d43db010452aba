// SPDX-License-Identifier: Apache-2.0
#include "nvmf/spdk/dma_memory.h"

#include <algorithm>

#include "nvmf/spdk/environment.h"

namespace larder::nvmf {
namespace {

constexpr std::size_t kPartAlignment = 4096;

bool is_within(const block::Piece& piece, std::span<std::byte> range) noexcept {
  const std::byte* const end = range.data() + range.size();
  return piece.data >= range.data() && piece.data < end &&
         piece.bytes <= static_cast<std::size_t>(end - piece.data);
}

}  // namespace

DmaMemory::~DmaMemory() {
  for (const Entry& entry : entries_) unregister_memory(entry.registered);
}

bool DmaMemory::add(std::span<std::byte> memory) {
  const std::span<std::byte> registered = register_memory(memory);
  if (registered.empty()) return false;
  const std::lock_guard lock(mutex_);
  entries_.push_back({memory, registered});
  version_.fetch_add(1, std::memory_order_release);
  return true;
}

void DmaMemory::remove(std::span<std::byte> memory) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.given.data() == memory.data() && entry.given.size() == memory.size();
  });
  if (found == entries_.end()) return;
  unregister_memory(found->registered);
  entries_.erase(found);
  version_.fetch_add(1, std::memory_order_release);
}

std::vector<std::span<std::byte>> DmaMemory::ranges() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::span<std::byte>> out;
  for (const Entry& entry : entries_) out.push_back(entry.registered);
  return out;
}

bool all_within(std::span<const block::Piece> pieces,
                std::span<const std::span<std::byte>> ranges) noexcept {
  return std::all_of(pieces.begin(), pieces.end(), [&](const block::Piece& piece) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](std::span<std::byte> range) { return is_within(piece, range); });
  });
}

Result<BouncePool> BouncePool::create(std::size_t parts, std::size_t part_bytes) {
  BouncePool out;
  out.part_bytes_ = part_bytes;
  if (parts == 0) return out;
  LARDER_ASSIGN(SpdkMemory memory, allocate_memory(parts * part_bytes, kPartAlignment));
  out.memory_ = std::move(memory);
  for (std::size_t i = parts; i-- > 0;) out.free_.push_back(out.memory_.get() + i * part_bytes);
  return out;
}

}  // namespace larder::nvmf
