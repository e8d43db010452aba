// SPDX-License-Identifier: Apache-2.0
#include "apps/replay/content.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace larder::apps {
namespace {

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;  // odd: no two positions share an input

// One multiplication per 8 bytes, each word independent of the others, so that the compiler and
// the core run many at once. Bijective: two inputs never give the same word.
inline std::uint64_t word(std::uint64_t base, std::uint64_t index) noexcept {
  std::uint64_t x = base + index * kStep;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
  return x ^ (x >> 29);
}

// The bytes of one word from `skip` on, at most `out.size()` of them; returns how many.
std::size_t part(std::uint64_t base, std::uint64_t index, std::size_t skip,
                 std::span<std::byte> out) noexcept {
  const std::uint64_t value = word(base, index);
  const std::size_t count = std::min(out.size(), sizeof(value) - skip);
  std::memcpy(out.data(), reinterpret_cast<const std::byte*>(&value) + skip, count);
  return count;
}

}  // namespace

std::uint64_t BlockContent::base(std::uint64_t id) const noexcept {
  std::uint64_t x = id ^ (salt_ * 0xa0761d6478bd642fULL + 0x8ebc6af09c88c6e3ULL);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

void BlockContent::fill(std::uint64_t id, std::uint64_t offset,
                        std::span<std::byte> out) const noexcept {
  const std::uint64_t from = base(id);
  std::uint64_t index = offset / 8;
  if (offset % 8 != 0 && !out.empty()) {
    out = out.subspan(part(from, index++, offset % 8, out));
  }
  const std::size_t words = out.size() / 8;
  std::byte* to = out.data();
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t value = word(from, index + i);
    std::memcpy(to + i * 8, &value, 8);
  }
  if (out.size() % 8 != 0) part(from, index + words, 0, out.subspan(words * 8));
}

std::optional<std::size_t> BlockContent::first_wrong(
    std::uint64_t id, std::span<const std::byte> block) const noexcept {
  constexpr std::size_t kGroup = 64;  // words between two looks at the sum of differences
  const std::uint64_t from = base(id);
  const std::size_t words = block.size() / 8;
  std::size_t at = 0;
  for (; at + kGroup <= words; at += kGroup) {
    std::uint64_t different = 0;
    for (std::size_t i = 0; i < kGroup; ++i) {
      std::uint64_t value = 0;
      std::memcpy(&value, block.data() + (at + i) * 8, 8);
      different |= value ^ word(from, at + i);
    }
    if (different != 0) break;
  }
  for (std::size_t i = at * 8; i < block.size(); i += 8) {
    const std::uint64_t value = word(from, i / 8);
    const std::size_t count = std::min<std::size_t>(8, block.size() - i);
    if (std::memcmp(block.data() + i, &value, count) == 0) continue;
    const auto* want = reinterpret_cast<const std::byte*>(&value);
    return i + static_cast<std::size_t>(std::mismatch(want, want + count, block.data() + i).first -
                                        want);
  }
  return std::nullopt;
}

std::uint64_t BlockContent::count_wrong(std::uint64_t id,
                                        std::span<const std::byte> block) const noexcept {
  const auto first = first_wrong(id, block);
  if (!first) return 0;
  const std::uint64_t from = base(id);
  std::uint64_t wrong = 0;
  for (std::size_t i = *first; i < block.size(); ++i) {
    const std::uint64_t value = word(from, i / 8);
    wrong += block[i] != reinterpret_cast<const std::byte*>(&value)[i % 8] ? 1 : 0;
  }
  return wrong;
}

std::string BlockContent::key(std::uint64_t id) const {
  return fmt::format("trace/{:016x}/{:016x}", salt_, id);
}

}  // namespace larder::apps
