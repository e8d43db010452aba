// SPDX-License-Identifier: Apache-2.0
// What SPDK has once for a process: its environment (DPDK's), and the memory that is known to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "larder/status.h"

namespace larder::nvmf {

struct SpdkEnvironmentOptions {
  std::uint64_t memory_bytes = 256ULL << 20U;  // SPDK takes so much for itself
  bool huge_pages = true;  // false: ordinary pages, which do for TCP and not for RDMA
};

// Starts it, if nobody has yet: it can neither be started twice nor stopped and started again, so
// what the first call asked for counts, and so does its error. The calling thread keeps its cores,
// which DPDK would take away. Any thread.
//   kUnavailable  no huge pages or no right to them; SPDK writes what it was to the standard error
Result<void> start_spdk(const SpdkEnvironmentOptions& options);

// SPDK knows memory in pages of 2 MiB (spdk_mem_register).
inline constexpr std::size_t kSpdkPageBytes = 2U << 20U;

// Makes SPDK know the whole pages within `memory`, once for all devices that ask for the same. What
// of it can be used for DMA from now on; empty: nothing, SPDK refuses or there is no whole page.
// SPDK wants huge pages here. Any thread.
std::span<std::byte> register_memory(std::span<std::byte> memory);
// What register_memory() gave; nothing may be moving into or out of it.
void unregister_memory(std::span<std::byte> registered);

struct SpdkMemoryFree {
  void operator()(std::byte* memory) const noexcept;
};
using SpdkMemory = std::unique_ptr<std::byte, SpdkMemoryFree>;
// Memory for DMA; `alignment` is a power of two. kExhausted: SPDK has no more.
Result<SpdkMemory> allocate_memory(std::size_t bytes, std::size_t alignment);

}  // namespace larder::nvmf
