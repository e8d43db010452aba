// SPDX-License-Identifier: Apache-2.0
// Included by stream_copy.cc alone, on x86-64.
#pragma once

#include <immintrin.h>

#include <cstddef>

namespace larder::platform {

inline constexpr std::size_t kLineBytes = 64;

// As stream_lines(), with what every x86-64 has.
inline void stream_lines_sse2(std::byte* dst, const std::byte* src, std::size_t lines) noexcept {
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
}

__attribute__((target("avx2"))) inline void stream_lines_avx2(std::byte* dst, const std::byte* src,
                                                              std::size_t lines) noexcept {
  auto* to = reinterpret_cast<__m256i*>(dst);
  const auto* from = reinterpret_cast<const __m256i*>(src);
  for (; lines > 0; --lines, to += 2, from += 2) {
    const __m256i a = _mm256_loadu_si256(from);
    const __m256i b = _mm256_loadu_si256(from + 1);
    _mm256_stream_si256(to, a);
    _mm256_stream_si256(to + 1, b);
  }
}

// Whole lines; `dst` is aligned to a line. The wider stores are worth a second version: see
// kStreamBytesMin. Those of 512 bits were no faster again.
inline void stream_lines(std::byte* dst, const std::byte* src, std::size_t lines) noexcept {
  static const bool wide = __builtin_cpu_supports("avx2") != 0;
  (wide ? stream_lines_avx2 : stream_lines_sse2)(dst, src, lines);
  _mm_sfence();  // such stores are not ordered before later ones by themselves
}

}  // namespace larder::platform
