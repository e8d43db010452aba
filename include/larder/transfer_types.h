// SPDX-License-Identifier: Apache-2.0
// The words of the transfer engine. All numbers here travel in configurations, in the C API and on
// the wire: append only.
#pragma once

#include <cstdint>
#include <string_view>

#include "larder/status.h"

namespace larder {

// Why bytes move. Policy makes a class of it; the intent itself promises nothing.
enum class Intent : std::uint8_t {
  kUnknown = 0,                // nobody said: counted as such, and never HIGH
  kForegroundHandoff = 1,      // prefill hands its blocks to decode: a user waits
  kForegroundPrefixFetch = 2,  // a hit is fetched instead of computed: a user waits
  kDramOffload = 3,            // accelerator to DRAM, in the background
  kLocalStoreWrite = 4,        // to a local disk
  kRemoteStoreWrite = 5,       // to a peer's memory or a remote disk
  kCheckpoint = 6,
};
inline constexpr std::size_t kIntentCount = 7;

enum class TrafficClass : std::uint8_t {
  kFromIntent = 0,  // in a request only: the two foreground intents are HIGH, all others LOW
  kHigh = 1,
  kLow = 2,
};

// What a transfer takes bytes from, by direction: traffic in opposite directions does not collide.
enum class Resource : std::uint8_t {
  kNicTx = 0,
  kNicRx = 1,
  kAccelPcieOut = 2,  // accelerator to host
  kAccelPcieIn = 3,
  kHostMemoryBw = 4,
  kNvmeRead = 5,
  kNvmeWrite = 6,
};
inline constexpr std::size_t kResourceCount = 7;

// Kinds are never mixed up: what can reach CUDA memory cannot therefore reach an NPU's.
enum class MemoryType : std::uint8_t {
  kUnknown = 0,
  kCpu = 1,
  kCuda = 2,
  kNpu = 3,
};

// Where a range of memory is, as in "cpu:1", "cuda:0", "npu:3".
struct Location {
  MemoryType type = MemoryType::kUnknown;
  int index = -1;  // NUMA node or device; -1: unknown
  bool operator==(const Location&) const = default;
};

// How bytes move. The numbers up to 63 are those that Mooncake's TENT uses for the same thing, so
// that configurations and dashboards can be shared.
enum class TransportType : std::uint8_t {
  kUnspecified = 0,
  kShm = 3,
  kGds = 5,      // CUDA memory to and from files (cuFile)
  kIoUring = 6,  // files; over a pread/pwrite pool where io_uring is forbidden
  kTcp = 7,
  kNds = 13,     // NPU memory to and from files
  kMemcpy = 64,  // within this process
  // Disks behind NVMe/TCP. In the books only: the store reads and writes them by itself, and no
  // request of the engine can.
  kNvmeTcp = 65,
};

enum class SegmentType : std::uint8_t {
  kMemory = 0,
  kFile = 1,
};

// Names as configurations and metrics have them: "foreground_handoff", "high", "nic_tx", "cuda",
// "io_uring", "file". "unknown" for numbers that are none of these.
std::string_view intent_name(Intent intent) noexcept;
std::string_view class_name(TrafficClass traffic_class) noexcept;
std::string_view resource_name(Resource resource) noexcept;
std::string_view memory_type_name(MemoryType type) noexcept;
std::string_view transport_name(TransportType type) noexcept;
std::string_view segment_type_name(SegmentType type) noexcept;

// The other way. kInvalidArgument: names the text and lists what is known.
Result<Intent> parse_intent(std::string_view text);
Result<TrafficClass> parse_class(std::string_view text);  // "high" or "low"
Result<MemoryType> parse_memory_type(std::string_view text);
Result<TransportType> parse_transport(std::string_view text);
Result<SegmentType> parse_segment_type(std::string_view text);

// The class that an intent has when the request names none.
TrafficClass class_of(Intent intent) noexcept;
// What only the books know: no policy may choose it.
constexpr bool is_only_booked(TransportType type) noexcept {
  return type == TransportType::kNvmeTcp;
}
// Memory that the CPU must not touch.
constexpr bool is_device_memory(MemoryType type) noexcept {
  return type == MemoryType::kCuda || type == MemoryType::kNpu;
}

}  // namespace larder
