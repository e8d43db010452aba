// SPDX-License-Identifier: Apache-2.0
// Commands (64 bytes) and completions (16 bytes) as they lie in capsules: NVMe Base 2.0
// section 3.3.3, NVM Command Set 1.0 section 3, NVMe over Fabrics 1.1 section 3. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nvmf/pdu/status.h"

namespace larder::nvmf {

enum class AdminOpcode : std::uint8_t {
  kGetLogPage = 0x02,
  kIdentify = 0x06,
  kAbort = 0x08,
  kSetFeatures = 0x09,
  kGetFeatures = 0x0A,
  kAsyncEvent = 0x0C,
  kKeepAlive = 0x18,
};
enum class IoOpcode : std::uint8_t {
  kFlush = 0x00,
  kWrite = 0x01,
  kRead = 0x02,
  kCompare = 0x05,
  kWriteZeroes = 0x08,
  kDatasetManagement = 0x09,
};
inline constexpr std::uint8_t kFabricsOpcode = 0x7F;
enum class FabricsType : std::uint8_t {
  kPropertySet = 0x00,
  kConnect = 0x01,
  kPropertyGet = 0x04,
  kDisconnect = 0x08,
};
// "read", "identify", "connect", ...; "unknown".
std::string_view admin_name(std::uint8_t opcode) noexcept;
std::string_view io_name(std::uint8_t opcode) noexcept;
std::string_view fabrics_name(std::uint8_t type) noexcept;

// Type and subtype in one byte (Base 4.3.2; the two that NVMe/TCP has, TCP 3.2.1).
inline constexpr std::uint8_t kSglInCapsule = 0x01;  // data block, address is an offset
inline constexpr std::uint8_t kSglTransport = 0x5A;  // transport data block, subtype A

struct Sgl {
  std::uint64_t address = 0;  // kSglInCapsule: offset in the capsule's data
  std::uint32_t length = 0;   // bytes
  std::array<std::uint8_t, 3> reserved{};
  std::uint8_t type = kSglTransport;

  static constexpr Sgl in_capsule(std::uint32_t bytes) noexcept {
    return {0, bytes, {}, kSglInCapsule};
  }
  static constexpr Sgl transport(std::uint32_t bytes) noexcept {
    return {0, bytes, {}, kSglTransport};
  }
};
static_assert(sizeof(Sgl) == 16 && offsetof(Sgl, length) == 8 && offsetof(Sgl, type) == 15);

inline constexpr std::uint8_t kPsdtSgl = 0x40;  // Command::flags: PSDT 01b, the pointer is an SGL
inline constexpr std::uint8_t kPsdtMask = 0xC0;
inline constexpr std::uint8_t kFuseMask = 0x03;
inline constexpr std::uint32_t kAllNamespaces = 0xFFFFFFFFU;

struct Command {
  std::uint8_t opcode = 0;
  std::uint8_t flags = kPsdtSgl;
  std::uint16_t cid = 0;
  std::uint32_t nsid = 0;
  std::uint32_t cdw2 = 0;
  std::uint32_t cdw3 = 0;
  std::uint64_t mptr = 0;
  Sgl sgl;
  std::uint32_t cdw10 = 0;
  std::uint32_t cdw11 = 0;
  std::uint32_t cdw12 = 0;
  std::uint32_t cdw13 = 0;
  std::uint32_t cdw14 = 0;
  std::uint32_t cdw15 = 0;

  // Reads, writes, compares, write zeroes: the first block and how many.
  std::uint64_t lba() const noexcept { return cdw10 | static_cast<std::uint64_t>(cdw11) << 32U; }
  std::uint32_t blocks() const noexcept { return (cdw12 & 0xFFFFU) + 1; }
  void set_range(std::uint64_t lba, std::uint32_t blocks) noexcept {  // blocks: 1 to 65,536
    cdw10 = static_cast<std::uint32_t>(lba);
    cdw11 = static_cast<std::uint32_t>(lba >> 32U);
    cdw12 = (cdw12 & 0xFFFF0000U) | ((blocks - 1) & 0xFFFFU);
  }
};
static_assert(sizeof(Command) == 64 && offsetof(Command, nsid) == 4 &&
              offsetof(Command, mptr) == 16 && offsetof(Command, sgl) == 24 &&
              offsetof(Command, cdw10) == 40);

inline constexpr std::uint32_t kRangeBlocksMax = 65536;       // of one read or write
inline constexpr std::uint32_t kForceUnitAccess = 1U << 30U;  // cdw12 of writes
inline constexpr std::uint32_t kDeallocate = 1U << 25U;       // cdw12 of write zeroes
inline constexpr std::uint32_t kDsmDeallocate = 1U << 2U;     // cdw11 of dataset management

struct DsmRange {  // NVM Command Set 3.2.3
  std::uint32_t attributes = 0;
  std::uint32_t blocks = 0;
  std::uint64_t lba = 0;
};
static_assert(sizeof(DsmRange) == 16);
inline constexpr std::uint32_t kDsmRangesMax = 256;

struct ConnectCommand {  // Fabrics 3.3
  std::uint8_t opcode = kFabricsOpcode;
  std::uint8_t flags = kPsdtSgl;
  std::uint16_t cid = 0;
  std::uint8_t fctype = static_cast<std::uint8_t>(FabricsType::kConnect);
  std::array<std::uint8_t, 19> reserved1{};
  Sgl sgl;
  std::uint16_t recfmt = 0;
  std::uint16_t qid = 0;
  std::uint16_t sqsize = 0;  // entries less one
  std::uint8_t cattr = 0;    // kNoSqFlow
  std::uint8_t reserved2 = 0;
  std::uint32_t kato_ms = 0;
  std::array<std::uint8_t, 12> reserved3{};
};
static_assert(sizeof(ConnectCommand) == 64 && offsetof(ConnectCommand, sgl) == 24 &&
              offsetof(ConnectCommand, recfmt) == 40 && offsetof(ConnectCommand, kato_ms) == 48);
inline constexpr std::uint8_t kNoSqFlow = 1U << 2U;  // CATTR: SQ flow control is disabled

struct PropertyCommand {  // get and set, Fabrics 3.5, 3.6
  std::uint8_t opcode = kFabricsOpcode;
  std::uint8_t flags = kPsdtSgl;
  std::uint16_t cid = 0;
  std::uint8_t fctype = 0;
  std::array<std::uint8_t, 35> reserved1{};
  std::uint8_t attrib = 0;  // bits 2:0 of the size: 0 is 4 bytes, 1 is 8
  std::array<std::uint8_t, 3> reserved2{};
  std::uint32_t offset = 0;
  std::uint64_t value = 0;
  std::array<std::uint8_t, 8> reserved3{};
};
static_assert(sizeof(PropertyCommand) == 64 && offsetof(PropertyCommand, attrib) == 40 &&
              offsetof(PropertyCommand, offset) == 44 && offsetof(PropertyCommand, value) == 48);

// The same 64 bytes, as another kind of command.
template <class T>
T command_as(const Command& command) noexcept {
  static_assert(sizeof(T) == sizeof(Command));
  return __builtin_bit_cast(T, command);
}

struct Completion {
  std::uint32_t dw0 = 0;
  std::uint32_t dw1 = 0;
  std::uint16_t sqhd = 0;
  std::uint16_t sqid = 0;  // reserved on fabrics
  std::uint16_t cid = 0;
  std::uint16_t status = 0;  // bit 0 is reserved on fabrics, then Status::bits()

