// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/fate.h"

#include <cerrno>

namespace larder::nvmf {

Fate fate_of(const Status& status, block::OpKind kind) noexcept {
  const bool optional = kind == block::OpKind::kWriteZeroes || kind == block::OpKind::kDiscard;
  // 1/83h: of I/O commands "command size limit exceeded"; Linux calls it "ONCS not supported".
  const bool has_none =
      status.code == Sc::kInvalidOpcode || status.code == Sc::kConnectRestartDiscovery;
  if (optional && has_none) return {Code::kUnsupported, EOPNOTSUPP};
  switch (status.code) {
    case Sc::kLbaOutOfRange:
    case Sc::kInvalidNamespace:
      return {Code::kConflict, 0};  // it shrank, or is gone
    case Sc::kCapacityExceeded:
      return {Code::kExhausted, ENOSPC};
    case Sc::kNamespaceWriteProtected:
    case Sc::kAccessDenied:
      return {Code::kUnavailable, EROFS};
    case Sc::kUnrecoveredRead:
    case Sc::kWriteFault:
    case Sc::kInternalError:
      return {Code::kUnavailable, EIO};
    default:
      return {Code::kUnavailable, 0};
  }
}

bool is_passing(const Status& status) noexcept {
  if (status.do_not_retry) return false;
  return status.code == Sc::kTransientTransport || status.code == Sc::kNamespaceNotReady;
}

}  // namespace larder::nvmf
