// SPDX-License-Identifier: Apache-2.0
// How a command ended: the status field of a completion (Base 2.0 section 3.3.3.2.1, Fabrics 1.1
// section 3.3). Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "larder/status.h"

namespace larder::nvmf {

// Status code type and status code: (SCT << 8) | SC.
enum class Sc : std::uint16_t {
  kSuccess = 0x000,
  kInvalidOpcode = 0x001,
  kInvalidField = 0x002,
  kCommandIdConflict = 0x003,
  kDataTransferError = 0x004,
  kPowerLoss = 0x005,
  kInternalError = 0x006,
  kAbortRequested = 0x007,
  kAbortedSqDeletion = 0x008,
  kInvalidNamespace = 0x00B,
  kSequenceError = 0x00C,
  kInvalidSglDescriptor = 0x00D,
  kInvalidSglCount = 0x00E,
  kDataSglLength = 0x00F,
  kSglType = 0x011,
  kInvalidSglOffset = 0x016,
  kHostIdInconsistent = 0x018,
  kKeepAliveExpired = 0x019,
  kKeepAliveInvalid = 0x01A,
  kNamespaceWriteProtected = 0x020,
  kTransientTransport = 0x022,
  kLbaOutOfRange = 0x080,
  kCapacityExceeded = 0x081,
  kNamespaceNotReady = 0x082,
  kInvalidQueueId = 0x101,
  kInvalidQueueSize = 0x102,
  kAbortLimitExceeded = 0x103,
  kAsyncEventLimitExceeded = 0x105,
  kInvalidLogPage = 0x109,
  kFeatureNotSaveable = 0x10D,
  kFeatureNotChangeable = 0x10E,
  kConnectFormat = 0x180,  // of Connect; of I/O commands: conflicting attributes
  kControllerBusy = 0x181,
  kConnectInvalidParameters = 0x182,  // of Connect; of I/O commands: write to a read-only range
  kConnectRestartDiscovery = 0x183,
  kConnectInvalidHost = 0x184,
  kInvalidQueueType = 0x185,
  kDiscoverRestart = 0x190,
  kAuthenticationRequired = 0x191,
  kWriteFault = 0x280,
  kUnrecoveredRead = 0x281,
  kGuardCheck = 0x282,
  kCompareFailure = 0x285,
  kAccessDenied = 0x286,
  kDeallocatedRead = 0x287,
  kInternalPath = 0x300,
  kHostPath = 0x370,
  kHostAborted = 0x371,
};

// "invalid field in command", or the number of one that is not known here.
std::string words(Sc code);

struct [[nodiscard]] Status {
  Sc code = Sc::kSuccess;
  bool do_not_retry = false;
  bool more = false;             // the error log has more of it
  std::uint8_t retry_delay = 0;  // CRD, which of the controller's three delays; 0: none

  constexpr bool ok() const noexcept { return code == Sc::kSuccess; }
  // Bits 15:1 of the status field, shifted down: SC 7:0, SCT 10:8, CRD 12:11, M 13, DNR 14.
  constexpr std::uint16_t bits() const noexcept {
    return static_cast<std::uint16_t>((static_cast<unsigned>(code) & 0x7FFU) |
                                      (retry_delay & 3U) << 11U | (more ? 1U << 13U : 0U) |
                                      (do_not_retry ? 1U << 14U : 0U));
  }
  static constexpr Status from_bits(std::uint16_t bits) noexcept {
    return {static_cast<Sc>(bits & 0x7FFU), (bits & 1U << 14U) != 0, (bits & 1U << 13U) != 0,
            static_cast<std::uint8_t>(bits >> 11U & 3U)};
  }
  bool operator==(const Status&) const = default;
};

// Ends a command for good: the same command cannot work later either.
constexpr Status refused(Sc code) noexcept {
  return {code, true, false, 0};
}
// Ends a command that may be sent again.
constexpr Status failed(Sc code) noexcept {
  return {code, false, false, 0};
}

// "LBA out of range (status 0/80h, do not retry)".
std::string to_string(Status status);
// What it is for callers of a block device: kExhausted for a full backing, kPermissionDenied for
// write protection and refused hosts, kInvalidArgument for commands that are wrong, kCancelled for
// aborts, kUnavailable for the rest. kOk for success.
Code code_of(Status status) noexcept;

}  // namespace larder::nvmf
