// SPDX-License-Identifier: Apache-2.0
// Log pages (Base 2.0 section 5.16.1, Fabrics 1.1 section 5). Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "larder/status.h"
#include "nvmf/pdu/connect.h"

namespace larder::nvmf {

struct DiscoveryHeader {
  std::uint64_t genctr = 0;  // changes whenever the page does
  std::uint64_t numrec = 0;
  std::uint16_t recfmt = 0;
  std::array<std::uint8_t, 1006> reserved{};
};
static_assert(sizeof(DiscoveryHeader) == 1024 && offsetof(DiscoveryHeader, recfmt) == 16);

enum class TransportType : std::uint8_t { kRdma = 1, kFc = 2, kTcp = 3, kLoop = 254 };
enum class AddressFamily : std::uint8_t { kIpv4 = 1, kIpv6 = 2 };
enum class SubsystemType : std::uint8_t { kReferral = 1, kNvm = 2, kCurrentDiscovery = 3 };

struct DiscoveryEntry {
  std::uint8_t trtype = 0;
  std::uint8_t adrfam = 0;
  std::uint8_t subtype = 0;
  std::uint8_t treq = 0;
  std::uint16_t portid = 0;
  std::uint16_t cntlid = 0;
  std::uint16_t asqsz = 0;
  std::uint16_t eflags = 0;
  std::array<std::uint8_t, 20> reserved12{};
  std::array<char, 32> trsvcid{};  // padded with spaces, or zeros as Linux does
  std::array<std::uint8_t, 192> reserved64{};
  std::array<char, 256> subnqn{};
  std::array<char, 256> traddr{};        // as trsvcid
  std::array<std::uint8_t, 256> tsas{};  // TCP: byte 0 is the security, 0 none, 1 and 2 TLS
};
static_assert(sizeof(DiscoveryEntry) == 1024 && offsetof(DiscoveryEntry, trsvcid) == 32 &&
              offsetof(DiscoveryEntry, subnqn) == 256 && offsetof(DiscoveryEntry, traddr) == 512 &&
              offsetof(DiscoveryEntry, tsas) == 768);

// One entry in words.
struct DiscoveredSubsystem {
  std::uint8_t transport = 0;  // TransportType, or another number
  std::uint8_t family = 0;
  std::uint8_t type = 0;  // SubsystemType, or another number
  std::string address;
  std::string port;
  std::string nqn;
  std::uint16_t cntlid = 0;
  bool secure = false;  // TLS is required
};
// kCorrupt: an NQN that is none.
Result<DiscoveredSubsystem> decode_entry(const DiscoveryEntry& entry);
// Over TCP, without TLS, dynamic controllers.
DiscoveryEntry make_entry(SubsystemType type, AddressFamily family, std::string_view address,
                          std::string_view port, std::string_view nqn, std::uint16_t port_id);

// 04h: up to 1,024 ids, ascending; 0xFFFFFFFF alone: more than that changed.
inline constexpr std::size_t kChangedNamespacesMax = 1024;
struct ChangedNamespaces {
  std::array<std::uint32_t, kChangedNamespacesMax> ids{};
};
static_assert(sizeof(ChangedNamespaces) == 4096);

struct SmartLog {  // 02h; counts are 128 bits wide, of which we fill 64
  std::uint8_t critical_warning = 0;
  std::array<std::uint8_t, 2> temperature{};  // kelvins
  std::uint8_t spare = 0;                     // percent
  std::uint8_t spare_threshold = 0;
  std::uint8_t used = 0;
  std::uint8_t endurance_warning = 0;
  std::array<std::uint8_t, 25> reserved7{};
  std::array<std::uint64_t, 2> units_read{};     // 512,000 bytes each, rounded up
  std::array<std::uint64_t, 2> units_written{};  // so
  std::array<std::uint64_t, 2> reads{};
  std::array<std::uint64_t, 2> writes{};
  std::array<std::uint64_t, 2> busy_minutes{};
  std::array<std::uint64_t, 2> power_cycles{};
  std::array<std::uint64_t, 2> power_on_hours{};
  std::array<std::uint64_t, 2> unsafe_shutdowns{};
  std::array<std::uint64_t, 2> media_errors{};
  std::array<std::uint64_t, 2> error_entries{};
  std::array<std::uint8_t, 320> rest{};
};
static_assert(sizeof(SmartLog) == 512 && offsetof(SmartLog, units_read) == 32 &&
              offsetof(SmartLog, media_errors) == 160);
inline constexpr std::uint8_t kSmartReadOnly = 1U << 3U;  // critical_warning
inline constexpr std::uint8_t kSmartUnreliable = 1U << 2U;

struct FirmwareLog {  // 03h
  std::uint8_t afi = 0;
  std::array<std::uint8_t, 7> reserved{};
  std::array<std::array<char, 8>, 7> slots{};
  std::array<std::uint8_t, 448> rest{};
};
static_assert(sizeof(FirmwareLog) == 512);

inline constexpr std::size_t kErrorEntryBytes = 64;  // 01h

}  // namespace larder::nvmf
