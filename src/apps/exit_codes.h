// SPDX-License-Identifier: Apache-2.0
// What the exit code of `larder` says to a script. Documented in --help; never renumbered.
#pragma once

#include "larder/status.h"

namespace larder::apps {

enum ExitCode : int {
  kExitOk = 0,
  kExitMissing = 1,      // a key that was asked for is not there; doctor: a must-have is not
  kExitUsage = 2,        // wrong arguments or configuration
  kExitUnreachable = 3,  // no node there, or no answer in time
  kExitWrongBytes = 4,   // bytes came back that were never stored
  kExitError = 5,        // anything else
};

constexpr int exit_code(Code code) noexcept {
  switch (code) {
    case Code::kOk:
      return kExitOk;
    case Code::kNotFound:
      return kExitMissing;
    case Code::kInvalidArgument:
      return kExitUsage;
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
      return kExitUnreachable;
    case Code::kCorrupt:
      return kExitWrongBytes;
    default:
      return kExitError;
  }
}

inline constexpr const char* kExitCodesHelp =
    "Exit codes: 0 done; 1 a key is not there (doctor: something the node cannot do without); 2 "
    "wrong arguments or configuration; 3 no node "
    "there or no answer in time; 4 wrong bytes came back; 5 any other error; 128+N ended by "
    "signal N.";

}  // namespace larder::apps
