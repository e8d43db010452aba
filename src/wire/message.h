// SPDX-License-Identifier: Apache-2.0
// Frames as one string: room for the header, then the body.
#pragma once

#include <string>
#include <string_view>

#include "larder/status.h"
#include "wire/frame.h"

namespace google::protobuf {
class MessageLite;
}

namespace larder::wire {

// Header room followed by the serialized message; seal_frame() fills the header in.
std::string frame_with(const google::protobuf::MessageLite& body);
// The body of a frame made by frame_with().
std::string_view frame_body(const std::string& frame) noexcept;
void seal_frame(const FrameHeader& header, std::string& frame) noexcept;

// kCorrupt naming the operation when the bytes are not such a message.
Result<void> parse_body(std::string_view body, Op op, google::protobuf::MessageLite& into);

}  // namespace larder::wire
