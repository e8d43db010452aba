// SPDX-License-Identifier: Apache-2.0
// The PDUs of NVMe/TCP as they lie on the wire, and the rules of their framing. Sections named here
// are those of the NVMe TCP Transport Specification 1.0; byte tables are in
// docs/formats/nvme-tcp.md. Pure: no I/O, no state, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/bytes.h"
#include "larder/status.h"
#include "nvmf/pdu/command.h"

namespace larder::nvmf {

inline constexpr std::uint16_t kDefaultPort = 4420;    // of I/O controllers
inline constexpr std::uint16_t kDiscoveryPort = 8009;  // 3.1.1
inline constexpr std::uint32_t kDigestBytes = 4;
inline constexpr std::uint32_t kAlignmentMax = 128;  // of data within a PDU, bytes
// The most that lies before the data of a PDU: header, header digest and padding. (76 bytes that
// are padded to a multiple of 72.) PDUs that begin their data later are refused.
inline constexpr std::size_t kHeadBytesMax = 144;
inline constexpr std::uint32_t kDigestHeader = 1;  // bits of DGST in ICReq and ICResp
inline constexpr std::uint32_t kDigestData = 2;
inline constexpr std::uint32_t kTermDataMax = 128;       // of an H2C/C2HTermReq, 3.6.2.3
inline constexpr std::uint32_t kMaxH2cDataLeast = 4096;  // a controller may not grant less, 3.6.2.3

enum class PduType : std::uint8_t {
  kIcReq = 0x00,
  kIcResp = 0x01,
  kH2cTermReq = 0x02,
  kC2hTermReq = 0x03,
  kCapsuleCmd = 0x04,
  kCapsuleResp = 0x05,
  kH2cData = 0x06,
  kC2hData = 0x07,
  kR2t = 0x09,
};
// "ICReq", "CapsuleCmd", ...; "unknown" for numbers that are none of these.
std::string_view pdu_name(PduType type) noexcept;

// Bits of PduHeader::flags.
inline constexpr std::uint8_t kFlagHeaderDigest = 1U << 0U;
inline constexpr std::uint8_t kFlagDataDigest = 1U << 1U;
inline constexpr std::uint8_t kFlagLast = 1U << 2U;     // H2CData, C2HData
inline constexpr std::uint8_t kFlagSuccess = 1U << 3U;  // C2HData: no CapsuleResp follows

// All PDUs begin so (3.6.1).
struct PduHeader {
  PduType type{};
  std::uint8_t flags = 0;
  std::uint8_t hlen = 0;   // bytes of the header, digest not counted
  std::uint8_t pdo = 0;    // where the data begin, counted from the PDU's first byte; 0: no data
  std::uint32_t plen = 0;  // bytes of the whole PDU
};
static_assert(sizeof(PduHeader) == 8 && offsetof(PduHeader, plen) == 4);

struct IcReq {  // 3.6.2.1
  static constexpr PduType kType = PduType::kIcReq;
  PduHeader header;
  std::uint16_t pfv = 0;
  std::uint8_t hpda = 0;     // C2H data begin at multiples of (hpda + 1) * 4 bytes
  std::uint8_t dgst = 0;     // kDigestHeader, kDigestData
  std::uint32_t maxr2t = 0;  // R2Ts that may be open per command, less one
  std::array<std::uint8_t, 112> reserved{};
};
static_assert(sizeof(IcReq) == 128 && offsetof(IcReq, maxr2t) == 12);

struct IcResp {  // 3.6.2.2
  static constexpr PduType kType = PduType::kIcResp;
  PduHeader header;
  std::uint16_t pfv = 0;
  std::uint8_t cpda = 0;  // data of the host begin at multiples of (cpda + 1) * 4 bytes
  std::uint8_t dgst = 0;
  std::uint32_t maxh2cdata = 0;  // the most data of one H2CData, bytes
  std::array<std::uint8_t, 112> reserved{};
};
static_assert(sizeof(IcResp) == 128 && offsetof(IcResp, maxh2cdata) == 12);

// Why a connection ends (3.6.2.3, 3.6.2.4).
enum class FatalStatus : std::uint16_t {
  kInvalidHeader = 1,  // info: offset of the field
  kSequence = 2,       // this PDU may not come now
  kHeaderDigest = 3,   // info: the digest received
  kOutOfRange = 4,     // data outside of the command or the R2T
  kLimitExceeded = 5,  // R2T or data transfer limit
  kUnsupported = 6,    // info: offset of the parameter
};
std::string_view fatal_name(FatalStatus status) noexcept;

// H2CTermReq and C2HTermReq. Followed by what begins the header of the offending PDU.
struct TermReq {
  PduHeader header;
  std::uint16_t fes = 0;
  std::uint16_t fei_low = 0;
  std::uint16_t fei_high = 0;
  std::array<std::uint8_t, 10> reserved{};

