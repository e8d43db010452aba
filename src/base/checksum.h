// SPDX-License-Identifier: Apache-2.0
// XXH3 from libxxhash, dispatched at run time to the widest vector unit the CPU has, for contents;
// CRC-32C from ISA-L for structures on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace larder {

// The checksum of an object (DESIGN 3.9): XXH3-64 of all its bytes.
std::uint64_t checksum64(std::span<const std::byte> bytes) noexcept;
std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0) noexcept;

// The same checksum over bytes that arrive in pieces. Reusable; not thread safe.
class Checksum64 {
 public:
  Checksum64();
  ~Checksum64();
  Checksum64(Checksum64&&) noexcept;
  Checksum64& operator=(Checksum64&&) noexcept;
  void reset() noexcept;
  void update(std::span<const std::byte> bytes) noexcept;
  // The only piece there is, after reset(): spares small values the streaming state.
  void update_whole(std::span<const std::byte> bytes) noexcept;
  std::uint64_t digest() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;  // made when first needed
  bool streaming_ = false;        // state_ holds what came since reset()
  std::optional<std::uint64_t> whole_;
};

// Copies and checksums in one pass: each piece is hashed while it is in the nearest cache. The copy
// is what is hashed, so the sum is right even when someone writes to the source meanwhile.
void copy_and_update(std::byte* to, std::span<const std::byte> from, Checksum64& sum) noexcept;

// CRC-32C (Castagnoli, RFC 3720 B.4). `before`: the CRC of what comes before these bytes.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;

}  // namespace larder
