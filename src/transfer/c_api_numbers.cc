// SPDX-License-Identifier: Apache-2.0
// The numbers and layouts of C are those of C++: a build that breaks this fails.
#include <cstdint>

#include "larder/transfer.h"
#include "larder/transfer_c.h"

namespace larder {
namespace {

template <class Enum>
constexpr bool same(Enum ours, std::uint32_t theirs) {
  return static_cast<std::uint32_t>(ours) == theirs;
}
static_assert(same(Code::kOk, LARDER_OK) && same(Code::kNotFound, LARDER_NOT_FOUND) &&
              same(Code::kInvalidArgument, LARDER_INVALID_ARGUMENT) &&
              same(Code::kTooLarge, LARDER_TOO_LARGE) &&
              same(Code::kBackpressure, LARDER_BACKPRESSURE) &&
              same(Code::kConflict, LARDER_CONFLICT) &&
              same(Code::kDeadlineExceeded, LARDER_DEADLINE_EXCEEDED) &&
              same(Code::kUnavailable, LARDER_UNAVAILABLE) &&
              same(Code::kPermissionDenied, LARDER_PERMISSION_DENIED) &&
              same(Code::kCorrupt, LARDER_CORRUPT) && same(Code::kExhausted, LARDER_EXHAUSTED) &&
              same(Code::kUnsupported, LARDER_UNSUPPORTED) &&
              same(Code::kCancelled, LARDER_CANCELLED) &&
              same(Code::kVersionMismatch, LARDER_VERSION_MISMATCH) &&
              same(Code::kAlreadyExists, LARDER_ALREADY_EXISTS) &&
              same(Code::kInternal, LARDER_INTERNAL));
static_assert(same(Opcode::kRead, LARDER_OPCODE_READ) && same(Opcode::kWrite, LARDER_OPCODE_WRITE));
static_assert(same(Intent::kUnknown, LARDER_INTENT_UNKNOWN) &&
              same(Intent::kForegroundHandoff, LARDER_INTENT_FOREGROUND_HANDOFF) &&
              same(Intent::kForegroundPrefixFetch, LARDER_INTENT_FOREGROUND_PREFIX_FETCH) &&
              same(Intent::kDramOffload, LARDER_INTENT_DRAM_OFFLOAD) &&
              same(Intent::kLocalStoreWrite, LARDER_INTENT_LOCAL_STORE_WRITE) &&
              same(Intent::kRemoteStoreWrite, LARDER_INTENT_REMOTE_STORE_WRITE) &&
              same(Intent::kCheckpoint, LARDER_INTENT_CHECKPOINT) &&
              kIntentCount == LARDER_INTENT_CHECKPOINT + 1);
static_assert(same(TrafficClass::kFromIntent, LARDER_CLASS_FROM_INTENT) &&
              same(TrafficClass::kHigh, LARDER_CLASS_HIGH) &&
              same(TrafficClass::kLow, LARDER_CLASS_LOW));
static_assert(same(TransportType::kUnspecified, LARDER_TRANSPORT_UNSPECIFIED) &&
              same(TransportType::kShm, LARDER_TRANSPORT_SHM) &&
              same(TransportType::kGds, LARDER_TRANSPORT_GDS) && LARDER_TRANSPORT_GDS == 5 &&
              same(TransportType::kIoUring, LARDER_TRANSPORT_IO_URING) &&
              same(TransportType::kTcp, LARDER_TRANSPORT_TCP) &&
              same(TransportType::kNds, LARDER_TRANSPORT_NDS) && LARDER_TRANSPORT_NDS == 13 &&
              same(TransportType::kMemcpy, LARDER_TRANSPORT_MEMCPY) &&
              same(TransportType::kNvmeTcp, LARDER_TRANSPORT_NVME_TCP));
static_assert(same(MemoryType::kUnknown, LARDER_MEMORY_UNKNOWN) &&
              same(MemoryType::kCpu, LARDER_MEMORY_CPU) &&
              same(MemoryType::kCuda, LARDER_MEMORY_CUDA) &&
              same(MemoryType::kNpu, LARDER_MEMORY_NPU));
static_assert(same(SegmentType::kMemory, LARDER_SEGMENT_MEMORY) &&
              same(SegmentType::kFile, LARDER_SEGMENT_FILE));
static_assert(same(Outcome::kPending, LARDER_OUTCOME_PENDING) &&
              same(Outcome::kCompleted, LARDER_OUTCOME_COMPLETED) &&
              same(Outcome::kFailed, LARDER_OUTCOME_FAILED) &&
              same(Outcome::kCancelled, LARDER_OUTCOME_CANCELLED) &&
              same(Outcome::kTimedOut, LARDER_OUTCOME_TIMED_OUT));
static_assert(kLocalSegment.value == LARDER_LOCAL_SEGMENT && kBatchTasksMax == LARDER_ARRAY_MAX);
// The layouts are the interface: a size that changes is a new version.
static_assert(sizeof(larder_transfer_range) == 32 && sizeof(larder_transfer_request) == 72 &&
              sizeof(larder_transfer_result) == 16 && sizeof(larder_transfer_task) == 24 &&
              sizeof(larder_transfer_batch) == 40 && sizeof(larder_transfer_segment) == 24 &&
              sizeof(larder_transfer_buffer) == 32 && sizeof(larder_transfer_notification) == 48 &&
              sizeof(larder_transfer_received) == 272);

}  // namespace
}  // namespace larder
