// SPDX-License-Identifier: Apache-2.0
#include "fileio/fixed_buffers.h"

#include <sys/uio.h>

#include <algorithm>

namespace larder::fileio {
namespace {

constexpr std::size_t kBytesMax = std::size_t{1} << 30;  // the kernel's limit for one buffer

}  // namespace

void FixedBuffers::set_up(io_uring& ring) {
  if (::io_uring_register_buffers_sparse(&ring, kCountMax) != 0) return;
  ring_ = &ring;
  const std::lock_guard lock(mutex_);
  buffers_.reserve(kCountMax);
  for (unsigned i = kCountMax; i > 0; --i) free_.push_back(i - 1);
}

std::vector<FixedBuffers::Buffer>::iterator FixedBuffers::after(const std::byte* address) noexcept {
  return std::upper_bound(buffers_.begin(), buffers_.end(), address,
                          [](const std::byte* p, const Buffer& b) { return p < b.begin; });
}

// Registering takes the ring's lock in the kernel, nothing of liburing's state: the thread that
// uses the ring may go on meanwhile.
bool FixedBuffers::add(std::span<std::byte> memory) noexcept {
  if (memory.empty() || memory.size() > kBytesMax) return false;
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return false;
  const unsigned index = free_.back();
  const iovec vector{memory.data(), memory.size()};
  if (::io_uring_register_buffers_update_tag(ring_, index, &vector, nullptr, 1) != 1) return false;
  free_.pop_back();
  buffers_.insert(after(memory.data()), {memory.data(), memory.size(), index});  // reserved
  count_.store(buffers_.size(), std::memory_order_release);
  return true;
}

void FixedBuffers::remove(std::span<std::byte> memory) noexcept {
  const std::lock_guard lock(mutex_);
  auto at = after(memory.data());
  if (at == buffers_.begin()) return;
  --at;
  if (at->begin != memory.data() || at->bytes != memory.size()) return;
  const iovec none{nullptr, 0};
  // A dead ring keeps the pages until it goes; its number is not used again then.
  if (::io_uring_register_buffers_update_tag(ring_, at->index, &none, nullptr, 1) == 1) {
    free_.push_back(at->index);
  }
  buffers_.erase(at);
  count_.store(buffers_.size(), std::memory_order_release);
}

// Without the lock where there is nothing to find.
FixedBuffers::Lookup::Lookup(FixedBuffers& buffers) : buffers_(buffers) {
  if (buffers.count_.load(std::memory_order_acquire) > 0) lock_ = std::unique_lock(buffers.mutex_);
}

int FixedBuffers::Lookup::index_of(const IoOp& op) const noexcept {
  if (!lock_.owns_lock()) return -1;
  const auto next = buffers_.after(op.memory);
  if (next == buffers_.buffers_.begin()) return -1;
  const Buffer& found = *std::prev(next);
  const auto skip = static_cast<std::size_t>(op.memory - found.begin);
  const bool inside = skip < found.bytes && op.bytes <= found.bytes - skip;
  return inside ? static_cast<int>(found.index) : -1;
}

}  // namespace larder::fileio
