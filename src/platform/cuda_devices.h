// SPDX-License-Identifier: Apache-2.0
// The driver and the contexts that we hold.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "platform/budget.h"
#include "platform/cuda.h"
#include "platform/cuda_driver.h"

namespace larder::platform {

// Shared by the platform, its engines and its allocations. All methods from any thread.
class CudaDevices {
 public:
  // Initialises the driver. Errors of CudaPlatform::create().
  static Result<std::shared_ptr<CudaDevices>> create(const CudaOptions& options);
  ~CudaDevices();
  CudaDevices(const CudaDevices&) = delete;
  CudaDevices& operator=(const CudaDevices&) = delete;

  const CudaDriver& driver() const noexcept { return *driver_; }
  env::Clock& clock() const noexcept { return *clock_; }
  int count() const noexcept { return static_cast<int>(devices_.size()); }
  Budget& budget(int device) { return devices_[static_cast<std::size_t>(device)].budget; }

  // The device's primary context; retained at the first call.
  Result<CuContext> context(int device);
  Result<std::optional<Location>> locate(const void* ptr, std::uint64_t bytes) const;

 private:
  struct Device {
    explicit Device(std::uint64_t limit) : budget(limit) {}
    CuDevice handle = 0;
    CuContext context = nullptr;
    Budget budget;
  };
  // What the driver knows of an address.
  struct Span {
    int device = -1;  // -1: no device memory
    std::uintptr_t end = 0;
    bool whole = false;  // one cuMemAlloc; others may go on in the next span
  };

  explicit CudaDevices(const CudaOptions& options)
      : driver_(options.driver), clock_(options.clock) {}
  Result<void> start();
  Result<void> add_devices(std::uint64_t limit);
  Result<Span> query(std::uintptr_t address) const;
  Result<void> check_within(Span span, std::uintptr_t end) const;

  const std::shared_ptr<const CudaDriver> driver_;
  env::Clock* const clock_;
  std::mutex contexts_mutex_;  // guards `context` of all devices; held alone
  std::deque<Device> devices_;
};

// Makes a device's context current on this thread, and what was current before again in the end.
class CudaScope {
 public:
  static Result<CudaScope> enter(CudaDevices& devices, int device);
  CudaScope(CudaScope&& other) noexcept : driver_(std::exchange(other.driver_, nullptr)) {}
  CudaScope& operator=(CudaScope&&) = delete;
  ~CudaScope();

 private:
  explicit CudaScope(const CudaDriver& driver) noexcept : driver_(&driver) {}
  const CudaDriver* driver_;
};

}  // namespace larder::platform
