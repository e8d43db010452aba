// SPDX-License-Identifier: Apache-2.0
// What every platform must do: find, allocate, pin.
#include "platform/platform.h"

#include <gtest/gtest.h>

#include "platform/budget.h"
#include "platform/platform_testing.h"

namespace larder::platform {
namespace {

class PlatformTest : public BedTest {};

INSTANTIATE_TEST_SUITE_P(All, PlatformTest, testing::ValuesIn(all_beds()), bed_name);

template <class T>
void expect_code(const Result<T>& result, Code code) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), code) << result.error().to_string();
  EXPECT_FALSE(result.error().message().empty());
}

TEST_P(PlatformTest, AllocatesWholeAlignedPages) {
  const Allocation one = platform->allocate(1, 0).value();
  EXPECT_EQ(one.bytes(), kPageBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.data()) % kPageBytes, 0U);
  EXPECT_EQ(one.location(), (Location{platform->type(), 0}));
  const Allocation more = platform->allocate(kPageBytes + 1, 0).value();
  EXPECT_EQ(more.bytes(), 2 * kPageBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(more.data()) % kPageBytes, 0U);
}

TEST_P(PlatformTest, AllocationsAreBounded) {
  expect_code(platform->allocate(0, 0), Code::kInvalidArgument);
  expect_code(platform->allocate(16, platform->device_count()), Code::kInvalidArgument);
  expect_code(platform->allocate(16, -2), Code::kInvalidArgument);
  expect_code(platform->allocate(kBedDeviceBytes + 1, 0), Code::kTooLarge);
  expect_code(platform->allocate(UINT64_MAX, 0), Code::kTooLarge);
  auto half = platform->allocate(kBedDeviceBytes / 2, 0);
  ASSERT_TRUE(half);
  expect_code(platform->allocate(kBedDeviceBytes / 2 + 1, 0), Code::kExhausted);
  EXPECT_TRUE(platform->allocate(kBedDeviceBytes / 2, 0));
  *half = Allocation();
  EXPECT_TRUE(platform->allocate(kBedDeviceBytes, 0)) << "what was freed is free";
}

TEST_P(PlatformTest, AllocationsMove) {
  Allocation first = platform->allocate(kPageBytes, 0).value();
  std::byte* data = first.data();
  Allocation second(std::move(first));
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT: what is left of it is promised
  EXPECT_EQ(first.bytes(), 0U);
  Allocation third = platform->allocate(2 * kPageBytes, 0).value();
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.bytes(), kPageBytes);
  EXPECT_TRUE(platform->allocate(kBedDeviceBytes - kPageBytes, 0)) << "what was replaced is free";
}

TEST_P(PlatformTest, LocatesItsMemory) {
  const int last = platform->device_count() - 1;
  const Allocation memory = platform->allocate(3 * kPageBytes, last).value();
  if (bed->takes_all()) std::memset(memory.data(), 1, memory.bytes());
  const Location there{platform->type(), last};
  EXPECT_EQ(platform->locate(memory.data(), memory.bytes()).value(), there);
  EXPECT_EQ(platform->locate(memory.data() + 5, 1).value(), there);
  EXPECT_EQ(platform->locate(memory.data() + memory.bytes() - 1, 1).value(), there);
  const auto regions = platform->probe(memory.data() + 5, 4096).value();
  EXPECT_EQ(regions, (std::vector<Region>{{0, 4096, there}}));
}

TEST_P(PlatformTest, RangesThatAreNone) {
  Bytes host(16);
  expect_code(platform->locate(nullptr, 16), Code::kInvalidArgument);
  expect_code(platform->locate(host.data(), 0), Code::kInvalidArgument);
  expect_code(platform->locate(host.data(), UINT64_MAX), Code::kInvalidArgument);
  expect_code(platform->probe(nullptr, 16), Code::kInvalidArgument);
  expect_code(platform->probe(host.data(), 0), Code::kInvalidArgument);
}

TEST_P(PlatformTest, OtherMemoryIsNotItsOwn) {
  if (bed->takes_all()) GTEST_SKIP() << "it is";
  Bytes host(4096);
  EXPECT_EQ(platform->locate(host.data(), host.size()).value(), std::nullopt);
  expect_code(platform->probe(host.data(), host.size()), Code::kInvalidArgument);
}

TEST_P(PlatformTest, ARangePartlyItsOwnIsAnError) {
  if (bed->takes_all()) GTEST_SKIP() << "all is its own";
  const Allocation memory = platform->allocate(kPageBytes, 0).value();
  expect_code(platform->locate(memory.data(), memory.bytes() + 1), Code::kInvalidArgument);
  expect_code(platform->locate(memory.data() - 1, 2), Code::kInvalidArgument);
  expect_code(platform->probe(memory.data() + 1, memory.bytes()), Code::kInvalidArgument);
}

TEST_P(PlatformTest, PinsHostMemory) {
  Bytes host(8192);
  {
    const auto pin = platform->pin(host, 0);
    ASSERT_TRUE(pin) << pin.error().to_string();
    if (!bed->takes_all()) {
      EXPECT_EQ(platform->locate(host.data(), host.size()).value(), std::nullopt);
    }
  }
  EXPECT_TRUE(platform->pin(host, 0)) << "again after it was undone";
  expect_code(platform->pin({}, 0), Code::kInvalidArgument);
  expect_code(platform->pin(host, platform->device_count()), Code::kInvalidArgument);
}

TEST(Budget, GivesWhatItHas) {
  Budget budget(100);
  EXPECT_TRUE(budget.take(60));
  EXPECT_FALSE(budget.take(41));
  EXPECT_FALSE(budget.take(UINT64_MAX));
  EXPECT_TRUE(budget.take(40));
  EXPECT_EQ(budget.used(), 100U);
  budget.give(60);
  EXPECT_EQ(budget.used(), 40U);
  EXPECT_EQ(budget.limit(), 100U);
}

}  // namespace
}  // namespace larder::platform
