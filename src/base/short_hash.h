// SPDX-License-Identifier: Apache-2.0
// XXH3 of short inputs, compiled in: no dispatch, no call through the library's table.
#pragma once

#include <cstddef>
#include <cstdint>

namespace larder {

// XXH3's own limit of its one-pass scalar code, bytes.
constexpr std::size_t kShortHashMax = 240;
// The same value as XXH3_64bits_withSeed, for any length; quick up to kShortHashMax only.
std::uint64_t short_hash(const char* text, std::size_t bytes, std::uint64_t seed) noexcept;

}  // namespace larder
