// SPDX-License-Identifier: Apache-2.0
// Memory that a local client shares with the node: staging windows, shared buffers, and the hints
// of what it read through shared memory. Layout: docs/formats/wire.md.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace larder::wire {

inline constexpr std::uint64_t kWindowMagic = 0x314e495744524c;  // "LRDWIN1"
inline constexpr std::size_t kWindowDataAt = 32 << 10;
inline constexpr std::uint64_t kWindowBytesMax = 64ULL << 30;
inline constexpr std::size_t kTouchSlots = 4096;  // a power of two

// Page 0: written by the node.
struct WindowHeader {
  std::uint64_t magic = kWindowMagic;      // by the client, before it offers the memory
  std::atomic<std::uint64_t> consumed{0};  // descriptors that the node is done with, ever growing
};

// From page 1 on: written by the client. The node takes them as hints and checks each slot's range.
struct TouchRing {
  std::atomic<std::uint64_t> head{0};  // entries written so far
  std::array<std::atomic<std::uint32_t>, kTouchSlots> slots{};
};
inline constexpr std::size_t kTouchRingAt = 4096;
static_assert(kTouchRingAt + sizeof(TouchRing) <= kWindowDataAt);

// Payload of a put whose values lie in shared memory: one of these per piece, items in order.
struct Descriptor {
  std::uint64_t offset = 0;  // from the start of the memory; at least kWindowDataAt
  std::uint32_t bytes = 0;   // 1 .. kDescriptorBytesMax
  std::uint32_t item = 0;    // index in the batch
};
static_assert(sizeof(Descriptor) == 16);
inline constexpr std::uint32_t kDescriptorBytesMax = 256 << 10;

}  // namespace larder::wire