  std::uint32_t fei() const noexcept {
    return fei_low | static_cast<std::uint32_t>(fei_high) << 16U;
  }
};
static_assert(sizeof(TermReq) == 24 && offsetof(TermReq, fei_low) == 10);

struct CapsuleCmd {  // 3.6.2.5; in-capsule data follow
  static constexpr PduType kType = PduType::kCapsuleCmd;
  PduHeader header;
  Command command;
};
static_assert(sizeof(CapsuleCmd) == 72 && offsetof(CapsuleCmd, command) == 8);

struct CapsuleResp {  // 3.6.2.6
  static constexpr PduType kType = PduType::kCapsuleResp;
  PduHeader header;
  Completion completion;
};
static_assert(sizeof(CapsuleResp) == 24 && offsetof(CapsuleResp, completion) == 8);

struct H2cData {  // 3.6.2.7
  static constexpr PduType kType = PduType::kH2cData;
  PduHeader header;
  std::uint16_t cccid = 0;
  std::uint16_t ttag = 0;
  std::uint32_t datao = 0;  // within the data of the command
  std::uint32_t datal = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(H2cData) == 24 && offsetof(H2cData, datal) == 16);

struct C2hData {  // 3.6.2.8
  static constexpr PduType kType = PduType::kC2hData;
  PduHeader header;
  std::uint16_t cccid = 0;
  std::uint16_t reserved1 = 0;
  std::uint32_t datao = 0;
  std::uint32_t datal = 0;
  std::uint32_t reserved2 = 0;
};
static_assert(sizeof(C2hData) == 24 && offsetof(C2hData, datal) == 16);

struct R2t {  // 3.6.2.9
  static constexpr PduType kType = PduType::kR2t;
  PduHeader header;
  std::uint16_t cccid = 0;
  std::uint16_t ttag = 0;
  std::uint32_t r2to = 0;
  std::uint32_t r2tl = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(R2t) == 24 && offsetof(R2t, r2tl) == 16);

// A rule that a PDU breaks: what a TermReq says of it, and the same in words.
struct PduFault {
  FatalStatus status = FatalStatus::kInvalidHeader;
  std::uint32_t info = 0;  // FEI
  PduType type{};          // of the PDU
  const char* rule = "";   // static text
};
template <class T>
using Checked = tl::expected<T, PduFault>;
// kCorrupt: "CapsuleCmd: PLEN is less than the header (invalid PDU header field, 4)".
Error to_error(const PduFault& fault);

enum class Direction : std::uint8_t { kToController, kToHost };

// What two ends agreed on, as it holds for the PDUs of one direction. ICReq, ICResp and TermReqs
// have neither digests nor data that are aligned, whatever this says.
struct Framing {
  bool header_digest = false;
  bool data_digest = false;
  std::uint32_t data_alignment = 4;  // bytes; 4 to kAlignmentMax, a multiple of 4
};
// (hpda or cpda + 1) * 4; they are at most 31.
constexpr std::uint32_t alignment_of(std::uint8_t pda) noexcept {
  return (pda + 1U) * 4U;
}

// Where the parts of a PDU are.
struct PduLayout {
  PduType type{};
  std::uint8_t flags = 0;
  std::uint32_t header_bytes = 0;         // HLEN
  std::uint32_t header_digest_bytes = 0;  // 0 or 4; follows the header
  std::uint32_t head_bytes = 0;           // all before the data: header, digest, padding
  std::uint32_t data_bytes = 0;
  std::uint32_t data_digest_bytes = 0;  // 0 or 4; follows the data

  std::uint32_t total() const noexcept { return head_bytes + data_bytes + data_digest_bytes; }
};

// Checks TYPE, flags, HLEN, PDO and PLEN against each other and `framing` (that of `direction`).
// More than `data_max` bytes of data is kLimitExceeded.
Checked<PduLayout> layout_of(const PduHeader& header, Direction direction, const Framing& framing,
                             std::uint32_t data_max);

// The header's bytes are all there: of `bytes`, the first sizeof(T). T is one of the above.
template <class T>
T load_pdu(std::span<const std::byte> bytes) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  return load_le<T>(bytes.data());
}

// Of the fields beyond the common header; kUnsupported, kInvalidHeader, kOutOfRange.
Checked<void> check(const IcReq& pdu);
Checked<void> check(const IcResp& pdu);
Checked<void> check(const H2cData& pdu, const PduLayout& layout);
Checked<void> check(const C2hData& pdu, const PduLayout& layout);
Checked<void> check(const R2t& pdu);

// `head`: the first header_bytes + header_digest_bytes of a PDU. kHeaderDigest.
Checked<void> check_header_digest(std::span<const std::byte> head, const PduLayout& layout);

// Lays out the common header of a PDU with `data_bytes` of data: HLEN, PDO, PLEN and the flags of
// the digests, besides `flags`.
PduHeader make_header(PduType type, std::size_t header_bytes, std::uint8_t flags,
                      std::uint32_t data_bytes, const Framing& framing) noexcept;
// Appends the header digest and the padding before the data. `into` begins with a header that
// make_header() made and has room for kHeadBytesMax. Returns the bytes before the data.
std::size_t seal_head(std::span<std::byte, kHeadBytesMax> into) noexcept;

// Writes what lies before `data_bytes` of data: the PDU's header with all that make_header() fills
// in, its digest and padding. After the data comes their digest if the flags of the header say so.
template <class T>
std::size_t encode_head(T pdu, std::uint8_t flags, std::uint32_t data_bytes, const Framing& framing,
                        std::span<std::byte, kHeadBytesMax> into) noexcept {
  static_assert(sizeof(T) <= kHeadBytesMax && std::is_trivially_copyable_v<T>);
  pdu.header = make_header(T::kType, sizeof(T), flags, data_bytes, framing);
  std::memcpy(into.data(), &pdu, sizeof(T));
  return seal_head(into);
}

// A TermReq with as much of the offending PDU's header as there is and may be in it; returns its
// bytes in `into`. `from`: who sends it.
inline constexpr std::size_t kTermBytesMax = sizeof(TermReq) + kTermDataMax;
std::size_t encode_term(Direction direction, const PduFault& fault,
                        std::span<const std::byte> offending,
                        std::span<std::byte, kTermBytesMax> into) noexcept;
// `bytes`: the whole PDU. What the peer complains of, in words for people.
std::string describe_term(std::span<const std::byte> bytes);

}  // namespace larder::nvmf
