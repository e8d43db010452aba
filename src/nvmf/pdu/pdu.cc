// SPDX-License-Identifier: Apache-2.0
#include "nvmf/pdu/pdu.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"

namespace larder::nvmf {
namespace {

// What each type of PDU is like (TCP 3.6.2).
struct Shape {
  Direction direction;
  std::uint8_t hlen;
  std::uint8_t flags;  // besides those of digests
  bool data;           // may follow
  bool digests;        // as negotiated; PDUs from before that have none
};

constexpr std::array<Shape, 10> kShapes = {{
    {Direction::kToController, sizeof(IcReq), 0, false, false},
    {Direction::kToHost, sizeof(IcResp), 0, false, false},
    {Direction::kToController, sizeof(TermReq), 0, true, false},
    {Direction::kToHost, sizeof(TermReq), 0, true, false},
    {Direction::kToController, sizeof(CapsuleCmd), 0, true, true},
    {Direction::kToHost, sizeof(CapsuleResp), 0, false, true},
    {Direction::kToController, sizeof(H2cData), kFlagLast, true, true},
    {Direction::kToHost, sizeof(C2hData), kFlagLast | kFlagSuccess, true, true},
    {},  // 08h is reserved
    {Direction::kToHost, sizeof(R2t), 0, false, true},
}};

const Shape* shape_of(PduType type) noexcept {
  const auto number = static_cast<std::size_t>(type);
  if (number >= kShapes.size() || kShapes[number].hlen == 0) return nullptr;
  return &kShapes[number];
}

constexpr std::uint32_t kTypeAt = 0;
constexpr std::uint32_t kFlagsAt = 1;
constexpr std::uint32_t kHlenAt = 2;
constexpr std::uint32_t kPdoAt = 3;
constexpr std::uint32_t kPlenAt = 4;

tl::unexpected<PduFault> broken(PduType type, std::uint32_t at, const char* rule) {
  return tl::unexpected<PduFault>(PduFault{FatalStatus::kInvalidHeader, at, type, rule});
}
tl::unexpected<PduFault> broken(PduType type, FatalStatus status, std::uint32_t info,
                                const char* rule) {
  return tl::unexpected<PduFault>(PduFault{status, info, type, rule});
}

bool is_term(PduType type) noexcept {
  return type == PduType::kH2cTermReq || type == PduType::kC2hTermReq;
}

Checked<void> check_flags(const PduHeader& h, const Shape& shape, const Framing& framing) {
  const std::uint8_t digests = kFlagHeaderDigest | (shape.data ? kFlagDataDigest : 0);
  const std::uint8_t known = shape.flags | (shape.digests ? digests : 0);
  if ((h.flags & ~known) != 0) return broken(h.type, kFlagsAt, "a flag that this PDU has not");
  const bool header_digest = (h.flags & kFlagHeaderDigest) != 0;
  if (header_digest != (shape.digests && framing.header_digest)) {
    return broken(h.type, kFlagsAt, "HDGSTF is not as negotiated");
  }
  if ((h.flags & kFlagSuccess) != 0 && (h.flags & kFlagLast) == 0) {
    return broken(h.type, kFlagsAt, "SUCCESS without LAST_PDU");
  }
  return {};
}

Checked<void> place_data(const PduHeader& h, const Framing& framing, PduLayout& out) {
  const std::uint32_t before = out.header_bytes + out.header_digest_bytes;
  const bool digest = (h.flags & kFlagDataDigest) != 0;
  if (digest != framing.data_digest) {
    return broken(h.type, kFlagsAt, "DDGSTF is not as negotiated");
  }
  out.data_digest_bytes = digest ? kDigestBytes : 0;
  if (h.pdo < before) return broken(h.type, kPdoAt, "PDO is within the header");
  if (h.pdo % framing.data_alignment != 0 || h.pdo > kHeadBytesMax) {
    return broken(h.type, kPdoAt, "PDO is not aligned as negotiated");
  }
  out.head_bytes = h.pdo;
  if (h.plen <= out.head_bytes + out.data_digest_bytes) {
    return broken(h.type, kPlenAt, "PLEN leaves no room for data after PDO");
  }
  out.data_bytes = h.plen - out.head_bytes - out.data_digest_bytes;
  return {};
}

template <class T>
Checked<void> check_data(const T& pdu, const PduLayout& layout) {
  const PduType type = layout.type;
  constexpr std::uint32_t kDataoAt = offsetof(T, datao);
  constexpr std::uint32_t kDatalAt = offsetof(T, datal);
  if (pdu.datal == 0) return broken(type, kDatalAt, "DATAL is 0");
  if (pdu.datal != layout.data_bytes) {
    return broken(type, kDatalAt, "DATAL is not what PLEN and PDO leave for data");
  }
  if (pdu.datal % 4 != 0) return broken(type, kDatalAt, "DATAL is not a multiple of 4");
  if (pdu.datao % 4 != 0) return broken(type, kDataoAt, "DATAO is not a multiple of 4");
  if (pdu.datao + pdu.datal < pdu.datao) {
    return broken(type, FatalStatus::kOutOfRange, kDataoAt, "DATAO + DATAL is over 4 GiB");
  }
  return {};
}

}  // namespace

std::string_view pdu_name(PduType type) noexcept {
  constexpr std::array<std::string_view, 10> kNames = {
      "ICReq",       "ICResp",  "H2CTermReq", "C2HTermReq", "CapsuleCmd",
      "CapsuleResp", "H2CData", "C2HData",    "unknown",    "R2T"};
  const auto number = static_cast<std::size_t>(type);
  return number < kNames.size() ? kNames[number] : "unknown";
}

std::string_view fatal_name(FatalStatus status) noexcept {
  switch (status) {
    case FatalStatus::kInvalidHeader:
      return "invalid PDU header field";
    case FatalStatus::kSequence:
      return "PDU sequence error";
    case FatalStatus::kHeaderDigest:
      return "header digest error";
    case FatalStatus::kOutOfRange:
      return "data transfer out of range";
    case FatalStatus::kLimitExceeded:
      return "R2T or data transfer limit exceeded";
    case FatalStatus::kUnsupported:
      return "unsupported parameter";
  }
  return "unknown reason";
}

Error to_error(const PduFault& fault) {
  std::string name(pdu_name(fault.type));
  if (name == "unknown")
    name = fmt::format("PDU of type {:02x}h", static_cast<unsigned>(fault.type));
  return {Code::kCorrupt,
          fmt::format("{}: {} ({}, {})", name, fault.rule, fatal_name(fault.status), fault.info)};
}

Checked<PduLayout> layout_of(const PduHeader& h, Direction direction, const Framing& framing,
                             std::uint32_t data_max) {
  const Shape* shape = shape_of(h.type);
  if (shape == nullptr) return broken(h.type, kTypeAt, "no such PDU");
  if (shape->direction != direction) return broken(h.type, kTypeAt, "the other end sends these");
  if (h.hlen != shape->hlen) return broken(h.type, kHlenAt, "HLEN is not that of this PDU");
  if (auto flags = check_flags(h, *shape, framing); !flags) {
    return tl::unexpected<PduFault>(flags.error());
  }
  PduLayout out{h.type, h.flags, h.hlen, 0, 0, 0, 0};
  if ((h.flags & kFlagHeaderDigest) != 0) out.header_digest_bytes = kDigestBytes;
  out.head_bytes = out.header_bytes + out.header_digest_bytes;
  if (h.plen < out.head_bytes) return broken(h.type, kPlenAt, "PLEN is less than the header");
  if (is_term(h.type)) {
    out.data_bytes = h.plen - out.head_bytes;
    if (out.data_bytes > kTermDataMax) {
      return broken(h.type, kPlenAt, "PLEN is more than 152 bytes");
    }
    return out;
  }
  if (h.plen == out.head_bytes) {
    if ((h.flags & kFlagDataDigest) != 0) {
      return broken(h.type, kFlagsAt, "DDGSTF without data");
    }
    return out;
  }
  if (!shape->data) return broken(h.type, kPlenAt, "PLEN is more than the header");
  if (auto data = place_data(h, framing, out); !data) {
    return tl::unexpected<PduFault>(data.error());
  }
  if (out.data_bytes > data_max) {
    return broken(h.type, FatalStatus::kLimitExceeded, kPlenAt, "more data than was offered");
  }
  return out;
}

Checked<void> check(const IcReq& pdu) {
  const PduType type = PduType::kIcReq;
  if (pdu.pfv != 0) {
    return broken(type, FatalStatus::kUnsupported, offsetof(IcReq, pfv),
                  "PFV is not 0, the only format there is");
  }
  if (pdu.hpda > 31) return broken(type, offsetof(IcReq, hpda), "HPDA is more than 31");
  return {};
}

Checked<void> check(const IcResp& pdu) {
  const PduType type = PduType::kIcResp;
  if (pdu.pfv != 0) {
    return broken(type, FatalStatus::kUnsupported, offsetof(IcResp, pfv),
                  "PFV is not 0, the only format there is");
  }
  if (pdu.cpda > 31) return broken(type, offsetof(IcResp, cpda), "CPDA is more than 31");
  if (pdu.maxh2cdata < kMaxH2cDataLeast || pdu.maxh2cdata % 4 != 0) {
    return broken(type, offsetof(IcResp, maxh2cdata),
                  "MAXH2CDATA is less than 4096 or not a multiple of 4");
  }
  return {};
}

Checked<void> check(const H2cData& pdu, const PduLayout& layout) {
  return check_data(pdu, layout);
}
Checked<void> check(const C2hData& pdu, const PduLayout& layout) {
  return check_data(pdu, layout);
}

Checked<void> check(const R2t& pdu) {
  const PduType type = PduType::kR2t;
  if (pdu.r2tl == 0) return broken(type, offsetof(R2t, r2tl), "R2TL is 0");
  if (pdu.r2tl % 4 != 0) return broken(type, offsetof(R2t, r2tl), "R2TL is not a multiple of 4");
  if (pdu.r2to % 4 != 0) return broken(type, offsetof(R2t, r2to), "R2TO is not a multiple of 4");
  if (pdu.r2to + pdu.r2tl < pdu.r2to) {
    return broken(type, FatalStatus::kOutOfRange, offsetof(R2t, r2to), "R2TO + R2TL is over 4 GiB");
  }
  return {};
}

Checked<void> check_header_digest(std::span<const std::byte> head, const PduLayout& layout) {
  if (layout.header_digest_bytes == 0) return {};
  const auto sent = load_le<std::uint32_t>(head.data() + layout.header_bytes);
  if (sent == crc32c(head.first(layout.header_bytes))) return {};
  return broken(layout.type, FatalStatus::kHeaderDigest, sent, "its header digest is wrong");
}

PduHeader make_header(PduType type, std::size_t header_bytes, std::uint8_t flags,
                      std::uint32_t data_bytes, const Framing& framing) noexcept {
  const Shape* shape = shape_of(type);
  const bool digests = shape != nullptr && shape->digests;
  PduHeader h{type, flags, static_cast<std::uint8_t>(header_bytes), 0, 0};
  auto at = static_cast<std::uint32_t>(header_bytes);
  if (digests && framing.header_digest) {
    h.flags |= kFlagHeaderDigest;
    at += kDigestBytes;
  }
  if (data_bytes > 0) {
    at = (at + framing.data_alignment - 1) / framing.data_alignment * framing.data_alignment;
    h.pdo = static_cast<std::uint8_t>(at);
    if (digests && framing.data_digest) {
      h.flags |= kFlagDataDigest;
      at += kDigestBytes;
    }
  }
  h.plen = at + data_bytes;
  return h;
}

std::size_t seal_head(std::span<std::byte, kHeadBytesMax> into) noexcept {
  const auto h = load_le<PduHeader>(into.data());
  std::size_t at = h.hlen;
  if ((h.flags & kFlagHeaderDigest) != 0) {
    store_le(into.data() + at, crc32c(into.first(at)));
    at += kDigestBytes;
  }
  if (h.pdo > at) {
    std::memset(into.data() + at, 0, h.pdo - at);
    at = h.pdo;
  }
  return at;
}

std::size_t encode_term(Direction direction, const PduFault& fault,
                        std::span<const std::byte> offending,
                        std::span<std::byte, kTermBytesMax> into) noexcept {
  const std::size_t shown = std::min<std::size_t>(offending.size(), kTermDataMax);
  TermReq pdu;
  pdu.header.type =
      direction == Direction::kToController ? PduType::kH2cTermReq : PduType::kC2hTermReq;
  pdu.header.hlen = sizeof(TermReq);
  pdu.header.plen = static_cast<std::uint32_t>(sizeof(TermReq) + shown);
  pdu.fes = static_cast<std::uint16_t>(fault.status);
  pdu.fei_low = static_cast<std::uint16_t>(fault.info);
  pdu.fei_high = static_cast<std::uint16_t>(fault.info >> 16U);
  std::memcpy(into.data(), &pdu, sizeof(pdu));
  if (shown > 0) std::memcpy(into.data() + sizeof(pdu), offending.data(), shown);
  return sizeof(pdu) + shown;
}

std::string describe_term(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(TermReq)) return "a termination request that was cut short";
  const auto pdu = load_le<TermReq>(bytes.data());
  std::string text =
      fmt::format("{} ({}, {})", fatal_name(static_cast<FatalStatus>(pdu.fes)), pdu.fes, pdu.fei());
  if (bytes.size() > sizeof(TermReq)) {
    const auto type = static_cast<PduType>(bytes[sizeof(TermReq)]);
    text +=
        fmt::format(" in a PDU of type {:02x}h ({})", static_cast<unsigned>(type), pdu_name(type));
  }
  return text;
}

}  // namespace larder::nvmf
