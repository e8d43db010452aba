// SPDX-License-Identifier: Apache-2.0
#include "transfer/segment.h"

#include <gtest/gtest.h>

#include "transfer/transfer_testing.h"

namespace larder::transfer {
namespace {

Segment named(std::string name) {
  Segment segment;
  segment.type = SegmentType::kFile;
  segment.name = std::move(name);
  return segment;
}

TEST(SegmentTable, TheLocalSegmentIsAlwaysOpen) {
  SegmentTable table;
  const auto local = table.find(kLocalSegment);
  ASSERT_NE(local, nullptr);
  EXPECT_EQ(local->id, kLocalSegment);
  EXPECT_EQ(local->type, SegmentType::kMemory);
  EXPECT_TRUE(local->same_process);
  EXPECT_TRUE(local->same_machine);
  EXPECT_EQ(code_of(table.remove(kLocalSegment)), Code::kInvalidArgument);
  EXPECT_NE(table.find(kLocalSegment), nullptr);
}

TEST(SegmentTable, AnIdIsOfOneSegmentForEver) {
  SegmentTable table;
  std::vector<SegmentId> old;
  for (int i = 0; i < 100; ++i) {
    const SegmentId id = table.add(named("file" + std::to_string(i))).value();
    EXPECT_EQ(table.find(id)->name, "file" + std::to_string(i));
    EXPECT_EQ(table.find(id)->id, id);
    for (const SegmentId stale : old) {
      EXPECT_FALSE(stale == id);
      EXPECT_EQ(table.find(stale), nullptr);
      EXPECT_EQ(code_of(table.remove(stale)), Code::kNotFound);
    }
    EXPECT_TRUE(table.remove(id));
    old.push_back(id);
  }
  EXPECT_EQ(table.size(), 1U);
}

TEST(SegmentTable, NumbersThatAreNoIdsAreNotFound) {
  SegmentTable table;
  const SegmentId id = table.add(named("file")).value();
  for (const std::uint64_t number :
       {std::uint64_t{0}, ~std::uint64_t{0}, id.value + 1, id.value + (std::uint64_t{1} << 32U),
        std::uint64_t{1} << 32U}) {
    EXPECT_EQ(table.find({number}), nullptr) << number;
    EXPECT_EQ(code_of(table.remove({number})), Code::kNotFound) << number;
  }
}

TEST(SegmentTable, AClosedSegmentLivesWhileItIsHeld) {
  SegmentTable table;
  const SegmentId id = table.add(named("held")).value();
  const auto held = table.find(id);
  const std::weak_ptr<const Segment> watch = held;
  EXPECT_TRUE(table.remove(id));
  EXPECT_EQ(held->name, "held");
  EXPECT_EQ(watch.use_count(), 1);
}

TEST(SegmentTable, IsBounded) {
  SegmentTable table;
  SegmentId last;
  for (std::size_t i = 1; i < SegmentTable::kSegmentsMax; ++i) {
    const auto added = table.add(Segment{});
    ASSERT_TRUE(added) << i;
    last = *added;
  }
  EXPECT_EQ(code_of(table.add(Segment{})), Code::kExhausted);
  EXPECT_TRUE(table.remove(last));
  EXPECT_TRUE(table.add(Segment{}));
  EXPECT_EQ(code_of(table.add(Segment{})), Code::kExhausted);
}

}  // namespace
}  // namespace larder::transfer
