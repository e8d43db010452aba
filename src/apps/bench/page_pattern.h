// SPDX-License-Identifier: Apache-2.0
// Contents that can be checked anywhere: each page of 4 KiB is what its number and the seed give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "larder/status.h"

namespace larder::apps {

inline constexpr std::size_t kPatternPageBytes = 4096;

// The pages `first_page`, first_page + 1, ... of `seed`; the last one may be cut short.
void fill_pages(std::span<std::byte> bytes, std::uint64_t seed, std::uint64_t first_page) noexcept;
// kCorrupt names the first page that differs, and the seed.
Result<void> check_pages(std::span<const std::byte> bytes, std::uint64_t seed,
                         std::uint64_t first_page);

}  // namespace larder::apps
