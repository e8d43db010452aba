// SPDX-License-Identifier: Apache-2.0
// What answers a call.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "larder/status.h"
#include "rpc/payload.h"

namespace larder::rpc {

struct Reply {
  Code code = Code::kOk;
  std::string frame;  // from wire::frame_with()
  std::unique_ptr<PayloadSource> payload;
  std::uint64_t payload_bytes = 0;
};
// A whole-call failure with its words.
Reply error_reply(const Error& error);

}  // namespace larder::rpc
