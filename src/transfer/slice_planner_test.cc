// SPDX-License-Identifier: Apache-2.0
#include "transfer/slice_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

namespace larder::transfer {

static void PrintTo(const Slice& slice, std::ostream* out) {
  *out << slice.offset << "+" << slice.length;
}

namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

std::vector<Slice> slices_of(const SliceInput& input) {
  const auto plan = SlicePlan::create(input);
  if (!plan) {
    ADD_FAILURE() << plan.error().to_string();
    return {};
  }
  std::vector<Slice> out;
  for (const Slice slice : *plan) out.push_back(slice);
  EXPECT_EQ(out.size(), plan->count());
  return out;
}

std::string refusal(const SliceInput& input) {
  const auto plan = SlicePlan::create(input);
  if (plan) return "taken";
  EXPECT_EQ(plan.error().code(), Code::kInvalidArgument);
  return plan.error().message();
}

TEST(SlicePlan, OneSliceWhenTheLimitAllows) {
  EXPECT_EQ(slices_of({.length = 1, .limit = 1}), (std::vector<Slice>{{0, 1}}));
  EXPECT_EQ(slices_of({.length = 100, .limit = 100}), (std::vector<Slice>{{0, 100}}));
  EXPECT_EQ(slices_of({.length = 100, .target_offset = 7, .limit = kMax, .alignment = 64}),
            (std::vector<Slice>{{0, 100}}));
}

TEST(SlicePlan, TheTailIsNeitherFoldedNorEmpty) {
  EXPECT_EQ(slices_of({.length = 101, .limit = 50}),
            (std::vector<Slice>{{0, 50}, {50, 50}, {100, 1}}));
  EXPECT_EQ(slices_of({.length = 100, .limit = 50}), (std::vector<Slice>{{0, 50}, {50, 50}}));
}

// 3 MB in blocks of 64 KiB: counted first and cut later, these were 32 slices, 8 of them empty.
TEST(SlicePlan, ThreeMegabytesInBlocksOf64KiB) {
  const auto slices = slices_of({.length = 3'000'000, .limit = 64 << 10, .alignment = 4096});
  EXPECT_EQ(slices.size(), 46u);
  EXPECT_EQ(slices.back(), (Slice{45 * (64 << 10), 3'000'000 - 45 * (64 << 10)}));
}

TEST(SlicePlan, EndsAreAlignedInTheTarget) {
  EXPECT_EQ(slices_of({.length = 300, .target_offset = 30, .limit = 100, .alignment = 64}),
            (std::vector<Slice>{{0, 98}, {98, 64}, {162, 64}, {226, 74}}));
  // The limit is no multiple of the alignment: all but the last stay below it.
  EXPECT_EQ(slices_of({.length = 200, .limit = 90, .alignment = 64}),
            (std::vector<Slice>{{0, 64}, {64, 64}, {128, 72}}));
}

TEST(SlicePlan, TheLimitIsHarderThanTheAlignment) {
  EXPECT_EQ(slices_of({.length = 100, .target_offset = 5, .limit = 40, .alignment = 64}),
            (std::vector<Slice>{{0, 40}, {40, 40}, {80, 20}}));
}

TEST(SlicePlan, NoSliceCrossesABorder) {
  const std::vector<std::uint64_t> borders = {500, 1000, 1010, 1010, 1050, 1100, 2000};
  EXPECT_EQ(slices_of({.length = 100, .local_address = 1000, .limit = 30, .borders = borders}),
            (std::vector<Slice>{{0, 10}, {10, 30}, {40, 10}, {50, 30}, {80, 20}}));
}

TEST(SlicePlan, AlignsAgainAfterABorder) {
  const std::vector<std::uint64_t> borders = {1010};
  EXPECT_EQ(
      slices_of(
          {.length = 200, .local_address = 1000, .limit = 64, .alignment = 64, .borders = borders}),
      (std::vector<Slice>{{0, 10}, {10, 54}, {64, 64}, {128, 64}, {192, 8}}));
}

TEST(SlicePlan, WhatRemainsIsCutFromAnyPlace) {
  const auto plan = SlicePlan::create({.length = 1000, .limit = 256, .alignment = 128});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->at(300), (Slice{300, 212}));
  EXPECT_EQ(plan->at(512), (Slice{512, 256}));
  EXPECT_EQ(plan->at(999), (Slice{999, 1}));
  EXPECT_EQ(plan->at(1000).length, 0u);
  EXPECT_EQ(plan->at(kMax).length, 0u);
}

TEST(SlicePlan, CountsWithoutWalking) {
  const auto plan = SlicePlan::create({.length = kMax, .limit = 1});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->count(), kMax);
  EXPECT_EQ(plan->at(kMax - 1), (Slice{kMax - 1, 1}));
  const auto aligned =
      SlicePlan::create({.length = kMax - 1, .target_offset = 1, .limit = 3, .alignment = 2});
  ASSERT_TRUE(aligned.has_value());
  EXPECT_EQ(aligned->count(), (kMax - 3) / 2);  // 3 bytes at both ends, 2 in all others
}

