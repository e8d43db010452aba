// SPDX-License-Identifier: Apache-2.0
#include "transfer/memory_table.h"

#include <gtest/gtest.h>

#include "transfer/transfer_testing.h"

namespace larder::transfer {
namespace {

using Records = std::vector<std::unique_ptr<MemoryRangeRecord>>;

class MemoryTableTest : public testing::Test {
 protected:
  struct Want {
    std::uintptr_t begin;
    std::uint64_t bytes;
  };
  static void* pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }
  Code add(std::initializer_list<Want> wanted) {
    Records records;
    for (const Want& want : wanted) {
      records.push_back(std::make_unique<MemoryRangeRecord>());
      records.back()->base = static_cast<std::byte*>(pointer(want.begin));
      records.back()->bytes = want.bytes;
    }
    return code_of(table_.add(std::move(records)));
  }
  Code remove(std::initializer_list<std::uintptr_t> addresses) {
    std::vector<void*> list;
    for (const std::uintptr_t address : addresses) list.push_back(pointer(address));
    return code_of(table_.remove(list));
  }
  bool holds(std::uintptr_t address, std::uint64_t bytes) const {
    const MemoryTable::Reader reader(table_);
    return reader.find(pointer(address), bytes) != nullptr;
  }
  std::size_t size() const {
    const MemoryTable::Reader reader(table_);
    return reader.all().size();
  }

  MemoryTable table_;  // addresses are never touched
};

// A tenth of a second; two if each were found and moved by itself.
TEST_F(MemoryTableTest, ManyComeAndGoAtOnce) {
  constexpr std::uintptr_t kCount = MemoryTable::kRangesMax;
  const env::Nanos start = env::monotonic_now();
  std::vector<void*> all;
  for (std::uintptr_t turn = 0; turn < 2; ++turn) {  // each falls between two of the turn before
    Records records;
    for (std::uintptr_t i = 0; i < kCount / 2; ++i) {
      records.push_back(std::make_unique<MemoryRangeRecord>());
      records.back()->base =
          static_cast<std::byte*>(pointer(0x100000 + i * 0x2000 + turn * 0x1000));
      records.back()->bytes = 0x1000;
      all.push_back(records.back()->base);
    }
    ASSERT_TRUE(table_.add(std::move(records)));
  }
  EXPECT_TRUE(holds(0x101000, 0x1000));
  void* const kept = all[7];
  all.erase(all.begin() + 7);
  const auto removed = table_.remove(all);
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->size(), kCount - 1);
  EXPECT_EQ(size(), 1U);
  EXPECT_TRUE(holds(reinterpret_cast<std::uintptr_t>(kept), 0x1000));
  EXPECT_LT(env::monotonic_now() - start, env::kSecond);
}

TEST_F(MemoryTableTest, FindsWhatOneRangeHoldsWhole) {
  EXPECT_FALSE(holds(0x1000, 1));
  ASSERT_EQ(add({{0x3000, 0x1000}, {0x1000, 0x1000}, {0x4000, 0x1000}}), Code::kOk);
  EXPECT_TRUE(holds(0x1000, 0x1000));
  EXPECT_TRUE(holds(0x1fff, 1));
  EXPECT_FALSE(holds(0xfff, 1));
  EXPECT_FALSE(holds(0xfff, 2));
  EXPECT_FALSE(holds(0x1000, 0x1001));
  EXPECT_FALSE(holds(0x2000, 1));
  EXPECT_FALSE(holds(0x2fff, 2));
  EXPECT_FALSE(holds(0x3fff, 2));  // they touch, and are two
  EXPECT_TRUE(holds(0x4000, 0x1000));
  EXPECT_FALSE(holds(0x5000, 1));
  EXPECT_FALSE(holds(0x1800, ~std::uint64_t{0}));
  EXPECT_FALSE(holds(~std::uintptr_t{0}, 1));
  EXPECT_FALSE(holds(0, 1));
}

TEST_F(MemoryTableTest, AGuessHelpsAndNeverMisleads) {
  ASSERT_EQ(add({{0x1000, 0x1000}, {0x4000, 0x1000}}), Code::kOk);
  const MemoryTable::Reader reader(table_);
  MemoryRangeRecord* const first = reader.find(pointer(0x1000), 16);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reader.find(pointer(0x1010), 16, first), first);
  MemoryRangeRecord* const second = reader.find(pointer(0x4010), 16, first);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  EXPECT_EQ(reader.find(pointer(0x3000), 16, second), nullptr);
}

TEST_F(MemoryTableTest, RefusesEmptyAndWrappingRanges) {
  EXPECT_EQ(add({{0, 0x1000}}), Code::kInvalidArgument);
  EXPECT_EQ(add({{0x1000, 0}}), Code::kInvalidArgument);
  EXPECT_EQ(add({{~std::uintptr_t{0} - 10, 100}}), Code::kInvalidArgument);
  EXPECT_EQ(add({{0x1000, 0x1000}, {0x4000, 0}}), Code::kInvalidArgument);
  EXPECT_EQ(size(), 0U);
}

