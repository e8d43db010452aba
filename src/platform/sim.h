// SPDX-License-Identifier: Apache-2.0
// An accelerator that is not there. Its memory has addresses that the CPU cannot touch (a read or
// write faults, a system call answers EFAULT), so that code which takes device memory for host
// memory is found by any test; and it has links with a bandwidth, a latency and faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "env/clock.h"
#include "platform/platform.h"

namespace larder::platform {

class SimDevices;

// One direction of one device's link, shared by all copy engines.
struct SimLink {
  std::uint64_t bytes_per_second = 0;  // 0: no limit
  env::Nanos latency = 0;              // after the last byte has gone
};

// What goes wrong, each with a probability from 0 to 1; together at most 1.
struct SimFaults {
  std::uint64_t seed = 1;
  double error = 0;  // ends with kUnavailable, some of its bytes moved
  double late = 0;   // ends `late_by` after its time
  double lost = 0;   // ends only in quiesce(), with kUnavailable, its bytes moved at that moment
  env::Nanos late_by = env::kMilli;
};

inline constexpr int kSimDevicesMax = 64;
inline constexpr std::uint64_t kSimDeviceBytesMax = 1ULL << 40;

struct SimOptions {
  MemoryType type = MemoryType::kNpu;  // or kCuda
  int devices = 1;                     // 1 to kSimDevicesMax
  // Of each device, whole pages. Taken from the host's memory when it is written.
  std::uint64_t device_bytes = 256ULL << 20;
  SimLink in;      // host to device
  SimLink out;     // device to host
  SimLink within;  // inside a device
  SimFaults faults;
  // Owned by the caller, who keeps it as long as any engine. Copies end by this clock; a wait
  // sleeps on it, which moves a ManualClock.
  env::Clock* clock = &env::system_clock();
};

// A copy's bytes move when its time has come and somebody calls poll(), wait() or quiesce(): never
// before (like a late DMA), and on the caller's thread. No thread of its own, so that tests are
// deterministic and an unlimited link runs at the speed of memcpy; the price is that one engine
// moves one copy at a time, however many links are free. Destroying an engine drops its copies.
//
// Freed memory may be handed out again at once, also while a copy still writes to it: as with a
// real device that is the caller's fault, and freed_in_flight() counts it.
class SimPlatform final : public Platform {
 public:
  // kInvalidArgument: options. kExhausted: no address space, descriptor or memory.
  static Result<std::unique_ptr<SimPlatform>> create(const SimOptions& options);
  ~SimPlatform() override;

  MemoryType type() const noexcept override;
  std::string_view name() const noexcept override;
  int device_count() const noexcept override;
  // Addresses of a device that are not allocated are kInvalidArgument, not host memory.
  Result<std::optional<Location>> locate(const void* ptr, std::uint64_t bytes) const override;
  Result<std::vector<Region>> probe(const void* ptr, std::uint64_t bytes) const override;
  Result<Allocation> allocate(std::uint64_t bytes, int index) override;
  Result<HostPin> pin(std::span<std::byte> host, int index) override;
  Result<std::unique_ptr<CopyEngine>> create_copier(const CopierOptions& options) override;

  // For tests, and for simulated hardware that reaches device memory by itself. At once, whatever
  // the links do. kInvalidArgument: the range is not within one allocation.
  Result<void> peek(const void* device_ptr, std::span<std::byte> into) const;
  Result<void> poke(void* device_ptr, std::span<const std::byte> from);

  // For copies submitted from now on, of all engines; restarts from the seed. kInvalidArgument.
  Result<void> set_faults(const SimFaults& faults);

  std::uint64_t used_bytes(int index) const;  // allocated on a device; 0 for an unknown one
  // Allocations that were freed while a copy could still touch them.
  std::uint64_t freed_in_flight() const noexcept;

 private:
  explicit SimPlatform(std::shared_ptr<SimDevices> devices);

  const std::shared_ptr<SimDevices> devices_;
};

}  // namespace larder::platform
