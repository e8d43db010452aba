// SPDX-License-Identifier: Apache-2.0
// What Identify returns (Base 2.0 section 5.17, NVM Command Set 1.0 section 4.1.5). Only what is
// used here has a name. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "larder/status.h"
#include "nvmf/pdu/command.h"

namespace larder::nvmf {

using Id16 = std::array<std::uint8_t, 16>;  // NGUID, UUID, host id: in the order of the wire
using Id8 = std::array<std::uint8_t, 8>;    // EUI-64

struct IdentifyController {
  std::uint16_t vid = 0;
  std::uint16_t ssvid = 0;
  std::array<char, 20> serial{};   // padded with spaces
  std::array<char, 40> model{};    // so
  std::array<char, 8> firmware{};  // so
  std::uint8_t rab = 0;
  std::array<std::uint8_t, 3> ieee{};
  std::uint8_t cmic = 0;
  std::uint8_t mdts = 0;  // transfers are at most 2^mdts pages; 0: no limit
  std::uint16_t cntlid = 0;
  std::uint32_t ver = 0;
  std::uint32_t rtd3r = 0;
  std::uint32_t rtd3e = 0;
  std::uint32_t oaes = 0;
  std::uint32_t ctratt = 0;
  std::array<std::uint8_t, 11> reserved100{};
  std::uint8_t cntrltype = 0;  // 1 I/O, 2 discovery
  Id16 fguid{};
  std::array<std::uint8_t, 128> reserved128{};
  std::uint16_t oacs = 0;
  std::uint8_t acl = 0;   // aborts at a time, less one
  std::uint8_t aerl = 0;  // async event requests at a time, less one
  std::uint8_t frmw = 0;
  std::uint8_t lpa = 0;
  std::uint8_t elpe = 0;
  std::uint8_t npss = 0;
  std::uint8_t avscc = 0;
  std::uint8_t apsta = 0;
  std::uint16_t wctemp = 0;
  std::uint16_t cctemp = 0;
  std::array<std::uint8_t, 50> reserved270{};
  std::uint16_t kas = 0;  // granularity of the keep-alive, 100 ms; 0: there is none
  std::array<std::uint8_t, 190> reserved322{};
  std::uint8_t sqes = 0;
  std::uint8_t cqes = 0;
  std::uint16_t maxcmd = 0;
  std::uint32_t nn = 0;  // the highest namespace id
  std::uint16_t oncs = 0;
  std::uint16_t fuses = 0;
  std::uint8_t fna = 0;
  std::uint8_t vwc = 0;  // bit 0: there is a volatile write cache
  std::uint16_t awun = 0;
  std::uint16_t awupf = 0;
  std::uint8_t icsvscc = 0;
  std::uint8_t nwpc = 0;
  std::uint16_t acwu = 0;
  std::uint16_t cdfs = 0;
  std::uint32_t sgls = 0;
  std::uint32_t mnan = 0;
  std::array<std::uint8_t, 224> reserved544{};
  std::array<char, 256> subnqn{};  // ends with a NUL
  std::array<std::uint8_t, 768> reserved1024{};
  std::uint32_t ioccsz = 0;  // I/O command capsule: (64 + in-capsule data) / 16
  std::uint32_t iorcsz = 0;  // response capsule: 1
  std::uint16_t icdoff = 0;  // in-capsule data begin so many 16 bytes after the command
  std::uint8_t fcatt = 0;    // bit 0: static controllers
  std::uint8_t msdbd = 0;
  std::uint16_t ofcs = 0;  // bit 0: disconnect
  std::array<std::uint8_t, 242> reserved1806{};
  std::array<std::uint8_t, 2048> power_and_vendor{};

  // Data that a command capsule of an I/O queue may hold, bytes; 0: none.
  std::uint64_t in_capsule_bytes() const noexcept {
    const std::uint64_t capsule = static_cast<std::uint64_t>(ioccsz) * 16;
    const std::uint64_t taken = sizeof(Command) + static_cast<std::uint64_t>(icdoff) * 16;
    return capsule > taken ? capsule - taken : 0;
  }
};
static_assert(sizeof(IdentifyController) == kIdentifyBytes);
static_assert(offsetof(IdentifyController, ver) == 80 && offsetof(IdentifyController, oaes) == 92 &&
              offsetof(IdentifyController, cntrltype) == 111 &&
              offsetof(IdentifyController, oacs) == 256 &&
              offsetof(IdentifyController, kas) == 320);
static_assert(offsetof(IdentifyController, sqes) == 512 &&
              offsetof(IdentifyController, nn) == 516 && offsetof(IdentifyController, vwc) == 525 &&
              offsetof(IdentifyController, sgls) == 536);
static_assert(offsetof(IdentifyController, subnqn) == 768 &&
              offsetof(IdentifyController, ioccsz) == 1792 &&
              offsetof(IdentifyController, ofcs) == 1804);

inline constexpr std::uint16_t kOncsCompare = 1U << 0U;
inline constexpr std::uint16_t kOncsDsm = 1U << 2U;
inline constexpr std::uint16_t kOncsWriteZeroes = 1U << 3U;
// SGLS: supported without alignment; transport data blocks; an address may be an offset.
inline constexpr std::uint32_t kSglsAny = 1U << 0U;
inline constexpr std::uint32_t kSglsOffset = 1U << 20U;
inline constexpr std::uint32_t kSglsTransport = 1U << 21U;

struct LbaFormat {
  std::uint16_t ms = 0;    // metadata, bytes a block
  std::uint8_t lbads = 0;  // a block is 2^lbads bytes, 9 or more; 0: no such format
  std::uint8_t rp = 0;
};

struct IdentifyNamespace {
  std::uint64_t nsze = 0;  // blocks; 0: the namespace is not active
  std::uint64_t ncap = 0;
  std::uint64_t nuse = 0;
  std::uint8_t nsfeat = 0;
  std::uint8_t nlbaf = 0;  // formats, less one
  std::uint8_t flbas = 0;  // bits 3:0, then 6:5 above them: the format in use
  std::uint8_t mc = 0;
  std::uint8_t dpc = 0;
  std::uint8_t dps = 0;
  std::uint8_t nmic = 0;  // bit 0: may be attached to several controllers
  std::uint8_t rescap = 0;
  std::uint8_t fpi = 0;
  std::uint8_t dlfeat = 0;  // bits 2:0: 1 deallocated blocks read as zeros; bit 3: write zeroes may
  std::uint16_t nawun = 0;
  std::uint16_t nawupf = 0;
  std::uint16_t nacwu = 0;
  std::array<std::uint8_t, 6> reserved40{};
  std::uint16_t noiob = 0;
  std::array<std::uint8_t, 16> nvmcap{};
  std::uint16_t npwg = 0;  // preferred write granularity, blocks less one
  std::uint16_t npwa = 0;
  std::uint16_t npdg = 0;
  std::uint16_t npda = 0;
  std::uint16_t nows = 0;
  std::array<std::uint8_t, 18> reserved74{};
  std::uint32_t anagrpid = 0;
  std::array<std::uint8_t, 3> reserved96{};
  std::uint8_t nsattr = 0;  // bit 0: write protected
  std::uint16_t nvmsetid = 0;
  std::uint16_t endgid = 0;
  Id16 nguid{};
  Id8 eui64{};
  std::array<LbaFormat, 64> formats{};
  std::array<std::uint8_t, 3712> vendor{};

