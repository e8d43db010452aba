// SPDX-License-Identifier: Apache-2.0
// Memory that local clients offered: windows to put from, and the hints of what they read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "env/fd.h"
#include "env/page_warmer.h"
#include "larder/status.h"
#include "tier/hot/segment.h"
#include "wire/window.h"

namespace larder::node {

// One client's memory, mapped. The data part is mapped read-only here: the node never writes into
// what the client gave, but for the one word that says how much it is done with.
class ClientBuffer {
 public:
  static Result<std::shared_ptr<ClientBuffer>> map(int fd, std::uint64_t bytes);
  ~ClientBuffer();
  ClientBuffer(const ClientBuffer&) = delete;
  ClientBuffer& operator=(const ClientBuffer&) = delete;

  // The bytes a descriptor names, or nullptr when it points outside of the data part.
  const std::byte* at(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  // One more descriptor is dealt with: its bytes may be overwritten by the client.
  void add_consumed() noexcept;
  // Calls `touch(slot)` for hints that came since the last call. Slots are not checked here.
  template <class Touch>
  void drain_hints(Touch touch) {
    const std::uint64_t head = ring().head.load(std::memory_order_acquire);
    // A head that jumped further than the ring is long only says that older hints are lost.
    if (head - seen_ > wire::kTouchSlots) seen_ = head - wire::kTouchSlots;
    for (; seen_ != head; ++seen_) {
      touch(ring().slots[seen_ % wire::kTouchSlots].load(std::memory_order_relaxed));
    }
  }

 private:
  ClientBuffer(tier::MappedSegment memory, wire::WindowHeader* header)
      : memory_(std::move(memory)), header_(header) {}
  const wire::TouchRing& ring() const noexcept {
    return *reinterpret_cast<const wire::TouchRing*>(memory_.data() + wire::kTouchRingAt);
  }

  tier::MappedSegment memory_;
  std::unique_ptr<env::PageWarmer> warmer_;  // of a large one; gone before the memory
  wire::WindowHeader* header_;
  std::uint64_t seen_ = 0;  // hints taken; under the registry's lock
};

// All of them, by id. Ids are random, so that one client does not hit another's by counting.
class ClientBuffers {
 public:
  static constexpr std::size_t kBuffersMax = 4096;
  // Maps and registers; the second of the pair keeps the registration.
  Result<std::pair<std::uint64_t, std::shared_ptr<void>>> adopt(env::Fd fd, std::uint64_t bytes);
  std::shared_ptr<ClientBuffer> find(std::uint64_t id) const;
  std::size_t size() const;
  template <class Touch>
  void drain_hints(Touch touch) {
    const std::lock_guard lock(mutex_);
    for (auto& [id, buffer] : buffers_) buffer->drain_hints(touch);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<ClientBuffer>> buffers_;
};

}  // namespace larder::node
