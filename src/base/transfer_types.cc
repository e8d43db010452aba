// SPDX-License-Identifier: Apache-2.0
#include "larder/transfer_types.h"

#include <array>
#include <span>
#include <string>

#include "base/units.h"
#include "larder/transfer.h"

namespace larder {
namespace {

template <class T>
struct Named {
  T value;
  std::string_view name;
};

template <class T>
Named(T, std::string_view) -> Named<T>;  // clang 16 does not find it itself

constexpr std::array kIntents = {
    Named{Intent::kUnknown, "unknown"},
    Named{Intent::kForegroundHandoff, "foreground_handoff"},
    Named{Intent::kForegroundPrefixFetch, "foreground_prefix_fetch"},
    Named{Intent::kDramOffload, "dram_offload"},
    Named{Intent::kLocalStoreWrite, "local_store_write"},
    Named{Intent::kRemoteStoreWrite, "remote_store_write"},
    Named{Intent::kCheckpoint, "checkpoint"},
};
static_assert(kIntents.size() == kIntentCount);

constexpr std::array kClasses = {
    Named{TrafficClass::kHigh, "high"},
    Named{TrafficClass::kLow, "low"},
};
constexpr std::array kResources = {
    Named{Resource::kNicTx, "nic_tx"},
    Named{Resource::kNicRx, "nic_rx"},
    Named{Resource::kAccelPcieOut, "accel_pcie_out"},
    Named{Resource::kAccelPcieIn, "accel_pcie_in"},
    Named{Resource::kHostMemoryBw, "host_memory_bw"},
    Named{Resource::kNvmeRead, "nvme_read"},
    Named{Resource::kNvmeWrite, "nvme_write"},
};
static_assert(kResources.size() == kResourceCount);

constexpr std::array kMemoryTypes = {
    Named{MemoryType::kCpu, "cpu"},
    Named{MemoryType::kCuda, "cuda"},
    Named{MemoryType::kNpu, "npu"},
};
constexpr std::array kTransports = {
    Named{TransportType::kShm, "shm"},          Named{TransportType::kGds, "gds"},
    Named{TransportType::kIoUring, "io_uring"}, Named{TransportType::kTcp, "tcp"},
    Named{TransportType::kNds, "nds"},          Named{TransportType::kMemcpy, "memcpy"},
    Named{TransportType::kNvmeTcp, "nvme_tcp"},  // last: see parse_transport()
};
constexpr std::array kSegmentTypes = {
    Named{SegmentType::kMemory, "memory"},
    Named{SegmentType::kFile, "file"},
};

template <class T>
std::string_view name_in(std::span<const Named<T>> names, T value) noexcept {
  for (const Named<T>& known : names) {
    if (known.value == value) return known.name;
  }
  return "unknown";
}

template <class T>
Result<T> find_in(std::span<const Named<T>> names, std::string_view text, std::string_view what) {
  std::string all;
  for (const Named<T>& known : names) {
    if (known.name == text) return known.value;
    all.append(all.empty() ? "" : ", ").append(known.name);
  }
  return fail(Code::kInvalidArgument,
              std::string(what) + " " + base::quoted(text) + " is not one of " + all);
}

}  // namespace

std::string_view intent_name(Intent intent) noexcept {
  return name_in<Intent>(kIntents, intent);
}
std::string_view class_name(TrafficClass traffic_class) noexcept {
  return name_in<TrafficClass>(kClasses, traffic_class);
}
std::string_view resource_name(Resource resource) noexcept {
  return name_in<Resource>(kResources, resource);
}
std::string_view memory_type_name(MemoryType type) noexcept {
  return name_in<MemoryType>(kMemoryTypes, type);
}
std::string_view transport_name(TransportType type) noexcept {
  return name_in<TransportType>(kTransports, type);
}
std::string_view segment_type_name(SegmentType type) noexcept {
  return name_in<SegmentType>(kSegmentTypes, type);
}

Result<Intent> parse_intent(std::string_view text) {
  return find_in<Intent>(kIntents, text, "intent");
}
Result<TrafficClass> parse_class(std::string_view text) {
  return find_in<TrafficClass>(kClasses, text, "class");
}
Result<MemoryType> parse_memory_type(std::string_view text) {
  return find_in<MemoryType>(kMemoryTypes, text, "memory type");
}
Result<TransportType> parse_transport(std::string_view text) {
  // Known, but not offered to who asks for another: it cannot be chosen.
  if (text == kTransports.back().name) return kTransports.back().value;
  return find_in<TransportType>(std::span(kTransports).first(kTransports.size() - 1), text,
                                "transport");
}
Result<SegmentType> parse_segment_type(std::string_view text) {
  return find_in<SegmentType>(kSegmentTypes, text, "segment type");
}

TrafficClass class_of(Intent intent) noexcept {
  const bool waited_for =
      intent == Intent::kForegroundHandoff || intent == Intent::kForegroundPrefixFetch;
  return waited_for ? TrafficClass::kHigh : TrafficClass::kLow;
}

std::string_view outcome_name(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::kPending:
      return "pending";
    case Outcome::kCompleted:
      return "completed";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kCancelled:
      return "cancelled";
    case Outcome::kTimedOut:
      return "timed_out";
  }
  return "unknown";
}

}  // namespace larder
