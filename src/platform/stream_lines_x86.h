// SPDX-License-Identifier: Apache-2.0
// Included by stream_copy.cc alone, on x86-64.
#pragma once

#include <emmintrin.h>

#include <cstddef>

namespace larder::platform {

inline constexpr std::size_t kLineBytes = 64;

// Whole lines; `dst` is aligned to a line. SSE2 is enough: wider stores fill the same buffers, and
// measured no faster.
inline void stream_lines(std::byte* dst, const std::byte* src, std::size_t lines) noexcept {
  auto* to = reinterpret_cast<__m128i*>(dst);
  const auto* from = reinterpret_cast<const __m128i*>(src);
  for (; lines > 0; --lines, to += 4, from += 4) {
    const __m128i a = _mm_loadu_si128(from);
    const __m128i b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2);
    const __m128i d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  _mm_sfence();  // such stores are not ordered before later ones by themselves
}

}  // namespace larder::platform
