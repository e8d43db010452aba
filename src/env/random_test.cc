// SPDX-License-Identifier: Apache-2.0
#include "env/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace larder::env {
namespace {

TEST(Random, FillsExactlyTheSpan) {
  std::vector<std::byte> bytes(100'002, std::byte{0x5a});
  random_bytes(std::span(bytes).subspan(1, 100'000));
  EXPECT_EQ(bytes.front(), std::byte{0x5a});
  EXPECT_EQ(bytes.back(), std::byte{0x5a});
  // 256 values, about 390 of each: a byte value that is missing means that it is not random.
  for (int value = 0; value < 256; ++value) {
    EXPECT_GT(std::count(bytes.begin(), bytes.end(), static_cast<std::byte>(value)), 200);
  }
  random_bytes({});
}

TEST(Random, ValuesDiffer) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random_u64());
  EXPECT_EQ(seen.size(), 1000U);
}

}  // namespace
}  // namespace larder::env
