// SPDX-License-Identifier: Apache-2.0
#include "nvmf/pdu/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace larder::nvmf {
namespace {

struct Row {
  Sc code;
  std::string_view words;
  Code means;
};

// house: table
constexpr std::array kRows = {
    Row{Sc::kSuccess, "success", Code::kOk},
    Row{Sc::kInvalidOpcode, "invalid command opcode", Code::kUnsupported},
    Row{Sc::kInvalidField, "invalid field in command", Code::kInvalidArgument},
    Row{Sc::kCommandIdConflict, "command id conflict", Code::kInternal},
    Row{Sc::kDataTransferError, "data transfer error", Code::kUnavailable},
    Row{Sc::kPowerLoss, "aborted for loss of power", Code::kUnavailable},
    Row{Sc::kInternalError, "internal error of the controller", Code::kUnavailable},
    Row{Sc::kAbortRequested, "aborted on request", Code::kCancelled},
    Row{Sc::kAbortedSqDeletion, "aborted with its queue", Code::kCancelled},
    Row{Sc::kInvalidNamespace, "invalid namespace or format", Code::kNotFound},
    Row{Sc::kSequenceError, "command sequence error", Code::kInternal},
    Row{Sc::kInvalidSglDescriptor, "invalid SGL segment descriptor", Code::kInternal},
    Row{Sc::kInvalidSglCount, "invalid number of SGL descriptors", Code::kInternal},
    Row{Sc::kDataSglLength, "SGL length does not suit the data", Code::kInternal},
    Row{Sc::kSglType, "invalid SGL descriptor type", Code::kInternal},
    Row{Sc::kInvalidSglOffset, "invalid SGL offset", Code::kInternal},
    Row{Sc::kHostIdInconsistent, "host identifier in another format", Code::kInvalidArgument},
    Row{Sc::kKeepAliveExpired, "keep-alive time-out expired", Code::kUnavailable},
    Row{Sc::kKeepAliveInvalid, "invalid keep-alive time-out", Code::kInvalidArgument},
    Row{Sc::kNamespaceWriteProtected, "namespace is write protected", Code::kPermissionDenied},
    Row{Sc::kTransientTransport, "transient transport error", Code::kUnavailable},
    Row{Sc::kLbaOutOfRange, "LBA out of range", Code::kInvalidArgument},
    Row{Sc::kCapacityExceeded, "capacity exceeded", Code::kExhausted},
    Row{Sc::kNamespaceNotReady, "namespace not ready", Code::kUnavailable},
    Row{Sc::kInvalidQueueId, "invalid queue identifier", Code::kInvalidArgument},
    Row{Sc::kInvalidQueueSize, "invalid queue size", Code::kInvalidArgument},
    Row{Sc::kAbortLimitExceeded, "abort limit exceeded", Code::kExhausted},
    Row{Sc::kAsyncEventLimitExceeded, "async event request limit exceeded", Code::kExhausted},
    Row{Sc::kInvalidLogPage, "invalid log page", Code::kUnsupported},
    Row{Sc::kFeatureNotSaveable, "feature cannot be saved", Code::kUnsupported},
    Row{Sc::kFeatureNotChangeable, "feature cannot be changed", Code::kUnsupported},
    Row{Sc::kConnectFormat, "connect: incompatible format", Code::kUnsupported},
    Row{Sc::kControllerBusy, "connect: controller busy", Code::kExhausted},
    Row{Sc::kConnectInvalidParameters, "connect: invalid parameters", Code::kInvalidArgument},
    Row{Sc::kConnectRestartDiscovery, "connect: restart discovery", Code::kUnavailable},
    Row{Sc::kConnectInvalidHost, "connect: this host is not allowed", Code::kPermissionDenied},
    Row{Sc::kInvalidQueueType, "invalid queue type", Code::kInvalidArgument},
    Row{Sc::kDiscoverRestart, "discover: restart", Code::kUnavailable},
    Row{Sc::kAuthenticationRequired, "authentication required", Code::kPermissionDenied},
    Row{Sc::kWriteFault, "write fault", Code::kUnavailable},
    Row{Sc::kUnrecoveredRead, "unrecovered read error", Code::kUnavailable},
    Row{Sc::kGuardCheck, "end-to-end guard check error", Code::kCorrupt},
    Row{Sc::kCompareFailure, "compare failure", Code::kConflict},
    Row{Sc::kAccessDenied, "access denied", Code::kPermissionDenied},
    Row{Sc::kDeallocatedRead, "deallocated or unwritten block", Code::kUnavailable},
    Row{Sc::kInternalPath, "internal path error", Code::kUnavailable},
    Row{Sc::kHostPath, "host path error", Code::kUnavailable},
    Row{Sc::kHostAborted, "aborted by the host", Code::kCancelled},
};

const Row* row_of(Sc code) noexcept {
  const auto* found =
      std::find_if(kRows.begin(), kRows.end(), [code](const Row& row) { return row.code == code; });
  return found == kRows.end() ? nullptr : found;
}

}  // namespace

std::string words(Sc code) {
  if (const Row* row = row_of(code)) return std::string(row->words);
  const auto number = static_cast<unsigned>(code);
  return fmt::format("status {:x}/{:02x}h", number >> 8U, number & 0xFFU);
}

std::string to_string(Status status) {
  const auto number = static_cast<unsigned>(status.code);
  return fmt::format("{} (status {:x}/{:02x}h{})", words(status.code), number >> 8U, number & 0xFFU,
                     status.do_not_retry ? ", do not retry" : "");
}

Code code_of(Status status) noexcept {
  const Row* row = row_of(status.code);
  return row == nullptr ? Code::kUnavailable : row->means;
}

}  // namespace larder::nvmf
