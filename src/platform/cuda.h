// SPDX-License-Identifier: Apache-2.0
// Memory of NVIDIA devices, by the driver API.
#pragma once

#include <cstdint>
#include <memory>

#include "env/clock.h"
#include "platform/cuda_driver.h"
#include "platform/platform.h"

namespace larder::platform {

class CudaDevices;

struct CudaOptions {
  std::uint64_t device_limit = UINT64_MAX;   // bytes of allocations of each device at a time
  env::Clock* clock = &env::system_clock();  // for deadlines; the caller's, kept as long as engines
  std::shared_ptr<const CudaDriver> driver;  // null: the one of this host
};

// Works in the primary context of each device, the one that frameworks use. A device's context is
// made, or shared, when memory, a copy or a pin of that device is first asked for and given back
// with the last user of it; locate() and probe() make none.
//
// Copies run on streams of our own that wait for no other stream (not for the default one either):
// what a kernel writes must be complete before it is submitted. Host memory need not be pinned, but
// then submit() may take as long as the copy.
class CudaPlatform final : public Platform {
 public:
  // kUnsupported says why there is no CUDA here: no driver, too old, no device. kUnavailable: the
  // driver failed. kInvalidArgument: no clock.
  static Result<std::unique_ptr<CudaPlatform>> create(const CudaOptions& options = {});
  ~CudaPlatform() override;

  MemoryType type() const noexcept override { return MemoryType::kCuda; }
  std::string_view name() const noexcept override { return "cuda"; }
  int device_count() const noexcept override;
  // Pinned and managed host memory that the driver calls host memory is not ours.
  Result<std::optional<Location>> locate(const void* ptr, std::uint64_t bytes) const override;
  Result<std::vector<Region>> probe(const void* ptr, std::uint64_t bytes) const override;
  Result<Allocation> allocate(std::uint64_t bytes, int index) override;
  Result<HostPin> pin(std::span<std::byte> host, int index) override;
  Result<std::unique_ptr<CopyEngine>> create_copier(const CopierOptions& options) override;

 private:
  explicit CudaPlatform(std::shared_ptr<CudaDevices> devices);

  const std::shared_ptr<CudaDevices> devices_;
};

}  // namespace larder::platform
