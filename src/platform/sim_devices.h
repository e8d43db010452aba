// SPDX-License-Identifier: Apache-2.0
// The simulated hardware behind SimPlatform: memories, links and the dice.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "env/clock.h"
#include "env/fd.h"
#include "platform/copy_route.h"
#include "platform/sim.h"

namespace larder::platform {

// One allocation of a device.
struct SimBlock {
  std::byte* data = nullptr;    // what the application sees: no access
  std::byte* shadow = nullptr;  // the same bytes, for the copy engine alone
  std::uint64_t bytes = 0;
  int device = 0;
  std::atomic<int> in_flight{0};  // copies that have not ended
};

// The bytes of one device, mapped twice.
class SimMemory {
 public:
  static Result<std::unique_ptr<SimMemory>> create(std::uint64_t bytes, const std::string& name);
  ~SimMemory();
  SimMemory(const SimMemory&) = delete;
  SimMemory& operator=(const SimMemory&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::byte* shadow() const noexcept { return shadow_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  // Forgets the contents: the range reads as zeros and takes no memory.
  void clear(std::uint64_t offset, std::uint64_t bytes) noexcept;

 private:
  SimMemory() = default;

  std::byte* data_ = nullptr;
  std::byte* shadow_ = nullptr;
  std::uint64_t bytes_ = 0;
};

enum class SimFault : std::uint8_t { kNone, kError, kLate, kLost };

// What the dice and the link say about one copy.
struct SimFate {
  env::Nanos due = 0;
  SimFault fault = SimFault::kNone;
  std::uint64_t moved = 0;  // bytes that arrive
};

// Shared by the platform, its engines and its allocations. All methods from any thread.
class SimDevices {
 public:
  static Result<std::shared_ptr<SimDevices>> create(const SimOptions& options);

  const SimOptions& options() const noexcept { return options_; }
  std::string_view name() const noexcept;
  env::Clock& clock() const noexcept { return *options_.clock; }

  // The allocation that holds the range; null when the range is no device's. Errors of locate().
  Result<std::shared_ptr<SimBlock>> find(const void* ptr, std::uint64_t bytes) const;
  // `bytes` are whole pages. kExhausted: no hole is large enough.
  Result<std::shared_ptr<SimBlock>> allocate(std::uint64_t bytes, int device);
  void free(const std::shared_ptr<SimBlock>& block) noexcept;

  // Puts a copy on its link, behind those that are there.
  SimFate schedule(const CopyRoute& route, std::uint64_t bytes);
  void set_faults(const SimFaults& faults);

  std::uint64_t used_bytes(int device) const;
  std::uint64_t freed_in_flight() const noexcept { return freed_in_flight_.load(); }

 private:
  struct Device {
    std::unique_ptr<SimMemory> memory;
    std::map<std::uintptr_t, std::shared_ptr<SimBlock>> blocks;  // by address
    std::array<env::Nanos, kCopyDirectionCount> link_free{};     // when each link has no more to do
    std::uint64_t used = 0;
  };

  explicit SimDevices(const SimOptions& options) : options_(options), dice_(options.faults.seed) {}
  Result<std::shared_ptr<SimBlock>> find_on(const Device& device, int index, std::uintptr_t begin,
                                            std::uint64_t bytes) const;
  SimFault roll();

  const SimOptions options_;
  mutable std::mutex devices_mutex_;  // guards what is in devices_ but `memory`; held alone
  std::vector<Device> devices_;
  mutable std::mutex dice_mutex_;  // guards faults_ and dice_; held alone
  SimFaults faults_;
  std::mt19937_64 dice_;
  std::atomic<std::uint64_t> freed_in_flight_{0};
};

Result<void> check_faults(const SimFaults& faults);

}  // namespace larder::platform
