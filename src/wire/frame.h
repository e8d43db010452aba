// SPDX-License-Identifier: Apache-2.0
// The frame header of the peer protocol, byte by byte in docs/formats/wire.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "larder/status.h"

namespace larder::wire {

inline constexpr std::uint32_t kFrameMagic = 0x3144524c;  // "LRD1"
inline constexpr std::uint8_t kProtocolVersion = 1;
inline constexpr std::size_t kHeaderBytes = 48;
// 65,536 keys of 1 KiB and their arrays fit; nothing larger is ever allocated for a body.
inline constexpr std::uint32_t kBodyBytesMax = 80U << 20;
// A batch may carry this much payload; one value is bounded by kValueBytesMax in larder/client.h.
inline constexpr std::uint64_t kPayloadBytesMax = 64ULL << 30;

enum class FrameKind : std::uint8_t { kRequest = 1, kReply = 2 };

// Append only.
enum class Op : std::uint16_t {
  kInfo = 1,
  kPut = 2,
  kGet = 3,
  kLookup = 4,
  kMatchPrefix = 5,
  kRemove = 6,
  kStat = 7,
  kList = 8,
  kPin = 9,
  kUnpin = 10,
  kTransferInfo = 11,
  kTransferRead = 12,
  kTransferWrite = 13,
  kTransferNotify = 14,
  kDevices = 15,
};
inline constexpr std::uint16_t kOpMax = 15;
inline constexpr std::size_t kTransferItemsMax = 1024;  // of one read or write
std::string_view op_name(Op op) noexcept;

inline constexpr std::uint32_t kDevicesList = 0;  // the action beside those of larder::DeviceAction
inline constexpr std::size_t kDeviceNameBytesMax = 4095;  // a device's path or id in a request

enum PutFlag : std::uint32_t {
  kPutAlreadyStored = 1,  // the same bytes were there; nothing was moved
  kPutResend = 2,         // bytes of the stored length but other contents: send again with `force`
  kPutRetry = 4,          // there was no room; now there may be: send again
};

struct FrameHeader {
  FrameKind kind = FrameKind::kRequest;
  Op op = Op::kInfo;
  Code code = Code::kOk;    // replies
  std::uint8_t intent = 0;  // why the bytes move (DESIGN 3.6); 0: unknown
  std::uint8_t traffic_class = 0;
  std::uint64_t call_id = 0;
  std::uint32_t body_bytes = 0;
  std::uint32_t timeout_ms = 0;  // requests: how long the caller waits
  std::uint64_t payload_bytes = 0;
  std::uint64_t trace_id = 0;
};

// `into` must have kHeaderBytes; `body` is covered by the header's check value.
void encode_header(const FrameHeader& header, std::string_view body, std::byte* into) noexcept;

// Reads and validates everything but the check value. kVersionMismatch or kCorrupt.
Result<FrameHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes);
// True when the check value of the raw header fits header and body.
bool check_frame(std::span<const std::byte, kHeaderBytes> bytes, std::string_view body) noexcept;

}  // namespace larder::wire
