// SPDX-License-Identifier: Apache-2.0
// For tests: what FakeCuda drives. Device memory is ordinary memory, and a copy ends when the test
// says so. Refuses what real devices refuse. One thread.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "platform/cuda_driver.h"

namespace larder::platform {

class FakeGpus {
 public:
  static constexpr std::size_t kArenaBytes = 256 << 20;
  static constexpr std::uint64_t kAlignment = 512;  // less than a page, like the real one

  explicit FakeGpus(int device_count = 2) : devices(static_cast<std::size_t>(device_count)) {
    for (Device& device : devices) {
      void* arena = ::mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      device.arena = reinterpret_cast<std::uintptr_t>(arena);
    }
  }
  FakeGpus(const FakeGpus&) = delete;
  FakeGpus& operator=(const FakeGpus&) = delete;
  ~FakeGpus() {
    for (Device& device : devices) ::munmap(reinterpret_cast<void*>(device.arena), kArenaBytes);
  }

  // Ends the oldest copies of every stream, `count` of each.
  void complete(std::size_t count = SIZE_MAX) {
    for (auto& stream : streams) run(*stream, count);
  }
  // The next call of that name fails once, after `skip` that do not.
  void fail_next(const std::string& call, CuResult result, int skip = 0) {
    failures[call] = {skip, result};
  }
  int calls(const std::string& call) const {
    const auto found = counts.find(call);
    return found == counts.end() ? 0 : found->second;
  }
  // Memory that grows by pieces and does not come from cuMemAlloc; stays.
  std::uintptr_t map_piece(int device, std::uint64_t bytes) {
    return place(device, bytes, /*legacy=*/false);
  }

  struct Stream {
    int device = 0;
    struct Op {
      CuPointer dst, src;
      std::size_t bytes;
    };
    std::deque<Op> ops;
    std::uint64_t queued = 0, done = 0;  // copies so far
  };
  struct Event {
    int device = 0;
    Stream* stream = nullptr;  // null: not recorded, which counts as complete
    std::uint64_t mark = 0;    // copies of the stream before it
  };
  struct Span {
    std::uint64_t bytes = 0;
    bool legacy = true;
  };
  struct Device {
    std::uintptr_t arena = 0;
    std::size_t used = 0;  // never reused
    std::map<std::uintptr_t, Span> spans;
    int retained = 0;  // users of the primary context
    int contexts = 0;  // times one was made
  };

  // What the test may set and look at.
  std::vector<Device> devices;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Event>> events;
  std::vector<int> current;  // devices whose contexts are pushed
  std::map<void*, std::size_t> pinned;
  int version = 12040;
  int copies_per_query = 0;              // end of themselves when an event is asked for
  bool attributes_need_context = false;  // as with drivers that say so
  std::vector<std::size_t> orphans;      // bytes of copies that ran when their stream was destroyed

 protected:
  CuResult enter(const char* call);
  CuResult enter_with_context(const char* call) {
    const CuResult rc = enter(call);
    return rc == kCuSuccess && current.empty() ? kCuInvalidContext : rc;
  }
  std::uintptr_t place(int device, std::uint64_t bytes, bool legacy);
  bool reaches(CuPointer ptr, std::size_t bytes, int device) const;
  void run(Stream& stream, std::size_t count);
  CuResult attributes(unsigned count, const int* wanted, void** data, CuPointer ptr);
  CuResult copy(CuPointer dst, CuPointer src, std::size_t bytes, Stream& stream);
  CuResult destroy_stream(Stream* stream);

 private:
  std::map<std::string, std::pair<int, CuResult>> failures;
  std::map<std::string, int> counts;
};

inline CuResult FakeGpus::enter(const char* call) {
  ++counts[call];
  const auto failing = failures.find(call);
  if (failing == failures.end() || failing->second.first-- > 0) return kCuSuccess;
  const CuResult result = failing->second.second;
  failures.erase(failing);
  return result;
}

inline std::uintptr_t FakeGpus::place(int index, std::uint64_t bytes, bool legacy) {
  Device& device = devices[static_cast<std::size_t>(index)];
  const std::uint64_t taken = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (taken > kArenaBytes - device.used) return 0;
  const std::uintptr_t at = device.arena + device.used;
  device.used += taken;
  device.spans[at] = {bytes, legacy};
  return at;
}

inline void FakeGpus::run(Stream& stream, std::size_t count) {
  for (; count > 0 && !stream.ops.empty(); --count) {
    const Stream::Op op = stream.ops.front();
    stream.ops.pop_front();
    std::memcpy(reinterpret_cast<void*>(op.dst), reinterpret_cast<void*>(op.src), op.bytes);
    ++stream.done;
  }
}

inline CuResult FakeGpus::attributes(unsigned count, const int* wanted, void** data,
                                     CuPointer ptr) {
  if (attributes_need_context && current.empty()) return kCuInvalidContext;
  int device = -2;
  std::uint64_t begin = 0;
  Span span{0, false};
  for (std::size_t i = 0; i < devices.size(); ++i) {
    auto next = devices[i].spans.upper_bound(ptr);
    if (next == devices[i].spans.begin()) continue;
    const auto& [at, found] = *std::prev(next);
    if (ptr < at + found.bytes) std::tie(device, begin, span) = std::tuple(int(i), at, found);
  }
  const unsigned type = device >= 0 ? kCuMemoryTypeDevice : 0;
  for (unsigned i = 0; i < count; ++i) {
    if (wanted[i] == kCuAttributeMemoryType) std::memcpy(data[i], &type, sizeof type);
    if (wanted[i] == kCuAttributeDeviceOrdinal) std::memcpy(data[i], &device, sizeof device);
    if (wanted[i] == kCuAttributeIsLegacyIpcCapable) std::memcpy(data[i], &span.legacy, 1);
    if (wanted[i] == kCuAttributeRangeStart) std::memcpy(data[i], &begin, sizeof begin);
    if (wanted[i] == kCuAttributeRangeSize) std::memcpy(data[i], &span.bytes, sizeof span.bytes);
  }
  return kCuSuccess;
}

// Host memory, or wholly within memory of that device.
inline bool FakeGpus::reaches(CuPointer ptr, std::size_t bytes, int device) const {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const bool here = ptr >= devices[i].arena && ptr < devices[i].arena + kArenaBytes;
    if (here && static_cast<int>(i) != device) return false;
    if (here && ptr + bytes > devices[i].arena + devices[i].used) return false;
  }
  return true;
}

inline CuResult FakeGpus::copy(CuPointer dst, CuPointer src, std::size_t bytes, Stream& stream) {
  if (stream.device != current.back()) return kCuInvalidHandle;
  if (!reaches(dst, bytes, stream.device) || !reaches(src, bytes, stream.device)) {
    return kCuInvalidValue;
  }
  stream.ops.push_back({dst, src, bytes});
  ++stream.queued;
  return kCuSuccess;
}

inline CuResult FakeGpus::destroy_stream(Stream* stream) {
  for (const Stream::Op& op : stream->ops) orphans.push_back(op.bytes);
  std::erase_if(streams, [stream](const auto& owned) { return owned.get() == stream; });
  return kCuSuccess;
}

}  // namespace larder::platform
