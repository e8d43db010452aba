// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver API that we call, without CUDA's headers. The library is opened at
// run time; tests fill the table with a driver of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "larder/status.h"

namespace larder::platform {

// The types of the ABI on 64-bit Linux.
using CuResult = int;
using CuDevice = int;
using CuPointer = unsigned long long;
using CuContext = struct CuContextOpaque*;
using CuStream = struct CuStreamOpaque*;
using CuEvent = struct CuEventOpaque*;

// Numbers of the ABI.
inline constexpr CuResult kCuSuccess = 0;
inline constexpr CuResult kCuInvalidValue = 1;
inline constexpr CuResult kCuOutOfMemory = 2;
inline constexpr CuResult kCuNotInitialized = 3;
inline constexpr CuResult kCuNoDevice = 100;
inline constexpr CuResult kCuInvalidContext = 201;
inline constexpr CuResult kCuInvalidHandle = 400;
inline constexpr CuResult kCuNotReady = 600;
inline constexpr CuResult kCuIllegalAddress = 700;
inline constexpr CuResult kCuHostMemoryAlreadyRegistered = 712;
inline constexpr CuResult kCuNotSupported = 801;
inline constexpr CuResult kCuSystemDriverMismatch = 803;
inline constexpr CuResult kCuCompatNotSupported = 804;

inline constexpr int kCuAttributeMemoryType = 2;
inline constexpr int kCuAttributeDeviceOrdinal = 9;
inline constexpr int kCuAttributeIsLegacyIpcCapable = 10;  // came from cuMemAlloc
inline constexpr int kCuAttributeRangeStart = 11;
inline constexpr int kCuAttributeRangeSize = 12;
inline constexpr unsigned kCuMemoryTypeDevice = 2;

inline constexpr unsigned kCuStreamNonBlocking = 1;
inline constexpr unsigned kCuEventDisableTiming = 2;
inline constexpr unsigned kCuHostRegisterPortable = 1;

inline constexpr int kCuDriverVersionMin = 11000;  // the first with the range attributes for sure

// Named like the functions of the API without "cu" and without the version suffix.
struct CudaDriver {
  std::function<CuResult(unsigned flags)> init;
  std::function<CuResult(int* version)> driver_get_version;
  std::function<CuResult(int* count)> device_get_count;
  std::function<CuResult(CuDevice* device, int ordinal)> device_get;
  std::function<CuResult(CuContext* context, CuDevice device)> device_primary_ctx_retain;
  std::function<CuResult(CuDevice device)> device_primary_ctx_release;
  std::function<CuResult(CuContext context)> ctx_push_current;
  std::function<CuResult(CuContext* context)> ctx_pop_current;
  std::function<CuResult(unsigned count, int* attributes, void** data, CuPointer ptr)>
      pointer_get_attributes;
  std::function<CuResult(CuPointer* ptr, std::size_t bytes)> mem_alloc;
  std::function<CuResult(CuPointer ptr)> mem_free;
  std::function<CuResult(CuPointer dst, CuPointer src, std::size_t bytes, CuStream stream)>
      memcpy_async;
  std::function<CuResult(CuStream* stream, unsigned flags)> stream_create;
  std::function<CuResult(CuStream stream)> stream_synchronize;
  std::function<CuResult(CuStream stream)> stream_destroy;
  std::function<CuResult(CuEvent* event, unsigned flags)> event_create;
  std::function<CuResult(CuEvent event, CuStream stream)> event_record;
  std::function<CuResult(CuEvent event)> event_query;
  std::function<CuResult(CuEvent event)> event_destroy;
  std::function<CuResult(void* ptr, std::size_t bytes, unsigned flags)> mem_host_register;
  std::function<CuResult(void* ptr)> mem_host_unregister;
  std::function<CuResult(CuResult error, const char** text)> get_error_name;
  std::function<CuResult(CuResult error, const char** text)> get_error_string;
};

// Opens the driver and finds every function; calls none. It stays loaded for good. kUnsupported
// says what is missing.
Result<std::shared_ptr<const CudaDriver>> load_cuda_driver(
    const std::string& library = "libcuda.so.1");

// "cuMemAlloc, 4096 bytes on cuda:0: CUDA_ERROR_OUT_OF_MEMORY (out of memory)". The code is
// kInvalidArgument, kExhausted, kAlreadyExists, kUnsupported, or kUnavailable for everything else.
Error cuda_error(const CudaDriver& driver, CuResult result, std::string_view call,
                 std::string_view what = {});

}  // namespace larder::platform
