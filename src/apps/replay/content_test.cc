// SPDX-License-Identifier: Apache-2.0
#include "apps/replay/content.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace larder::apps {
namespace {

std::vector<std::byte> block(const BlockContent& content, std::uint64_t id, std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  content.fill(id, 0, out);
  return out;
}

TEST(BlockContent, AcceptsItsOwnBytesAtEverySize) {
  const BlockContent content(42);
  for (std::size_t bytes : {1, 7, 8, 9, 63, 64, 65, 511, 512, 513, 4096, 65537}) {
    EXPECT_FALSE(content.first_wrong(3, block(content, 3, bytes))) << bytes;
    EXPECT_EQ(content.count_wrong(3, block(content, 3, bytes)), 0U);
  }
  EXPECT_FALSE(content.first_wrong(3, {}));
}

TEST(BlockContent, EveryChangeOfOneByteIsFound) {
  const BlockContent content(7);
  auto bytes = block(content, 9, 1500);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[at] ^= std::byte{1} << bit;
      ASSERT_EQ(content.first_wrong(9, bytes), at);
      ASSERT_EQ(content.count_wrong(9, bytes), 1U);
      bytes[at] ^= std::byte{1} << bit;
    }
  }
}

TEST(BlockContent, AnyPieceIsThePieceOfTheWhole) {
  const BlockContent content(1);
  const auto whole = block(content, 5, 300);
  for (std::size_t from = 0; from < 40; ++from) {
    for (std::size_t size = 0; size < 60; ++size) {
      std::vector<std::byte> piece(size);
      content.fill(5, from, piece);
      ASSERT_TRUE(
          std::equal(piece.begin(), piece.end(), whole.begin() + static_cast<std::ptrdiff_t>(from)))
          << from << '+' << size;
    }
  }
}

TEST(BlockContent, NoTwoWordsOfManyBlocksAreAlike) {
  std::set<std::uint64_t> words;
  for (std::uint64_t salt : {0, 1}) {
    const BlockContent content(salt);
    for (std::uint64_t id = 0; id < 64; ++id) {
      const auto bytes = block(content, id, 4096);
      for (std::size_t i = 0; i < bytes.size(); i += 8) {
        std::uint64_t word = 0;
        std::copy_n(bytes.data() + i, 8, reinterpret_cast<std::byte*>(&word));
        ASSERT_TRUE(words.insert(word).second) << salt << ' ' << id << ' ' << i;
      }
    }
  }
}

TEST(BlockContent, AnotherBlockAShiftOrAZeroPageIsFound) {
  const BlockContent content(3);
  const auto mine = block(content, 10, 4096);
  EXPECT_EQ(content.first_wrong(10, block(content, 11, 4096)).has_value(), true);
  EXPECT_EQ(BlockContent(4).first_wrong(10, mine).has_value(), true);
  std::vector<std::byte> shifted(mine.begin() + 8, mine.end());
  EXPECT_TRUE(content.first_wrong(10, shifted));
  auto torn = mine;
  std::fill(torn.begin() + 2048, torn.end(), std::byte{0});
  EXPECT_GE(content.first_wrong(10, torn), 2048U);
  EXPECT_GT(content.count_wrong(10, torn), 2000U);
}

TEST(BlockContent, KeysTellSaltsAndIdsApart) {
  EXPECT_EQ(BlockContent(0xab).key(0x1f), "trace/00000000000000ab/000000000000001f");
  EXPECT_NE(BlockContent(1).key(2), BlockContent(2).key(1));
}

}  // namespace
}  // namespace larder::apps
