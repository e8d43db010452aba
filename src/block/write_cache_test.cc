// SPDX-License-Identifier: Apache-2.0
#include "block/write_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace larder::block {
namespace {

constexpr std::uint32_t kSector = 512;

Change change_of(std::uint64_t offset, std::uint64_t bytes, int value) {
  Change change;
  change.offset = offset;
  change.bytes = bytes;
  if (value == 0) return change;
  change.data = std::move(*AlignedBuffer::create(bytes, 4096));
  std::memset(change.data.data(), value, bytes);
  return change;
}

std::string shown(const WriteCache& cache, std::uint64_t offset, std::size_t sectors) {
  std::vector<std::byte> bytes(sectors * kSector, std::byte{9});
  cache.patch(offset, bytes);
  std::string out;
  for (std::size_t i = 0; i < sectors; ++i) {
    EXPECT_EQ(bytes[i * kSector], bytes[(i + 1) * kSector - 1]);
    out += static_cast<char>('0' + static_cast<int>(bytes[i * kSector]));
  }
  return out;
}

TEST(WriteCache, TheNewestIsSeen) {
  WriteCache cache;
  cache.add(change_of(kSector, 4 * kSector, 1));
  cache.add(change_of(3 * kSector, 4 * kSector, 2));
  cache.add(change_of(4 * kSector, kSector, 0));
  EXPECT_EQ(shown(cache, 0, 8), "91120229");
  EXPECT_EQ(shown(cache, 2 * kSector, 2), "12");
  EXPECT_EQ(shown(cache, 7 * kSector, 2), "99");
  EXPECT_EQ(cache.bytes(), 8 * kSector);
  cache.clear();
  EXPECT_EQ(shown(cache, 0, 8), "99999999");
  EXPECT_EQ(cache.bytes(), 0U);
}

class Survivors : public testing::Test {
 protected:
  Survivors() {
    for (std::uint64_t i = 0; i < 4; ++i) changes_.push_back(change_of(i * 4096, 4096, 1));
  }
  std::vector<Survivor> draw(CutKind kind, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    return survivors_of(changes_, kSector, kind, random);
  }
  std::uint64_t sectors_of(const std::vector<Survivor>& survivors, std::size_t change) {
    std::uint64_t sum = 0;
    for (const Survivor& one : survivors) sum += one.change == change ? one.count : 0;
    return sum;
  }
  std::vector<Change> changes_;  // of eight sectors each
};

TEST_F(Survivors, NothingAndEverything) {
  EXPECT_TRUE(draw(CutKind::kNothing, 1).empty());
  const std::vector<Survivor> all = {{0, 0, 8}, {1, 0, 8}, {2, 0, 8}, {3, 0, 8}};
  EXPECT_EQ(draw(CutKind::kEverything, 1), all);
  changes_.clear();
  EXPECT_TRUE(draw(CutKind::kAny, 1).empty());
}

TEST_F(Survivors, ASeedIsOneOutcome) {
  for (std::uint64_t seed = 1; seed < 50; ++seed) {
    EXPECT_EQ(draw(CutKind::kAny, seed), draw(CutKind::kAny, seed));
  }
}

TEST_F(Survivors, WritesAreWholeOrGone) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 1; seed < 200; ++seed) {
    std::string which;
    const auto kept = draw(CutKind::kWrites, seed);
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint64_t sectors = sectors_of(kept, i);
      ASSERT_TRUE(sectors == 0 || sectors == 8);
      which += sectors == 0 ? '-' : '+';
    }
    seen.insert(which);
  }
  EXPECT_EQ(seen.size(), 16U);
}

TEST_F(Survivors, AllButOneLacksEachOnce) {
  std::set<std::size_t> missing;
  for (std::uint64_t seed = 1; seed < 50; ++seed) {
    const auto kept = draw(CutKind::kAllButOne, seed);
    ASSERT_EQ(kept.size(), 3U);
    for (std::size_t i = 0; i < 4; ++i) {
      if (sectors_of(kept, i) == 0) missing.insert(i);
    }
  }
  EXPECT_EQ(missing.size(), 4U);
}

TEST_F(Survivors, APrefixEndsAtAnySectorOfAnyChange) {
  std::set<std::uint64_t> ends;
  for (std::uint64_t seed = 1; seed < 1000; ++seed) {
    std::uint64_t end = 0;
    for (const Survivor& one : draw(CutKind::kPrefix, seed)) {
      ASSERT_EQ(one.change * 8 + one.first, end);
      end += one.count;
    }
    ends.insert(end);
  }
  EXPECT_EQ(ends.size(), 33U);
}

TEST_F(Survivors, SectorsAreTornAnywhere) {
  std::set<std::uint64_t> missing;
  std::size_t torn = 0;
  for (std::uint64_t seed = 1; seed < 200; ++seed) {
    std::vector<bool> kept(32);
    for (const Survivor& one : draw(CutKind::kSectors, seed)) {
      ASSERT_LE(one.first + one.count, 8U);
      for (std::uint64_t i = 0; i < one.count; ++i) kept[one.change * 8 + one.first + i] = true;
    }
    for (std::size_t i = 0; i < 32; ++i) {
      if (!kept[i]) missing.insert(i);
      torn += i % 8 > 0 && kept[i] != kept[i - 1] ? 1 : 0;
    }
  }
  EXPECT_EQ(missing.size(), 32U);
  EXPECT_GT(torn, 500U);
}

}  // namespace
}  // namespace larder::block
