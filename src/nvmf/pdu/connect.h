// SPDX-License-Identifier: Apache-2.0
// What Connect carries (Fabrics 1.1 section 3.3), and the names of hosts and subsystems.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "larder/status.h"
#include "nvmf/pdu/identify.h"

namespace larder::nvmf {

inline constexpr std::size_t kNqnBytesMax = 223;  // Base 4.5
inline constexpr std::string_view kDiscoveryNqn = "nqn.2014-08.org.nvmexpress.discovery";
inline constexpr std::uint16_t kAnyController = 0xFFFF;     // dynamic
inline constexpr std::uint16_t kStaticController = 0xFFFE;  // any static one

struct ConnectData {
  Id16 host_id{};
  std::uint16_t cntlid = 0;
  std::array<std::uint8_t, 238> reserved18{};
  std::array<char, 256> subnqn{};
  std::array<char, 256> hostnqn{};
  std::array<std::uint8_t, 256> reserved768{};
};
static_assert(sizeof(ConnectData) == 1024 && offsetof(ConnectData, cntlid) == 16 &&
              offsetof(ConnectData, subnqn) == 256 && offsetof(ConnectData, hostnqn) == 512);

// "nqn." and more, at most kNqnBytesMax bytes of UTF-8 without spaces and control characters.
// kInvalidArgument says which rule `nqn` breaks. What follows "nqn." is not looked into: names are
// compared, not understood, and peers are not strict either.
Result<void> check_nqn(std::string_view nqn);
// An NQN in its 256 bytes. kCorrupt: no NUL ends it, or check_nqn().
Result<std::string> decode_nqn(const std::array<char, 256>& field);
// `nqn` was checked. The rest is zeros.
void encode_nqn(std::string_view nqn, std::array<char, 256>& field) noexcept;

// "3f2a...-..." as RFC 4122 writes it. kInvalidArgument.
Result<Id16> parse_uuid(std::string_view text);
std::string uuid_text(const Id16& id);
bool is_zero(const Id16& id) noexcept;

// Answer to Connect: dw0 of a completion. Of a failure, where the parameter is that was refused.
struct ConnectRefusal {
  std::uint16_t offset = 0;
  bool in_data = false;  // of the connect data; else of the command

  static ConnectRefusal from(std::uint32_t dw0) noexcept {
    return {static_cast<std::uint16_t>(dw0), (dw0 >> 16U & 1U) != 0};
  }
  std::uint32_t dw0() const noexcept { return offset | (in_data ? 1U << 16U : 0U); }
};

}  // namespace larder::nvmf
