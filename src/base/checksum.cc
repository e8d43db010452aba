// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.h"

#define XXH_STATIC_LINKING_ONLY  // for the layout of the streaming state
// xxh_x86dispatch.h where there is one (x86-64), else xxhash.h: CMakeLists.txt chooses.
#include LARDER_XXH_HEADER
#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>

#include "base/short_hash.h"

namespace larder {
namespace {

// Small enough to stay in L1/L2 between the hash and the copy, large enough to amortize both calls.
constexpr std::size_t kPassBytes = 16 << 10;

}  // namespace

struct Checksum64::State {
  XXH3_state_t xxh;
};

std::uint64_t checksum64(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t hash64(std::string_view text, std::uint64_t seed) noexcept {
  if (text.size() <= kShortHashMax) return short_hash(text.data(), text.size(), seed);
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

Checksum64::Checksum64() = default;
Checksum64::~Checksum64() = default;
Checksum64::Checksum64(Checksum64&&) noexcept = default;
Checksum64& Checksum64::operator=(Checksum64&&) noexcept = default;
void Checksum64::reset() noexcept {
  whole_.reset();
  streaming_ = false;
}
void Checksum64::update(std::span<const std::byte> bytes) noexcept {
  if (!streaming_) {
    if (!state_) state_ = std::make_unique<State>();
    XXH3_64bits_reset(&state_->xxh);
    streaming_ = true;
  }
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}
void Checksum64::update_whole(std::span<const std::byte> bytes) noexcept {
  whole_ = checksum64(bytes);
}
std::uint64_t Checksum64::digest() const noexcept {
  if (whole_) return *whole_;
  return streaming_ ? XXH3_64bits_digest(&state_->xxh) : checksum64({});
}

void copy_and_update(std::byte* to, std::span<const std::byte> from, Checksum64& sum) noexcept {
  while (!from.empty()) {
    const std::size_t n = std::min(from.size(), kPassBytes);
    std::memcpy(to, from.data(), n);
    sum.update({to, n});
    to += n;
    from = from.subspan(n);
  }
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  constexpr std::size_t kStepBytes = std::size_t{1} << 30;  // the library takes an int
  std::uint32_t crc = ~before;
  while (!bytes.empty()) {
    const std::span<const std::byte> step = bytes.first(std::min(bytes.size(), kStepBytes));
    // It only reads, but does not say so.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(step.data()));
    crc = crc32_iscsi(data, static_cast<int>(step.size()), crc);
    bytes = bytes.subspan(step.size());
  }
  return ~crc;
}

}  // namespace larder