  // Those in use. A format index beyond 15 has its high bits in FLBAS 6:5.
  std::size_t format_index() const noexcept {
    return (flbas & 0xFU) | (nlbaf > 15 ? (flbas >> 5U & 3U) << 4U : 0U);
  }
  const LbaFormat& format() const noexcept { return formats[format_index()]; }
};
static_assert(sizeof(IdentifyNamespace) == kIdentifyBytes);
static_assert(offsetof(IdentifyNamespace, nawun) == 34 &&
              offsetof(IdentifyNamespace, nvmcap) == 48 &&
              offsetof(IdentifyNamespace, anagrpid) == 92 &&
              offsetof(IdentifyNamespace, nsattr) == 99 &&
              offsetof(IdentifyNamespace, nguid) == 104 &&
              offsetof(IdentifyNamespace, eui64) == 120 &&
              offsetof(IdentifyNamespace, formats) == 128);
inline constexpr std::uint8_t kNsfeatThin = 1U << 0U;
inline constexpr std::uint8_t kNsfeatOptimal = 1U << 4U;  // NPWG to NOWS are valid

// What a host needs of a controller, checked and in units of bytes.
struct ControllerLimits {
  std::string serial;
  std::string model;
  std::string firmware;
  std::string subnqn;
  std::uint16_t cntlid = 0;
  std::uint64_t transfer_max = 0;       // bytes of one command; 0: no limit
  std::uint64_t in_capsule_max = 0;     // bytes; 0: none
  std::uint64_t in_capsule_offset = 0;  // bytes after the command
  std::uint32_t keep_alive_step_ms = 0;
  std::uint32_t max_outstanding = 0;  // commands of one I/O queue; 0: not said
  bool volatile_cache = false;
  bool write_zeroes = false;
  bool deallocate = false;
  bool discovery = false;       // a discovery controller
  bool in_capsule_sgl = false;  // an SGL address may be an offset in the capsule
  std::uint32_t namespace_id_max = 0;
};
// `page_shift`: 12 + CAP.MPSMIN. kUnsupported where we cannot work with it; the message says why.
Result<ControllerLimits> limits_of(const IdentifyController& id, std::uint32_t page_shift);

struct NamespaceShape {
  std::uint64_t blocks = 0;
  std::uint32_t block_bytes = 0;
  bool write_protected = false;
  bool deallocate_zeroes = false;
  std::uint32_t optimal_write_blocks = 0;  // 0: not said
  std::uint32_t deallocate_blocks = 0;     // preferred granularity; 0: not said
  Id16 nguid{};
  Id8 eui64{};
};
// kNotFound: not active. kUnsupported: metadata, protection information or blocks above 64 KiB.
Result<NamespaceShape> shape_of(const IdentifyNamespace& id);

// Of the list of CNS 03h: each is {type, length, 2 reserved, value}.
struct NamespaceIds {
  Id8 eui64{};
  Id16 nguid{};
  Id16 uuid{};
  bool has_eui64 = false;
  bool has_nguid = false;
  bool has_uuid = false;
  std::uint8_t command_set = 0;  // CSI; 0: NVM

  bool operator==(const NamespaceIds&) const = default;
};
// kCorrupt: a descriptor beyond the end or with a length that its type has not. Types not known
// here are passed over.
Result<NamespaceIds> decode_ids(std::span<const std::byte, kIdentifyBytes> list);
void encode_ids(const NamespaceIds& ids, std::span<std::byte, kIdentifyBytes> into) noexcept;

// Ascending ids up to the first 0. kCorrupt: not ascending, or one at or below `after`.
Result<std::vector<std::uint32_t>> decode_active(std::span<const std::byte, kIdentifyBytes> list,
                                                 std::uint32_t after);

// Text in a field that is padded with spaces or NULs; what is not printable becomes '?'.
std::string field_text(std::span<const char> field);
// Fills the field, cut where it is too long.
void put_field(std::span<char> field, std::string_view text, char pad) noexcept;

}  // namespace larder::nvmf
