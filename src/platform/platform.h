// SPDX-License-Identifier: Apache-2.0
// One kind of memory: where it is, how to get some, and who copies it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "larder/status.h"
#include "larder/transfer_types.h"
#include "platform/copy_engine.h"
#include "platform/location.h"

namespace larder::platform {

inline constexpr std::uint64_t kPageBytes = 4096;  // what allocations are aligned to
inline constexpr std::size_t kRegionsMax = 128;

// Memory of a platform; given back when destroyed. Movable. May outlive the platform object. Must
// not be destroyed while a copy touches it. The address of device memory is for copy engines and
// device code only: the CPU must not touch it.
class Allocation {
 public:
  Allocation() = default;
  Allocation(std::byte* data, std::uint64_t bytes, Location location, std::shared_ptr<void> owner)
      : data_(data), bytes_(bytes), location_(location), owner_(std::move(owner)) {}
  Allocation(Allocation&& other) noexcept { swap(other); }
  Allocation& operator=(Allocation&& other) noexcept {
    Allocation(std::move(other)).swap(*this);
    return *this;
  }
  ~Allocation() = default;

  std::byte* data() const noexcept { return data_; }  // null when there is none
  std::uint64_t bytes() const noexcept { return bytes_; }
  const Location& location() const noexcept { return location_; }

 private:
  void swap(Allocation& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(location_, other.location_);
    owner_.swap(other.owner_);
  }

  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  Location location_;
  std::shared_ptr<void> owner_;
};

// Host memory made fit for fast copies of a platform; undone when destroyed, which must be before
// the memory is unmapped and after the last copy of it. Movable.
class HostPin {
 public:
  HostPin() = default;
  explicit HostPin(std::shared_ptr<void> owner) : owner_(std::move(owner)) {}
  HostPin(HostPin&&) noexcept = default;
  HostPin& operator=(HostPin&&) noexcept = default;

 private:
  std::shared_ptr<void> owner_;
};

// What an allocation of `bytes` takes, in whole pages. kInvalidArgument: none. kTooLarge: above
// `limit`.
Result<std::uint64_t> allocation_bytes(std::uint64_t bytes, std::uint64_t limit,
                                       const Location& where);
// kInvalidArgument: `index` is not below `count`.
Result<void> check_index(int index, int count, std::string_view platform);

// Threads: all methods from any thread. Engines and allocations may outlive the platform object.
// A range is `bytes` (at least 1) bytes from `ptr` on; kInvalidArgument when it cannot be one.
class Platform {
 public:
  virtual ~Platform() = default;

  virtual MemoryType type() const noexcept = 0;
  virtual std::string_view name() const noexcept = 0;  // "cpu", "cuda", "sim-cuda", "sim-npu"
  // Indices are below this. For cpu they are the numbers of NUMA nodes and may have gaps.
  virtual int device_count() const noexcept = 0;

  // Where the range is; nothing when it is not this platform's memory. Reserves nothing on any
  // device. kInvalidArgument: only partly this platform's memory, or more than one allocation.
  // kUnavailable: the device cannot say. cpu takes every range for its own and tells the node of
  // the first page, or -1: ask device platforms first (PlatformSet does).
  virtual Result<std::optional<Location>> locate(const void* ptr, std::uint64_t bytes) const = 0;

  // Where each piece is: regions without gaps from offset 0 to `bytes`, at most kRegionsMax. Errors
  // of locate(), and kInvalidArgument for memory that is not this platform's.
  virtual Result<std::vector<Region>> probe(const void* ptr, std::uint64_t bytes) const = 0;

  // At least `bytes` bytes, rounded up to whole pages and aligned to kPageBytes, on one device or
  // NUMA node; cpu also takes -1, any node. Contents: zeros (cpu, sim) or anything (cuda). Bounded
  // by the options of the platform. kInvalidArgument (no bytes, no such index), kTooLarge (can
  // never fit; says the limit), kExhausted (not now), kUnavailable (the device failed).
  virtual Result<Allocation> allocate(std::uint64_t bytes, int index) = 0;

  // Pins host memory that will be copied to and from device `index`. Where a platform has no use
  // for that, does nothing. kInvalidArgument (range, index), kAlreadyExists (pinned already),
  // kExhausted, kUnavailable.
  virtual Result<HostPin> pin(std::span<std::byte> host, int index) = 0;

  // kInvalidArgument: options. Takes nothing of a device until a copy is submitted.
  virtual Result<std::unique_ptr<CopyEngine>> create_copier(const CopierOptions& options) = 0;
};

}  // namespace larder::platform
