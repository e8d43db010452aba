// SPDX-License-Identifier: Apache-2.0
#include "base/short_hash.h"

#define XXH_INLINE_ALL  // in a file of its own: elsewhere the library's SIMD code is wanted
#include <xxhash.h>

namespace larder {

std::uint64_t short_hash(const char* text, std::size_t bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(text, bytes, seed);
}

}  // namespace larder
