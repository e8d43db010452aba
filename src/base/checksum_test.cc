// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace larder {
namespace {

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> out(bytes);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

// The published XXH3-64 values of nothing and of "a": the wire and disk formats hang on them.
TEST(Checksum, KnownValues) {
  EXPECT_EQ(checksum64({}), 0x2d06800538d394c2ULL);
  EXPECT_EQ(checksum64(as_bytes("a")), 0xe6c632b61e964e1fULL);
}

// Every branch of XXH3 is behind a length: 0, 1-3, 4-8, 9-16, 17-128, 129-240, stripes, blocks.
TEST(Checksum, EqualsTheLibraryAtEveryLength) {
  const std::vector<std::byte> data = pattern(4096, 1);
  for (std::size_t n = 0; n <= data.size(); n = n < 1100 ? n + 1 : n + 97) {
    const std::span<const std::byte> part(data.data(), n);
    ASSERT_EQ(checksum64(part), ::XXH3_64bits(data.data(), n)) << n;
    ASSERT_EQ(hash64(as_text(part), 77), ::XXH3_64bits_withSeed(data.data(), n, 77)) << n;
  }
}

TEST(Checksum, StreamingEqualsOneShotAtEverySplit) {
  const std::vector<std::byte> data = pattern(1500, 2);
  const std::span<const std::byte> all(data);
  const std::uint64_t expected = checksum64(all);
  Checksum64 sum;
  for (std::size_t split = 0; split <= all.size(); ++split) {
    sum.reset();
    sum.update(all.first(split));
    sum.update(all.subspan(split));
    ASSERT_EQ(sum.digest(), expected) << split;
  }
}

TEST(Checksum, StreamingInManyPieces) {
  const std::vector<std::byte> data = pattern(100'000, 3);
  for (const std::size_t step : {1U, 7U, 64U, 255U, 256U, 1023U, 4096U, 65'537U}) {
    Checksum64 sum;
    for (std::size_t at = 0; at < data.size(); at += step) {
      sum.update(std::span(data).subspan(at, std::min<std::size_t>(step, data.size() - at)));
    }
    EXPECT_EQ(sum.digest(), checksum64(data)) << step;
  }
}

TEST(Checksum, MovedStateGoesOn) {
  const std::vector<std::byte> data = pattern(3000, 4);
  Checksum64 first;
  first.update(std::span(data).first(1000));
  Checksum64 second = std::move(first);
  second.update(std::span(data).subspan(1000));
  EXPECT_EQ(second.digest(), checksum64(data));
}

TEST(Checksum, DigestDoesNotEndTheStream) {
  const std::vector<std::byte> data = pattern(600, 5);
  Checksum64 sum;
  sum.update(std::span(data).first(300));
  EXPECT_EQ(sum.digest(), checksum64(std::span(data).first(300)));
  sum.update(std::span(data).subspan(300));
  EXPECT_EQ(sum.digest(), checksum64(data));
}

TEST(Checksum, CopyAndUpdateCopiesAllAndSumsTheCopy) {
  for (const std::size_t n : {0U, 1U, 16'383U, 16'384U, 16'385U, 100'001U}) {
    const std::vector<std::byte> from = pattern(n, 6);
    std::vector<std::byte> to(n + 1, std::byte{0x5a});
    Checksum64 sum;
    copy_and_update(to.data(), from, sum);
    EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin())) << n;
    EXPECT_EQ(to[n], std::byte{0x5a}) << n;
    EXPECT_EQ(sum.digest(), checksum64(from)) << n;
  }
}

TEST(Checksum, SeedChangesTheHash) {
  EXPECT_NE(hash64("key", 1), hash64("key", 2));
  EXPECT_EQ(hash64("key"), hash64("key", 0));
}

// RFC 3720 B.4, and the check value of the catalogue.
TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c({}), 0U);
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43U);
}

TEST(Crc32c, GoesOnWhereItStopped) {
  const std::vector<std::byte> bytes = pattern(1000, 3);
  const std::span<const std::byte> all(bytes);
  for (const std::size_t cut : {0, 1, 7, 512, 999, 1000}) {
    EXPECT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), crc32c(all)) << cut;
  }
}

}  // namespace
}  // namespace larder
