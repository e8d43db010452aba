// SPDX-License-Identifier: Apache-2.0
// For tests: a CUDA driver that is not there.
#pragma once

#include <algorithm>
#include <memory>

#include "platform/cuda_driver.h"
#include "platform/cuda_testing_gpus.h"

namespace larder::platform {

class FakeCuda : public FakeGpus {
 public:
  using FakeGpus::FakeGpus;
  // The table; this object must outlive its users.
  std::shared_ptr<const CudaDriver> driver();

 private:
  void fill_devices(CudaDriver& table);
  void fill_memory(CudaDriver& table);
  void fill_streams(CudaDriver& table);
  void fill_events(CudaDriver& table);

  static Stream& of(CuStream stream) { return *reinterpret_cast<Stream*>(stream); }
  static Event& of(CuEvent event) { return *reinterpret_cast<Event*>(event); }
  static CuContext context_of(int device) {
    return reinterpret_cast<CuContext>(static_cast<std::uintptr_t>(device) + 1);
  }
};

inline void FakeCuda::fill_devices(CudaDriver& table) {
  table.init = [this](unsigned) { return enter("cuInit"); };
  table.driver_get_version = [this](int* into) {
    *into = version;
    return enter("cuDriverGetVersion");
  };
  table.device_get_count = [this](int* count) {
    *count = static_cast<int>(devices.size());
    return enter("cuDeviceGetCount");
  };
  table.device_get = [this](CuDevice* device, int ordinal) {
    *device = ordinal;
    return enter("cuDeviceGet");
  };
  table.device_primary_ctx_retain = [this](CuContext* context, CuDevice device) {
    const CuResult rc = enter("cuDevicePrimaryCtxRetain");
    if (rc != kCuSuccess) return rc;
    Device& of_device = devices[static_cast<std::size_t>(device)];
    if (of_device.retained++ == 0) ++of_device.contexts;
    *context = context_of(device);
    return rc;
  };
  table.device_primary_ctx_release = [this](CuDevice device) {
    --devices[static_cast<std::size_t>(device)].retained;
    return enter("cuDevicePrimaryCtxRelease");
  };
  table.ctx_push_current = [this](CuContext context) {
    const CuResult rc = enter("cuCtxPushCurrent");
    if (rc == kCuSuccess) current.push_back(int(reinterpret_cast<std::uintptr_t>(context)) - 1);
    return rc;
  };
  table.ctx_pop_current = [this](CuContext* context) {
    const CuResult rc = enter_with_context("cuCtxPopCurrent");
    if (rc != kCuSuccess) return rc;
    *context = context_of(current.back());
    current.pop_back();
    return rc;
  };
}

inline void FakeCuda::fill_memory(CudaDriver& table) {
  table.pointer_get_attributes = [this](unsigned count, int* wanted, void** data, CuPointer ptr) {
    const CuResult rc = enter("cuPointerGetAttributes");
    return rc != kCuSuccess ? rc : attributes(count, wanted, data, ptr);
  };
  table.mem_alloc = [this](CuPointer* ptr, std::size_t bytes) {
    const CuResult rc = enter_with_context("cuMemAlloc");
    if (rc != kCuSuccess) return rc;
    *ptr = place(current.back(), bytes, /*legacy=*/true);
    return *ptr == 0 ? kCuOutOfMemory : kCuSuccess;
  };
  table.mem_free = [this](CuPointer ptr) {
    const CuResult rc = enter_with_context("cuMemFree");
    if (rc != kCuSuccess) return rc;
    auto& spans = devices[static_cast<std::size_t>(current.back())].spans;
    return spans.erase(ptr) == 1 ? kCuSuccess : kCuInvalidValue;
  };
  table.mem_host_register = [this](void* ptr, std::size_t bytes, unsigned) {
    const CuResult rc = enter_with_context("cuMemHostRegister");
    if (rc != kCuSuccess) return rc;
    return pinned.emplace(ptr, bytes).second ? kCuSuccess : kCuHostMemoryAlreadyRegistered;
  };
  table.mem_host_unregister = [this](void* ptr) {
    const CuResult rc = enter_with_context("cuMemHostUnregister");
    return rc == kCuSuccess && pinned.erase(ptr) == 0 ? kCuInvalidValue : rc;
  };
}

inline void FakeCuda::fill_streams(CudaDriver& table) {
  table.stream_create = [this](CuStream* stream, unsigned) {
    const CuResult rc = enter_with_context("cuStreamCreate");
    if (rc != kCuSuccess) return rc;
    streams.push_back(std::make_unique<Stream>());
    streams.back()->device = current.back();
    *stream = reinterpret_cast<CuStream>(streams.back().get());
    return rc;
  };
  table.stream_synchronize = [this](CuStream stream) {
    const CuResult rc = enter("cuStreamSynchronize");
    run(of(stream), SIZE_MAX);
    return rc;
  };
  table.stream_destroy = [this](CuStream stream) {
    const CuResult rc = enter("cuStreamDestroy");
    return rc != kCuSuccess ? rc : destroy_stream(&of(stream));
  };
  table.memcpy_async = [this](CuPointer dst, CuPointer src, std::size_t bytes, CuStream stream) {
    const CuResult rc = enter_with_context("cuMemcpyAsync");
    return rc != kCuSuccess ? rc : copy(dst, src, bytes, of(stream));
  };
}

inline void FakeCuda::fill_events(CudaDriver& table) {
  table.event_create = [this](CuEvent* event, unsigned) {
    const CuResult rc = enter_with_context("cuEventCreate");
    if (rc != kCuSuccess) return rc;
    events.push_back(std::make_unique<Event>());
    events.back()->device = current.back();
    *event = reinterpret_cast<CuEvent>(events.back().get());
    return rc;
  };
  table.event_record = [this](CuEvent event, CuStream stream) {
    const CuResult rc = enter("cuEventRecord");
    if (rc != kCuSuccess) return rc;
    if (of(event).device != of(stream).device) return kCuInvalidHandle;
    of(event).stream = &of(stream);
    of(event).mark = of(stream).queued;
    return rc;
  };
  table.event_query = [this](CuEvent event) {
    const CuResult rc = enter("cuEventQuery");
    if (rc != kCuSuccess) return rc;
    Stream* stream = of(event).stream;
    if (stream == nullptr) return kCuSuccess;
    run(*stream, static_cast<std::size_t>(copies_per_query));
    return stream->done >= of(event).mark ? kCuSuccess : kCuNotReady;
  };
  table.event_destroy = [this](CuEvent event) {
    std::erase_if(events, [event](const auto& owned) { return owned.get() == &of(event); });
    return enter("cuEventDestroy");
  };
}

inline std::shared_ptr<const CudaDriver> FakeCuda::driver() {
  auto table = std::make_shared<CudaDriver>();
  fill_devices(*table);
  fill_memory(*table);
  fill_streams(*table);
  fill_events(*table);
  // The real texts are the library's; these tell one error from another.
  table->get_error_name = [](CuResult error, const char** text) {
    *text = error == kCuOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
    return kCuSuccess;
  };
  table->get_error_string = [](CuResult error, const char** text) {
    *text = error == kCuOutOfMemory ? "out of memory" : nullptr;
    return error == kCuOutOfMemory ? kCuSuccess : kCuInvalidValue;
  };
  return table;
}

}  // namespace larder::platform
