// SPDX-License-Identifier: Apache-2.0
#include "fileio/piece_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace larder::fileio {
namespace {

PieceShape shape(bool write, std::uint64_t offset, std::uint64_t bytes) {
  PieceShape s;
  s.write = write;
  s.direct = true;
  s.offset = offset;
  s.bytes = bytes;
  s.memory = 0x100000 + offset % 512;
  s.memory_align = 512;
  s.unit = write ? 4096 : 512;
  s.piece_max = 1U << 20U;
  s.bounce_small = 16U << 10U;
  s.bounce_large = 256U << 10U;
  return s;
}

// What must hold for every piece of every plan.
void check_piece(const PieceShape& s, const Piece& p, std::uint64_t planned) {
  ASSERT_EQ(p.skip, planned);
  ASSERT_GT(p.bytes, 0U);
  ASSERT_LE(p.bytes, s.bytes - planned);
  ASSERT_EQ(p.io_offset + p.lead, s.offset + planned);
  ASSERT_GE(p.io_bytes, p.lead + p.bytes);
  const bool own = p.way == PieceWay::kBounced || p.way == PieceWay::kRewrite;
  if (!own) {
    ASSERT_EQ(p.io_bytes, p.bytes);
  }
  if (p.way == PieceWay::kBuffered || !s.direct) return;
  ASSERT_EQ(p.io_offset % s.unit, 0U);
  ASSERT_EQ(p.io_bytes % s.unit, 0U);
  if (own) {
    ASSERT_LE(p.io_bytes, s.bounce_large);
  } else {
    ASSERT_LE(p.io_bytes, s.piece_max);
    ASSERT_EQ((s.memory + p.skip) % s.memory_align, 0U);
  }
  if (p.way == PieceWay::kRewrite) {
    ASSERT_EQ(p.io_bytes, s.unit);
  }
  if (p.way == PieceWay::kBounced && s.write) {
    ASSERT_EQ(p.io_bytes, p.bytes) << "would write bytes that nobody gave";
  }
}

TEST(PiecePlan, CoversEveryRangeOnceWithinItsLimits) {
  std::random_device device;
  for (const std::uint64_t seed : {1UL, 2UL, 0UL + device()}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    for (int i = 0; i < 20000; ++i) {
      PieceShape s = shape(random() % 2 == 0, random() % (8U << 20U),
                           1 + random() % (1ULL << (1 + random() % 23)));
      s.direct = random() % 8 != 0;
      s.rewrites_edges = random() % 2 == 0;
      s.memory = 0x100000 + (random() % 2 == 0 ? random() % 4096 : s.offset % 512);
      s.memory_align = 1U << (random() % 10);
      s.unit = std::max<std::uint32_t>(s.memory_align, 512U << (random() % 8));
      std::uint64_t planned = 0;
      int edges = 0;
      while (planned < s.bytes) {
        const Piece p = next_piece(s, planned);
        check_piece(s, p, planned);
        if (testing::Test::HasFatalFailure()) return;
        const bool straight = p.way == PieceWay::kStraight;
        edges += straight ? 0 : 1;
        planned += p.bytes;
      }
      ASSERT_EQ(planned, s.bytes);
      // Memory that suits the file: a head and a tail at most.
      ASSERT_TRUE(edges <= 2 || !memory_fits(s));
    }
  }
}

TEST(PiecePlan, AlignedOperationsGoStraight) {
  for (const bool write : {false, true}) {
    const PieceShape s = shape(write, 8192, 3U << 20U);
    for (std::uint64_t at = 0; at < s.bytes; at += 1U << 20U) {
      const Piece p = next_piece(s, at);
      EXPECT_EQ(p.way, PieceWay::kStraight);
      EXPECT_EQ(p.bytes, 1U << 20U);
    }
  }
}

TEST(PiecePlan, ASmallReadWithEdgesIsOneTransfer) {
  const Piece p = next_piece(shape(false, 1000, 9000), 0);
  EXPECT_EQ(p.way, PieceWay::kBounced);
  EXPECT_EQ(p.bytes, 9000U);
  EXPECT_EQ(p.io_offset, 512U);
  EXPECT_EQ(p.io_bytes, 9728U);
}

TEST(PiecePlan, MemoryThatDoesNotSuitTheFileIsBounced) {
  PieceShape s = shape(false, 0, 1U << 20U);
  s.memory += 1;
  EXPECT_FALSE(memory_fits(s));
  EXPECT_EQ(next_piece(s, 0).way, PieceWay::kBounced);
  EXPECT_EQ(next_piece(s, 0).bytes, 256U << 10U);
  s.direct = false;
  EXPECT_TRUE(memory_fits(s));
  EXPECT_EQ(next_piece(s, 0).way, PieceWay::kStraight);
}

}  // namespace
}  // namespace larder::fileio
