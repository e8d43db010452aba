// SPDX-License-Identifier: Apache-2.0
#include "wire/key_stream.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "larder/client.h"

namespace larder::wire {
namespace {

std::vector<std::byte> write_all(const std::vector<std::string>& keys, std::size_t room) {
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  KeyWriter writer(views);
  std::vector<std::byte> stream;
  std::vector<std::byte> piece(room);
  while (const std::size_t n = writer.fill(piece)) {
    stream.insert(stream.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(n));
  }
  EXPECT_EQ(stream.size(), key_stream_bytes(views));
  return stream;
}

// What a reader makes of the bytes when they come in steps of `step`.
Result<std::vector<std::string>> read_all(std::span<const std::byte> bytes, std::uint32_t count,
                                          std::size_t step) {
  std::vector<std::string> keys;
  LARDER_ASSIGN(KeyReader reader, KeyReader::create(count, bytes.size()));
  while (!bytes.empty()) {
    const std::span<std::byte> room = reader.room();
    const std::size_t n = std::min({room.size(), bytes.size(), step});
    if (n == 0) return fail(Code::kInternal, "no room while bytes are missing");
    std::memcpy(room.data(), bytes.data(), n);
    bytes = bytes.subspan(n);
    reader.advance(n);
    std::string_view key;
    while (reader.next(key)) keys.emplace_back(key);
  }
  LARDER_TRY(reader.end());
  return keys;
}

std::vector<std::string> many_keys(std::size_t count) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < count; ++i) keys.emplace_back(1 + i * 37 % 1024, char('a' + i % 26));
  return keys;
}

TEST(KeyStream, ComesBackInAnyCut) {
  for (const std::size_t count : {1UL, 2UL, 300UL}) {
    const std::vector<std::string> keys = many_keys(count);
    for (const std::size_t room : {kKeyPieceMin, 5000UL, 1UL << 20}) {
      const auto stream = write_all(keys, room);
      for (const std::size_t step : {1UL, 7UL, 1000UL, 1UL << 20}) {
        const auto read = read_all(stream, static_cast<std::uint32_t>(count), step);
        ASSERT_TRUE(read) << read.error().to_string();
        EXPECT_EQ(*read, keys) << count << " keys, room " << room << ", step " << step;
      }
    }
  }
}

TEST(KeyStream, CarriesInvalidKeysAsTheyAreAndCutsOverlongOnes) {
  const std::vector<std::string> keys = {"", std::string(1025, 'x'), std::string(5000, 'y'), "z"};
  const auto read = read_all(write_all(keys, 4096), 4, 100);
  ASSERT_TRUE(read);
  EXPECT_EQ((*read)[0], "");
  EXPECT_EQ((*read)[1], keys[1]);
  EXPECT_EQ((*read)[2], std::string(kKeyBytesMax + 1, 'y'));
  EXPECT_EQ((*read)[3], "z");
}

TEST(KeyStream, EveryDamagedByteIsSeen) {
  const std::vector<std::string> keys = {"abc", "de", std::string(40, 'f')};
  const auto stream = write_all(keys, 4096);
  for (std::size_t at = 0; at < stream.size(); ++at) {
    auto damaged = stream;
    damaged[at] ^= std::byte{0x10};
    for (const std::size_t step : {1UL, 4096UL}) {
      const auto read = read_all(damaged, 3, step);
      ASSERT_FALSE(read) << at;
      EXPECT_EQ(read.error().code(), Code::kCorrupt) << at;
    }
  }
}

TEST(KeyStream, AWrongCountIsRefused) {
  const auto stream = write_all({"abc", "de"}, 4096);
  EXPECT_EQ(read_all(stream, 1, 64).error().code(), Code::kCorrupt);
  EXPECT_EQ(read_all(stream, 3, 64).error().code(), Code::kCorrupt);
  EXPECT_EQ(read_all(stream, 100, 64).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(KeyReader::create(1, 2 + 1025 + 8 + 1).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(KeyReader::create(1, 9).error().code(), Code::kInvalidArgument);
}

TEST(KeyStream, TakesALongWrongStreamToItsEnd) {
  // 100 keys are announced, and 100,000 bytes that are one key too long at once.
  const std::vector<std::byte> wrong(100'000, std::byte{0xff});
  EXPECT_EQ(read_all(wrong, 100, 999).error().code(), Code::kCorrupt);
  // All keys are empty, and more follows than the checksum.
  const std::vector<std::byte> zeros(90'000, std::byte{0});
  EXPECT_EQ(read_all(zeros, 90, 999).error().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace larder::wire
