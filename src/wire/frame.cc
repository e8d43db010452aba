// SPDX-License-Identifier: Apache-2.0
#include "wire/frame.h"

#include <array>
#include <string>

#include "base/bytes.h"
#include "base/checksum.h"

namespace larder::wire {
namespace {

// Offsets in the header; docs/formats/wire.md has the same table.
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kKindAt = 5;
constexpr std::size_t kOpAt = 6;
constexpr std::size_t kCallIdAt = 8;
constexpr std::size_t kBodyAt = 16;
constexpr std::size_t kCodeAt = 20;
constexpr std::size_t kIntentAt = 22;
constexpr std::size_t kClassAt = 23;
constexpr std::size_t kPayloadAt = 24;
constexpr std::size_t kTraceAt = 32;
constexpr std::size_t kTimeoutAt = 40;
constexpr std::size_t kCheckAt = 44;
static_assert(kCheckAt + sizeof(std::uint32_t) == kHeaderBytes);

std::uint32_t check_value(const std::byte* header, std::string_view body) noexcept {
  const std::string_view fields(reinterpret_cast<const char*>(header), kCheckAt);
  return static_cast<std::uint32_t>(hash64(body, hash64(fields)));
}

tl::unexpected<Error> broken(const std::string& what) {
  return fail(Code::kCorrupt, "frame header: " + what + "; the peer does not speak this protocol");
}

}  // namespace

std::string_view op_name(Op op) noexcept {
  static constexpr std::array<std::string_view, kOpMax + 1> kNames = {
      "unknown",       "info",           "put",
      "get",           "lookup",         "match_prefix",
      "remove",        "stat",           "list",
      "pin",           "unpin",          "transfer_info",
      "transfer_read", "transfer_write", "transfer_notify",
      "devices"};
  const auto index = static_cast<std::size_t>(op);
  return index < kNames.size() ? kNames[index] : kNames[0];
}

void encode_header(const FrameHeader& header, std::string_view body, std::byte* into) noexcept {
  store_le(into + kMagicAt, kFrameMagic);
  store_le(into + kVersionAt, kProtocolVersion);
  store_le(into + kKindAt, static_cast<std::uint8_t>(header.kind));
  store_le(into + kOpAt, static_cast<std::uint16_t>(header.op));
  store_le(into + kCallIdAt, header.call_id);
  store_le(into + kBodyAt, static_cast<std::uint32_t>(body.size()));
  store_le(into + kCodeAt, static_cast<std::uint16_t>(header.code));
  store_le(into + kIntentAt, header.intent);
  store_le(into + kClassAt, header.traffic_class);
  store_le(into + kPayloadAt, header.payload_bytes);
  store_le(into + kTraceAt, header.trace_id);
  store_le(into + kTimeoutAt, header.timeout_ms);
  store_le(into + kCheckAt, check_value(into, body));
}

Result<FrameHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes) {
  const std::byte* from = bytes.data();
  if (load_le<std::uint32_t>(from + kMagicAt) != kFrameMagic) return broken("wrong magic");
  const auto version = load_le<std::uint8_t>(from + kVersionAt);
  if (version != kProtocolVersion) {
    return fail(Code::kVersionMismatch, "the peer speaks protocol version " +
                                            std::to_string(version) + ", this side " +
                                            std::to_string(kProtocolVersion));
  }
  FrameHeader header;
  const auto kind = load_le<std::uint8_t>(from + kKindAt);
  if (kind != 1 && kind != 2) return broken("unknown kind " + std::to_string(kind));
  header.kind = static_cast<FrameKind>(kind);
  // An unknown op is a request that this side cannot do, not a broken stream: the server answers
  // it.
  header.op = static_cast<Op>(load_le<std::uint16_t>(from + kOpAt));
  header.call_id = load_le<std::uint64_t>(from + kCallIdAt);
  header.body_bytes = load_le<std::uint32_t>(from + kBodyAt);
  header.code = static_cast<Code>(load_le<std::uint16_t>(from + kCodeAt));
  header.intent = load_le<std::uint8_t>(from + kIntentAt);
  header.traffic_class = load_le<std::uint8_t>(from + kClassAt);
  header.payload_bytes = load_le<std::uint64_t>(from + kPayloadAt);
  header.trace_id = load_le<std::uint64_t>(from + kTraceAt);
  header.timeout_ms = load_le<std::uint32_t>(from + kTimeoutAt);
  if (header.body_bytes > kBodyBytesMax) {
    return broken("body of " + std::to_string(header.body_bytes) + " bytes is over the limit");
  }
  if (header.payload_bytes > kPayloadBytesMax) {
    return broken("payload of " + std::to_string(header.payload_bytes) +
                  " bytes is over the limit");
  }
  return header;
}

bool check_frame(std::span<const std::byte, kHeaderBytes> bytes, std::string_view body) noexcept {
  return load_le<std::uint32_t>(bytes.data() + kCheckAt) == check_value(bytes.data(), body);
}

}  // namespace larder::wire
