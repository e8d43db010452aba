// SPDX-License-Identifier: Apache-2.0
#include "transfer/ring_memory.h"

#include <algorithm>

namespace larder::transfer {

std::vector<RingMemory::Part>::iterator RingMemory::after(const std::byte* address) noexcept {
  return std::upper_bound(parts_.begin(), parts_.end(), address,
                          [](const std::byte* p, const Part& part) { return p < part.begin; });
}

// One that goes over the end of its part is left to be pinned each time.
void RingMemory::use(const std::byte* memory, std::uint64_t bytes) {
  if (table_ == nullptr) return;
  const std::lock_guard lock(mutex_);  // contended only where memory is unregistered
  const auto next = after(memory);
  if (next != parts_.begin()) {
    const Part& known = *std::prev(next);
    if (static_cast<std::uint64_t>(memory - known.begin) < known.bytes) return;
  }
  const RangePin range = table_->pin(memory, bytes);
  if (!range) return;
  std::byte* const base = range.get()->base;
  const std::uint64_t from = static_cast<std::uint64_t>(memory - base) / kPartBytes * kPartBytes;
  pin({base + from, std::min(kPartBytes, range.get()->bytes - from), false});
}

void RingMemory::pin(Part part) {
  part.pinned = queue_.add_buffer({part.begin, part.bytes});
  if (part.pinned) {
    pinned_.fetch_add(part.bytes, std::memory_order_relaxed);
  } else {
    refused_.fetch_add(1, std::memory_order_relaxed);
  }
  parts_.insert(after(part.begin), part);  // refused ones too, so that they are not tried again
}

void RingMemory::forget(std::span<const std::byte> range) noexcept {
  const std::lock_guard lock(mutex_);
  const auto first =
      std::lower_bound(parts_.begin(), parts_.end(), range.data(),
                       [](const Part& part, const std::byte* p) { return part.begin < p; });
  auto last = first;
  for (; last != parts_.end() && last->begin < range.data() + range.size(); ++last) {
    if (!last->pinned) continue;
    queue_.remove_buffer({last->begin, last->bytes});
    pinned_.fetch_sub(last->bytes, std::memory_order_relaxed);
  }
  parts_.erase(first, last);
}

}  // namespace larder::transfer