TEST_F(MemoryTableTest, AddsAllOrNone) {
  ASSERT_EQ(add({{0x10000, 0x1000}}), Code::kOk);
  const std::uint64_t generation = table_.generation();
  const std::initializer_list<Want> bad[] = {
      {{0x20000, 0x1000}, {0x10fff, 1}},       // the last byte of what is there
      {{0x20000, 0x1000}, {0xf000, 0x1001}},   // its first byte
      {{0x20000, 0x1000}, {0x8000, 0x10000}},  // around it
      {{0x20000, 0x1000}, {0x10100, 16}},      // inside it
      {{0x20000, 0x1000}, {0x20fff, 0x1000}},  // each other
      {{0x20000, 0x1000}, {0x20000, 0x1000}},
  };
  for (const auto& ranges : bad) {
    EXPECT_EQ(add(ranges), Code::kAlreadyExists);
    EXPECT_EQ(size(), 1U);
    EXPECT_FALSE(holds(0x20000, 1));
  }
  EXPECT_EQ(table_.generation(), generation);
  EXPECT_EQ(add({{0x11000, 0x1000}, {0xf000, 0x1000}}), Code::kOk);  // they only touch
  EXPECT_GT(table_.generation(), generation);
}

TEST_F(MemoryTableTest, RemovesAllOrNone) {
  ASSERT_EQ(add({{0x1000, 0x1000}, {0x2000, 0x1000}, {0x3000, 0x1000}}), Code::kOk);
  const std::uint64_t generation = table_.generation();
  EXPECT_EQ(remove({0x1000, 0x9000}), Code::kNotFound);
  EXPECT_EQ(remove({0x1000, 0x2001}), Code::kNotFound);  // not its start
  EXPECT_EQ(remove({0x1000, 0x1000}), Code::kNotFound);  // twice
  EXPECT_EQ(size(), 3U);
  EXPECT_EQ(table_.generation(), generation);
  EXPECT_EQ(remove({0x3000, 0x1000}), Code::kOk);
  EXPECT_EQ(size(), 1U);
  EXPECT_GT(table_.generation(), generation);
  EXPECT_EQ(remove({0x3000}), Code::kNotFound);
  EXPECT_EQ(add({{0x2800, 0x1000}}), Code::kAlreadyExists);
}

TEST_F(MemoryTableTest, WhatIsPinnedStays) {
  ASSERT_EQ(add({{0x1000, 0x1000}, {0x2000, 0x1000}}), Code::kOk);
  RangePin pin = table_.pin(pointer(0x1800), 16);
  ASSERT_TRUE(pin);
  EXPECT_EQ(pin.get()->base, pointer(0x1000));
  EXPECT_EQ(remove({0x2000, 0x1000}), Code::kConflict);
  EXPECT_EQ(size(), 2U);
  RangePin second = pin.another();
  pin.reset();
  EXPECT_EQ(remove({0x1000}), Code::kConflict);
  RangePin third = std::move(second);
  EXPECT_FALSE(second);
  EXPECT_EQ(remove({0x1000}), Code::kConflict);
  third = RangePin();
  EXPECT_EQ(remove({0x1000}), Code::kOk);
  EXPECT_FALSE(table_.pin(pointer(0x1800), 16));
  EXPECT_FALSE(RangePin().another());
}

TEST_F(MemoryTableTest, OwnedMemoryGoesToWhoeverRemovesIt) {
  Records records;
  records.push_back(std::make_unique<MemoryRangeRecord>());
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = owner;
  records[0]->base = static_cast<std::byte*>(pointer(0x1000));
  records[0]->bytes = 16;
  records[0]->owner = std::move(owner);
  ASSERT_TRUE(table_.add(std::move(records)));
  void* const address = pointer(0x1000);
  {
    const auto removed = table_.remove(std::span(&address, 1));
    ASSERT_TRUE(removed);
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

TEST_F(MemoryTableTest, IsBounded) {
  Records records;
  for (std::size_t i = 0; i < MemoryTable::kRangesMax; ++i) {
    records.push_back(std::make_unique<MemoryRangeRecord>());
    records.back()->base = static_cast<std::byte*>(pointer(0x1000 + i * 16));
    records.back()->bytes = 16;
  }
  ASSERT_TRUE(table_.add(std::move(records)));
  EXPECT_EQ(add({{0x100, 16}}), Code::kExhausted);
  EXPECT_EQ(remove({0x1000}), Code::kOk);
  EXPECT_EQ(add({{0x100, 16}, {0x200, 16}}), Code::kExhausted);
  EXPECT_EQ(add({{0x100, 16}}), Code::kOk);
}

}  // namespace
}  // namespace larder::transfer
