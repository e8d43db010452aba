// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/page_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "apps/bench/memory.h"

namespace larder::apps {
namespace {

// Far apart, so that page 1 of one seed is not page 0 of the next.
std::uint64_t page_seed(std::uint64_t seed, std::uint64_t page) noexcept {
  return (seed << 40) + page;
}

}  // namespace

void fill_pages(std::span<std::byte> bytes, std::uint64_t seed, std::uint64_t first_page) noexcept {
  for (std::uint64_t page = first_page; !bytes.empty(); ++page) {
    const auto part = bytes.first(std::min(bytes.size(), kPatternPageBytes));
    fill_pattern(part, page_seed(seed, page));
    bytes = bytes.subspan(part.size());
  }
}

Result<void> check_pages(std::span<const std::byte> bytes, std::uint64_t seed,
                         std::uint64_t first_page) {
  std::array<std::byte, kPatternPageBytes> expected;
  for (std::uint64_t page = first_page; !bytes.empty(); ++page) {
    const auto part = bytes.first(std::min(bytes.size(), kPatternPageBytes));
    fill_pattern(expected, page_seed(seed, page));
    if (std::memcmp(part.data(), expected.data(), part.size()) != 0) {
      return fail(Code::kCorrupt,
                  fmt::format("page {} (--seed {}) is not what was stored there", page, seed));
    }
    bytes = bytes.subspan(part.size());
  }
  return {};
}

}  // namespace larder::apps