TEST(SlicePlan, RefusesWhatCannotBeCut) {
  EXPECT_THAT(refusal({.limit = 1}), testing::HasSubstr("no bytes"));
  EXPECT_THAT(refusal({.length = 1}), testing::HasSubstr("limit is 0"));
  EXPECT_THAT(refusal({.length = 1, .limit = 1, .alignment = 0}),
              testing::HasSubstr("power of two"));
  EXPECT_THAT(refusal({.length = 1, .limit = 1, .alignment = 96}),
              testing::HasSubstr("power of two"));
  EXPECT_THAT(refusal({.length = 2, .target_offset = kMax - 1, .limit = 1}),
              testing::HasSubstr("end beyond"));
  EXPECT_THAT(refusal({.length = 2, .local_address = kMax - 1, .limit = 1}),
              testing::HasSubstr("end beyond"));
  const std::vector<std::uint64_t> borders = {5, 4};
  EXPECT_THAT(refusal({.length = 1, .limit = 1, .borders = borders}),
              testing::HasSubstr("do not ascend"));
  EXPECT_EQ(refusal({.length = 1, .target_offset = kMax - 1, .limit = 1}), "taken");
}

TEST(SliceLimit, IsThatOfTheClassOrOfTheTransport) {
  constexpr SliceLimits kLimits = {.high_slice_max = 800, .low_slice_max = 100};
  EXPECT_EQ(slice_limit(kLimits, TrafficClass::kHigh, kMax), 800u);
  EXPECT_EQ(slice_limit(kLimits, TrafficClass::kLow, kMax), 100u);
  EXPECT_EQ(slice_limit(kLimits, TrafficClass::kFromIntent, kMax), 100u);
  EXPECT_EQ(slice_limit(kLimits, TrafficClass::kHigh, 64), 64u);
}

// ---------------------------------------------------------------------- properties

// Small numbers, so that ends, borders and multiples of the alignment meet often.
struct Case {
  SliceInput input;
  std::vector<std::uint64_t> borders;
};

Case make_case(std::mt19937_64& random) {
  Case made;
  const auto below = [&random](std::uint64_t limit) { return random() % limit; };
  SliceInput& input = made.input;
  input.length = 1 + below(random() % 2 == 0 ? 40 : 2000);
  input.limit = 1 + below(random() % 2 == 0 ? 40 : 600);
  input.alignment = 1ULL << below(8);
  const bool high = below(8) == 0;  // near the end of the address space
  input.target_offset = high ? kMax - input.length - below(200) : below(1000);
  input.local_address = below(8) == 0 ? kMax - input.length - below(200) : below(1000);
  for (std::uint64_t left = below(6); left > 0; --left) {
    const std::uint64_t near = input.local_address + below(input.length + 40);
    made.borders.push_back(near < input.local_address ? kMax : near);
  }
  std::sort(made.borders.begin(), made.borders.end());
  return made;
}

std::string text_of(const Case& made) {
  std::string out = "length " + std::to_string(made.input.length) + ", target " +
                    std::to_string(made.input.target_offset) + ", local " +
                    std::to_string(made.input.local_address) + ", limit " +
                    std::to_string(made.input.limit) + ", alignment " +
                    std::to_string(made.input.alignment) + ", borders";
  for (const std::uint64_t border : made.borders) out += ' ' + std::to_string(border);
  return out;
}

bool is_border(const Case& made, std::uint64_t offset) {
  return std::binary_search(made.borders.begin(), made.borders.end(),
                            made.input.local_address + offset);
}

// What must hold of one slice; `offset` is where the one before ended.
void check_slice(const Case& made, std::uint64_t offset, const Slice& slice) {
  const SliceInput& input = made.input;
  ASSERT_EQ(slice.offset, offset) << "contiguous and in order";
  ASSERT_GT(slice.length, 0u) << "none is empty";
  ASSERT_LE(slice.length, input.limit) << "none is above the limit";
  const std::uint64_t end = offset + slice.length;
  ASSERT_LE(end, input.length) << "within the request";
  for (std::uint64_t inside = offset + 1; inside < end; ++inside) {
    ASSERT_FALSE(is_border(made, inside)) << "a border at " << inside;
  }
  if (end == input.length || is_border(made, end)) return;
  const bool possible = input.limit >= input.alignment;
  const std::uint64_t unit = possible ? input.alignment : 1;
  ASSERT_EQ((input.target_offset + end) % unit, 0u) << "ends aligned at " << end;
  ASSERT_GT(slice.length + unit, input.limit) << "could have been longer, at " << offset;
}

TEST(SlicePlan, PropertiesHoldForManySeeds) {
  constexpr std::uint64_t kSeed = 20250101;
  constexpr int kRounds = 20'000;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < kRounds; ++round) {
    Case made = make_case(random);
    made.input.borders = made.borders;
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round) + ": " +
                 text_of(made));
    const auto plan = SlicePlan::create(made.input);
    ASSERT_TRUE(plan.has_value()) << plan.error().to_string();
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    for (const Slice slice : *plan) {
      check_slice(made, offset, slice);
      if (testing::Test::HasFatalFailure()) return;
      ASSERT_EQ(plan->at(offset), slice);
      offset += slice.length;
      ++count;
    }
    ASSERT_EQ(offset, made.input.length) << "lengths add up";
    ASSERT_EQ(count, plan->count());
    // What remains after a break at any place is cut as well as a new request.
    const std::uint64_t broken = random() % made.input.length;
    check_slice(made, broken, plan->at(broken));
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace larder::transfer