  Status result() const noexcept { return Status::from_bits(status >> 1U); }
  void set_result(Status result) noexcept {
    status = static_cast<std::uint16_t>(result.bits() << 1U);
  }
  std::uint64_t value() const noexcept { return dw0 | static_cast<std::uint64_t>(dw1) << 32U; }
  void set_value(std::uint64_t value) noexcept {
    dw0 = static_cast<std::uint32_t>(value);
    dw1 = static_cast<std::uint32_t>(value >> 32U);
  }
};
static_assert(sizeof(Completion) == 16 && offsetof(Completion, sqhd) == 8 &&
              offsetof(Completion, cid) == 12 && offsetof(Completion, status) == 14);

// Identify: CNS, cdw10 bits 7:0.
enum class IdentifyCns : std::uint8_t {
  kNamespace = 0x00,
  kController = 0x01,
  kActiveNamespaces = 0x02,
  kDescriptors = 0x03,
  kIoNamespace = 0x05,   // command set specific
  kIoController = 0x06,  // command set specific
};
inline constexpr std::uint32_t kIdentifyBytes = 4096;

// Get and set features: FID, cdw10 bits 7:0.
enum class FeatureId : std::uint8_t {
  kArbitration = 0x01,
  kPowerManagement = 0x02,
  kTemperature = 0x04,
  kErrorRecovery = 0x05,
  kVolatileWriteCache = 0x06,
  kQueues = 0x07,
  kWriteAtomicity = 0x0A,
  kAsyncEvents = 0x0B,
  kKeepAlive = 0x0F,
  kHostId = 0x81,
};

// Get log page: LID, cdw10 bits 7:0. Dwords less one: cdw10 31:16 and cdw11 15:0; offset:
// cdw12, 13.
enum class LogPage : std::uint8_t {
  kError = 0x01,
  kSmart = 0x02,
  kFirmware = 0x03,
  kChangedNamespaces = 0x04,
  kEffects = 0x05,
  kDiscovery = 0x70,
};
struct LogRequest {
  std::uint8_t page = 0;
  bool retain_event = false;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // bytes

  static LogRequest from(const Command& command) noexcept;
  // Fills cdw10 to cdw13. `bytes` is a multiple of 4 above 0, below 16 GiB.
  void put_into(Command& command) const noexcept;
};

// dw0 of the completion of an asynchronous event request (Base 5.2.1).
struct AsyncEvent {
  std::uint8_t type = 0;  // 0 error, 1 SMART, 2 notice
  std::uint8_t info = 0;  // of notices: 0 namespace attribute changed, 0xF0 discovery log changed
  std::uint8_t page = 0;  // the log page that holds more, and reading it clears the event

  static AsyncEvent from(std::uint32_t dw0) noexcept {
    return {static_cast<std::uint8_t>(dw0 & 7U), static_cast<std::uint8_t>(dw0 >> 8U),
            static_cast<std::uint8_t>(dw0 >> 16U)};
  }
  std::uint32_t dw0() const noexcept {
    return type | static_cast<std::uint32_t>(info) << 8U | static_cast<std::uint32_t>(page) << 16U;
  }
};
inline constexpr std::uint8_t kEventNotice = 2;
inline constexpr std::uint8_t kNoticeNamespaceChanged = 0x00;
inline constexpr std::uint8_t kNoticeDiscoveryChanged = 0xF0;
// Bits of OAES in Identify Controller and of the async event configuration feature.
inline constexpr std::uint32_t kEventNamespaceChanged = 1U << 8U;
inline constexpr std::uint32_t kEventDiscoveryChanged = 1U << 31U;

}  // namespace larder::nvmf
