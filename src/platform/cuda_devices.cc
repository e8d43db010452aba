// SPDX-License-Identifier: Apache-2.0
#include "platform/cuda_devices.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "platform/copy_route.h"

namespace larder::platform {
namespace {

// Spans that one range may consist of. Frameworks with growing segments map 2 to 20 MiB each.
constexpr int kSpansMax = 65536;

}  // namespace

Result<std::shared_ptr<CudaDevices>> CudaDevices::create(const CudaOptions& options) {
  if (options.clock == nullptr) return fail(Code::kInvalidArgument, "the clock is null");
  CudaOptions with_driver = options;
  if (with_driver.driver == nullptr) {
    LARDER_ASSIGN(with_driver.driver, load_cuda_driver());
  }
  std::shared_ptr<CudaDevices> made(new CudaDevices(with_driver));
  LARDER_TRY(made->start());
  LARDER_TRY(made->add_devices(options.device_limit));
  return made;
}

// None of these calls makes a context.
Result<void> CudaDevices::start() {
  if (const CuResult rc = driver_->init(0); rc != kCuSuccess) {
    return fail(cuda_error(*driver_, rc, "cuInit"));
  }
  int version = 0;
  if (const CuResult rc = driver_->driver_get_version(&version); rc != kCuSuccess) {
    return fail(cuda_error(*driver_, rc, "cuDriverGetVersion"));
  }
  if (version >= kCuDriverVersionMin) return {};
  return fail(Code::kUnsupported, fmt::format("the CUDA driver has version {}: at least {} is "
                                              "needed",
                                              version, kCuDriverVersionMin));
}

Result<void> CudaDevices::add_devices(std::uint64_t limit) {
  int count = 0;
  if (const CuResult rc = driver_->device_get_count(&count); rc != kCuSuccess) {
    return fail(cuda_error(*driver_, rc, "cuDeviceGetCount"));
  }
  if (count <= 0) {
    return fail(Code::kUnsupported,
                "the CUDA driver shows no device (CUDA_VISIBLE_DEVICES hides those that it does "
                "not name)");
  }
  for (int i = 0; i < count && i <= kLocationIndexMax; ++i) {
    Device& device = devices_.emplace_back(limit);
    if (const CuResult rc = driver_->device_get(&device.handle, i); rc != kCuSuccess) {
      return fail(cuda_error(*driver_, rc, "cuDeviceGet", fmt::format("cuda:{}", i)));
    }
  }
  return {};
}

CudaDevices::~CudaDevices() {
  for (const Device& device : devices_) {
    if (device.context != nullptr) driver_->device_primary_ctx_release(device.handle);
  }
}

Result<CuContext> CudaDevices::context(int index) {
  Device& device = devices_[static_cast<std::size_t>(index)];
  {
    const std::lock_guard lock(contexts_mutex_);
    if (device.context != nullptr) return device.context;
  }
  // It may take long to make, so nobody waits for a lock meanwhile; of two that come first, one
  // gives back what it retained.
  CuContext made = nullptr;
  const CuResult rc = driver_->device_primary_ctx_retain(&made, device.handle);
  if (rc != kCuSuccess) {
    return fail(
        cuda_error(*driver_, rc, "cuDevicePrimaryCtxRetain", fmt::format("cuda:{}", index)));
  }
  bool second = false;
  {
    const std::lock_guard lock(contexts_mutex_);
    second = device.context != nullptr;
    device.context = made;  // the same one in both cases: a device has one primary context
  }
  if (second) driver_->device_primary_ctx_release(device.handle);
  return made;
}

Result<CudaDevices::Span> CudaDevices::query(std::uintptr_t address) const {
  std::array<int, 5> wanted = {kCuAttributeMemoryType, kCuAttributeDeviceOrdinal,
                               kCuAttributeIsLegacyIpcCapable, kCuAttributeRangeStart,
                               kCuAttributeRangeSize};
  // Each answer is written in its own width, at most eight bytes, into zeros.
  std::array<std::uint64_t, wanted.size()> got{};
  std::array<void*, wanted.size()> into{};
  for (std::size_t i = 0; i < got.size(); ++i) into[i] = &got[i];
  const CuResult rc =
      driver_->pointer_get_attributes(wanted.size(), wanted.data(), into.data(), address);
  // These two are what some drivers say of addresses unknown to them, or before any context is made
  // in this process, when there cannot be device memory.
  if (rc == kCuInvalidValue || rc == kCuInvalidContext) return Span{};
  if (rc != kCuSuccess) return fail(cuda_error(*driver_, rc, "cuPointerGetAttributes"));
  if (static_cast<unsigned>(got[0]) != kCuMemoryTypeDevice) return Span{};
  Span span;
  span.device = static_cast<int>(static_cast<std::uint32_t>(got[1]));
  span.whole = static_cast<std::uint8_t>(got[2]) != 0;
  span.end = got[3] + got[4];
  if (span.device >= 0 && span.device < count() && span.end > address) return span;
  return fail(
      Code::kUnavailable,
      fmt::format("cuPointerGetAttributes: device memory of device {}, {} bytes from {:#x}, "
                  "which does not hold {:#x} on one of {} devices",
                  span.device, got[4], got[3], address, count()));
}

// Memory that was mapped piece by piece (growing segments of frameworks) may go on from span to
// span; one allocation of cuMemAlloc ends where it ends, whatever lies behind it.
Result<void> CudaDevices::check_within(Span span, std::uintptr_t end) const {
  for (int i = 0; span.end < end; ++i) {
    Span next;
    if (!span.whole && i < kSpansMax) {
      LARDER_ASSIGN(next, query(span.end));
    }
    if (next.device != span.device || next.whole || next.end <= span.end) {
      return fail(Code::kInvalidArgument,
                  fmt::format("a range goes {} bytes beyond an allocation on cuda:{}",
                              end - span.end, span.device));
    }
    span = next;
  }
  return {};
}

Result<std::optional<Location>> CudaDevices::locate(const void* ptr, std::uint64_t bytes) const {
  LARDER_TRY(check_range(ptr, bytes, "range"));
  const auto begin = reinterpret_cast<std::uintptr_t>(ptr);
  const std::uintptr_t end = begin + bytes;
  LARDER_ASSIGN(const Span first, query(begin));
  if (first.device >= 0) {
    LARDER_TRY(check_within(first, end));
    return Location{MemoryType::kCuda, first.device};
  }
  LARDER_ASSIGN(const Span last, query(end - 1));
  if (last.device < 0) return std::nullopt;
  return fail(Code::kInvalidArgument,
              fmt::format("a range of {} bytes begins outside of cuda:{} and ends on it", bytes,
                          last.device));
}

Result<CudaScope> CudaScope::enter(CudaDevices& devices, int device) {
  LARDER_ASSIGN(const CuContext context, devices.context(device));
  const CudaDriver& driver = devices.driver();
  const CuResult rc = driver.ctx_push_current(context);
  if (rc == kCuSuccess) return CudaScope(driver);
  return fail(cuda_error(driver, rc, "cuCtxPushCurrent", fmt::format("cuda:{}", device)));
}

CudaScope::~CudaScope() {
  CuContext popped = nullptr;
  if (driver_ != nullptr) driver_->ctx_pop_current(&popped);
}

}  // namespace larder::platform
