// SPDX-License-Identifier: Apache-2.0
#include "wire/message.h"

#include <google/protobuf/message_lite.h>

namespace larder::wire {

std::string frame_with(const google::protobuf::MessageLite& body) {
  std::string frame;
  const std::size_t body_bytes = body.ByteSizeLong();
  frame.resize(kHeaderBytes + body_bytes);
  body.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(frame.data()) +
                                       kHeaderBytes);
  return frame;
}

std::string_view frame_body(const std::string& frame) noexcept {
  return std::string_view(frame).substr(kHeaderBytes);
}

void seal_frame(const FrameHeader& header, std::string& frame) noexcept {
  encode_header(header, frame_body(frame), reinterpret_cast<std::byte*>(frame.data()));
}

Result<void> parse_body(std::string_view body, Op op, google::protobuf::MessageLite& into) {
  if (into.ParseFromArray(body.data(), static_cast<int>(body.size()))) return {};
  return fail(Code::kCorrupt,
              "the body of a " + std::string(op_name(op)) + " message is malformed");
}

}  // namespace larder::wire
