// SPDX-License-Identifier: Apache-2.0
// What tests of block devices share, here and in tests/conformance.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "block/aligned_buffer.h"
#include "block/block_device.h"
#include "block/blocking.h"
#include "block/memory_device.h"

namespace larder::block {

inline constexpr env::Nanos kSoon = 30 * env::kSecond;  // a wait that fails the test

inline env::Nanos within(env::Nanos time) {
  return env::monotonic_now() + time;
}

template <class T>
Code code_of(const Result<T>& result) {
  return result ? Code::kOk : result.error().code();
}

template <class T>
T take_value(Result<T> result) {
  EXPECT_TRUE(result) << result.error().to_string();
  return std::move(*result);
}

inline AlignedBuffer buffer_of(std::size_t bytes, std::byte fill = std::byte{0}) {
  AlignedBuffer buffer = take_value(AlignedBuffer::create(bytes, kBlockBytesMax));
  std::fill(buffer.span().begin(), buffer.span().end(), fill);
  return buffer;
}

inline void fill_random(std::span<std::byte> into, std::mt19937_64& random) {
  for (std::size_t i = 0; i + 8 <= into.size(); i += 8) {
    const std::uint64_t word = random();
    std::memcpy(into.data() + i, &word, 8);
  }
}

inline bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == value; });
}

inline std::unique_ptr<BlockQueue> queue_of(BlockDevice& device, std::size_t depth = 16) {
  return take_value(device.open_queue(depth));
}

// Until `count` have ended.
inline std::vector<BlockDone> wait_for(BlockQueue& queue, std::size_t count) {
  std::vector<BlockDone> all(count);
  std::size_t have = 0;
  const env::Nanos deadline = within(kSoon);
  while (have < count && env::monotonic_now() < deadline) {
    have += queue.wait(std::span(all).subspan(have), deadline);
  }
  EXPECT_EQ(have, count);
  all.resize(have);
  return all;
}

inline AlignedBuffer contents(BlockDevice& device, std::uint64_t offset, std::size_t bytes) {
  AlignedBuffer buffer = buffer_of(bytes, std::byte{0xEE});
  const auto queue = queue_of(device, 1);
  const auto got = read_all(*queue, offset, buffer.span());
  EXPECT_TRUE(got) << got.error().to_string();
  return buffer;
}

}  // namespace larder::block
