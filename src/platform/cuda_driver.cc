// SPDX-License-Identifier: Apache-2.0
#include "platform/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace larder::platform {
namespace {

std::string dl_text() {
  const char* text = ::dlerror();
  return text == nullptr ? "unknown error" : text;
}

// Looks functions up until one is missing.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}

  template <class R, class... Args>
  void find(std::function<R(Args...)>& into, const char* name) {
    if (!missing_.empty()) return;
    void* found = ::dlsym(library_, name);
    if (found == nullptr) {
      missing_ = name;
      return;
    }
    into = reinterpret_cast<R (*)(Args...)>(found);
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

// Where the ABI has versions, the newest of those that every driver since CUDA 11 has.
void find_all(Finder& finder, CudaDriver& driver) {
  finder.find(driver.init, "cuInit");
  finder.find(driver.driver_get_version, "cuDriverGetVersion");
  finder.find(driver.device_get_count, "cuDeviceGetCount");
  finder.find(driver.device_get, "cuDeviceGet");
  finder.find(driver.device_primary_ctx_retain, "cuDevicePrimaryCtxRetain");
  finder.find(driver.device_primary_ctx_release, "cuDevicePrimaryCtxRelease_v2");
  finder.find(driver.ctx_push_current, "cuCtxPushCurrent_v2");
  finder.find(driver.ctx_pop_current, "cuCtxPopCurrent_v2");
  finder.find(driver.pointer_get_attributes, "cuPointerGetAttributes");
  finder.find(driver.mem_alloc, "cuMemAlloc_v2");
  finder.find(driver.mem_free, "cuMemFree_v2");
  finder.find(driver.memcpy_async, "cuMemcpyAsync");
  finder.find(driver.stream_create, "cuStreamCreate");
  finder.find(driver.stream_synchronize, "cuStreamSynchronize");
  finder.find(driver.stream_destroy, "cuStreamDestroy_v2");
  finder.find(driver.event_create, "cuEventCreate");
  finder.find(driver.event_record, "cuEventRecord");
  finder.find(driver.event_query, "cuEventQuery");
  finder.find(driver.event_destroy, "cuEventDestroy_v2");
  finder.find(driver.mem_host_register, "cuMemHostRegister_v2");
  finder.find(driver.mem_host_unregister, "cuMemHostUnregister");
  finder.find(driver.get_error_name, "cuGetErrorName");
  finder.find(driver.get_error_string, "cuGetErrorString");
}

Code code_of(CuResult result) noexcept {
  switch (result) {
    case kCuInvalidValue:
      return Code::kInvalidArgument;
    case kCuOutOfMemory:
      return Code::kExhausted;
    case kCuHostMemoryAlreadyRegistered:
      return Code::kAlreadyExists;
    case kCuNoDevice:
    case kCuNotInitialized:
    case kCuNotSupported:
    case kCuSystemDriverMismatch:
    case kCuCompatNotSupported:
      return Code::kUnsupported;
    default:
      return Code::kUnavailable;
  }
}

}  // namespace

Result<std::shared_ptr<const CudaDriver>> load_cuda_driver(const std::string& library) {
  // Never closed: the driver has threads and exit handlers of its own, which need its code.
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return fail(Code::kUnsupported,
                fmt::format("no CUDA driver here: {} (it comes with the NVIDIA driver; in a "
                            "container the runtime must pass it in)",
                            dl_text()));
  }
  auto driver = std::make_shared<CudaDriver>();
  Finder finder(handle);
  find_all(finder, *driver);
  if (!finder.missing().empty()) {
    return fail(Code::kUnsupported, fmt::format("{} has no function {}: CUDA 11 or newer is needed",
                                                library, finder.missing()));
  }
  return driver;
}

Error cuda_error(const CudaDriver& driver, CuResult result, std::string_view call,
                 std::string_view what) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.get_error_name(result, &name) != kCuSuccess || name == nullptr) name = "unknown error";
  if (driver.get_error_string(result, &text) != kCuSuccess || text == nullptr) text = "no text";
  return {code_of(result), fmt::format("{}{}{}: {} {} ({})", call, what.empty() ? "" : ", ", what,
                                       name, result, text)};
}

}  // namespace larder::platform
