// SPDX-License-Identifier: Apache-2.0
#include "platform/cuda.h"

#include <fmt/format.h>

#include <utility>

#include "platform/copy_route.h"
#include "platform/cuda_copier.h"
#include "platform/cuda_devices.h"

namespace larder::platform {
namespace {

Result<CuPointer> allocate_once(const CudaDriver& driver, std::uint64_t bytes, int device) {
  CuPointer ptr = 0;
  const CuResult rc = driver.mem_alloc(&ptr, bytes);
  if (rc == kCuSuccess) return ptr;
  return fail(
      cuda_error(driver, rc, "cuMemAlloc", fmt::format("{} bytes on cuda:{}", bytes, device)));
}

constexpr CuPointer round_up(CuPointer ptr) {
  return (ptr + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// The driver aligns small allocations to less than a page: those are asked for again with a page to
// spare (which locate() then counts as part of them). Large ones, which would lose a large page by
// that, are aligned as they are.
Result<CuPointer> allocate_aligned(const CudaDriver& driver, std::uint64_t bytes, int device) {
  LARDER_ASSIGN(const CuPointer ptr, allocate_once(driver, bytes, device));
  if (ptr == round_up(ptr)) return ptr;
  driver.mem_free(ptr);
  return allocate_once(driver, bytes + kPageBytes, device);
}

// Owns one allocation; frees it in the context that it came from.
struct CudaBlock {
  std::shared_ptr<CudaDevices> devices;
  int device = 0;
  std::uint64_t bytes = 0;  // taken from the budget
  CuPointer ptr = 0;        // 0: none

  CudaBlock(std::shared_ptr<CudaDevices> of, int index, std::uint64_t taken)
      : devices(std::move(of)), device(index), bytes(taken) {}
  CudaBlock(const CudaBlock&) = delete;
  CudaBlock& operator=(const CudaBlock&) = delete;
  ~CudaBlock() {
    if (ptr != 0) {
      const auto scope = CudaScope::enter(*devices, device);
      devices->driver().mem_free(ptr);
    }
    devices->budget(device).give(bytes);
  }
};

struct CudaPin {
  std::shared_ptr<CudaDevices> devices;
  int device = 0;
  void* ptr = nullptr;

  CudaPin(std::shared_ptr<CudaDevices> of, int index, void* start)
      : devices(std::move(of)), device(index), ptr(start) {}
  CudaPin(const CudaPin&) = delete;
  CudaPin& operator=(const CudaPin&) = delete;
  ~CudaPin() {
    const auto scope = CudaScope::enter(*devices, device);
    devices->driver().mem_host_unregister(ptr);
  }
};

}  // namespace

CudaPlatform::CudaPlatform(std::shared_ptr<CudaDevices> devices) : devices_(std::move(devices)) {}
CudaPlatform::~CudaPlatform() = default;

Result<std::unique_ptr<CudaPlatform>> CudaPlatform::create(const CudaOptions& options) {
  LARDER_ASSIGN(std::shared_ptr<CudaDevices> devices, CudaDevices::create(options));
  return std::unique_ptr<CudaPlatform>(new CudaPlatform(std::move(devices)));
}

int CudaPlatform::device_count() const noexcept {
  return devices_->count();
}

Result<std::optional<Location>> CudaPlatform::locate(const void* ptr, std::uint64_t bytes) const {
  return devices_->locate(ptr, bytes);
}

Result<std::vector<Region>> CudaPlatform::probe(const void* ptr, std::uint64_t bytes) const {
  LARDER_ASSIGN(const std::optional<Location> found, locate(ptr, bytes));
  if (!found) return fail(Code::kInvalidArgument, "not memory of cuda");
  return std::vector<Region>{{0, bytes, *found}};
}

Result<Allocation> CudaPlatform::allocate(std::uint64_t bytes, int index) {
  LARDER_TRY(check_index(index, device_count(), name()));
  const Location where{MemoryType::kCuda, index};
  Budget& budget = devices_->budget(index);
  LARDER_ASSIGN(const std::uint64_t whole, allocation_bytes(bytes, budget.limit(), where));
  if (!budget.take(whole)) {
    return fail(Code::kExhausted,
                fmt::format("allocation of {} bytes on cuda:{}: {} of {} are handed out", whole,
                            index, budget.used(), budget.limit()));
  }
  auto block = std::make_shared<CudaBlock>(devices_, index, whole);
  LARDER_ASSIGN(const CudaScope scope, CudaScope::enter(*devices_, index));
  LARDER_ASSIGN(block->ptr, allocate_aligned(devices_->driver(), whole, index));
  auto* data = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(round_up(block->ptr)));
  return Allocation(data, whole, where, std::move(block));
}

Result<HostPin> CudaPlatform::pin(std::span<std::byte> host, int index) {
  LARDER_TRY(check_range(host.data(), host.size(), "range to pin"));
  LARDER_TRY(check_index(index, device_count(), name()));
  LARDER_ASSIGN(const CudaScope scope, CudaScope::enter(*devices_, index));
  const CudaDriver& driver = devices_->driver();
  // Portable: pinned for the contexts of all devices.
  const CuResult rc = driver.mem_host_register(host.data(), host.size(), kCuHostRegisterPortable);
  if (rc == kCuSuccess) return HostPin(std::make_shared<CudaPin>(devices_, index, host.data()));
  return fail(cuda_error(driver, rc, "cuMemHostRegister", fmt::format("{} bytes", host.size())));
}

Result<std::unique_ptr<CopyEngine>> CudaPlatform::create_copier(const CopierOptions& options) {
  LARDER_TRY(check_copier_options(options));
  return std::make_unique<CudaCopier>(devices_, options.depth);
}

}  // namespace larder::platform
