// SPDX-License-Identifier: Apache-2.0
// Controller properties that fabrics have (Base 2.0 section 3.1.3): CAP, VS, CC, CSTS.
#pragma once

#include <cstdint>

namespace larder::nvmf {

enum class PropertyOffset : std::uint32_t {
  kCap = 0x00,   // 8 bytes
  kVs = 0x08,    // 4
  kCc = 0x14,    // 4
  kCsts = 0x1C,  // 4
};
// Bytes of a property; 0: fabrics do not have it.
constexpr std::uint32_t property_bytes(std::uint32_t offset) noexcept {
  switch (static_cast<PropertyOffset>(offset)) {
    case PropertyOffset::kCap:
      return 8;
    case PropertyOffset::kVs:
    case PropertyOffset::kCc:
    case PropertyOffset::kCsts:
      return 4;
  }
  return 0;
}

struct Cap {
  std::uint64_t bits = 0;

  // Entries of an I/O queue at most, 2 to 65,536 (MQES is one less).
  constexpr std::uint32_t queue_entries_max() const noexcept { return (bits & 0xFFFFU) + 1; }
  // The longest that CSTS.RDY may take to follow CC.EN, in milliseconds.
  constexpr std::uint32_t ready_timeout_ms() const noexcept {
    return static_cast<std::uint32_t>(bits >> 24U & 0xFFU) * 500;
  }
  constexpr bool nvm_command_set() const noexcept { return (bits >> 37U & 1U) != 0; }
  // Memory page, the unit of MDTS: 2^(12 + MPSMIN) bytes.
  constexpr std::uint32_t page_shift_min() const noexcept {
    return 12 + static_cast<std::uint32_t>(bits >> 48U & 0xFU);
  }
  constexpr std::uint32_t page_shift_max() const noexcept {
    return 12 + static_cast<std::uint32_t>(bits >> 52U & 0xFU);
  }
  // CQR is set, as fabrics demand; pages of 4 KiB.
  static constexpr Cap make(std::uint32_t queue_entries_max, std::uint32_t timeout_ms) noexcept {
    return {(queue_entries_max - 1) | 1ULL << 16U |
            static_cast<std::uint64_t>((timeout_ms + 499) / 500) << 24U | 1ULL << 37U};
  }
};

struct Cc {
  std::uint32_t bits = 0;

  constexpr bool enable() const noexcept { return (bits & 1U) != 0; }
  constexpr std::uint32_t command_set() const noexcept { return bits >> 4U & 7U; }
  constexpr std::uint32_t page_shift() const noexcept { return 12 + (bits >> 7U & 0xFU); }
  constexpr std::uint32_t arbitration() const noexcept { return bits >> 11U & 7U; }
  constexpr std::uint32_t shutdown() const noexcept { return bits >> 14U & 3U; }
  constexpr std::uint32_t sq_entry_shift() const noexcept { return bits >> 16U & 0xFU; }
  constexpr std::uint32_t cq_entry_shift() const noexcept { return bits >> 20U & 0xFU; }
  // The only entries there are: 64 and 16 bytes.
  static constexpr Cc enabled(std::uint32_t page_shift = 12) noexcept {
    return {1U | (page_shift - 12) << 7U | 6U << 16U | 4U << 20U};
  }
  constexpr Cc with_shutdown() const noexcept { return {(bits & ~(3U << 14U)) | 1U << 14U}; }
};
inline constexpr std::uint32_t kShutdownNormal = 1;
inline constexpr std::uint32_t kShutdownAbrupt = 2;

struct Csts {
  std::uint32_t bits = 0;

  constexpr bool ready() const noexcept { return (bits & 1U) != 0; }
  constexpr bool fatal() const noexcept { return (bits & 2U) != 0; }
  constexpr std::uint32_t shutdown() const noexcept { return bits >> 2U & 3U; }
};
inline constexpr std::uint32_t kCstsReady = 1U << 0U;
inline constexpr std::uint32_t kCstsFatal = 1U << 1U;
inline constexpr std::uint32_t kCstsShutdownComplete = 2U << 2U;
inline constexpr std::uint32_t kShutdownComplete = 2;  // Csts::shutdown()

// VS: major 31:16, minor 15:8.
constexpr std::uint32_t version(std::uint32_t major, std::uint32_t minor) noexcept {
  return major << 16U | minor << 8U;
}

}  // namespace larder::nvmf
