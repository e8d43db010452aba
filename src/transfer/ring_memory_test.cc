// SPDX-License-Identifier: Apache-2.0
#include "transfer/ring_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "fileio/fileio_testing.h"

namespace larder::transfer {
namespace {

constexpr std::uint64_t kPart = RingMemory::kPartBytes;

// Addresses that nothing ever looks behind.
std::byte* at(std::uint64_t address) {
  return reinterpret_cast<std::byte*>(address);
}

class RingMemoryTest : public testing::Test {
 protected:
  RingMemoryTest() {
    auto backend = std::make_unique<fileio::ScriptBackend>(4);
    script_ = backend.get();
    script_->pins = true;
    queue_ = fileio::make_queue(std::move(backend));
    memory_.emplace(&table_, *queue_);
  }
  void add(std::byte* base, std::uint64_t bytes) {
    std::vector<std::unique_ptr<MemoryRangeRecord>> records;
    records.push_back(std::make_unique<MemoryRangeRecord>());
    records[0]->base = base;
    records[0]->bytes = bytes;
    ASSERT_TRUE(table_.add(std::move(records)));
  }

  MemoryTable table_;
  fileio::ScriptBackend* script_ = nullptr;
  std::unique_ptr<fileio::FileQueue> queue_;
  std::optional<RingMemory> memory_;
};

TEST_F(RingMemoryTest, PinsWhatIsUsedInPartsAndOnce) {
  add(at(4096), 2 * kPart + 8192);
  for (int i = 0; i < 3; ++i) memory_->use(at(4096 + kPart + 512), 100);
  ASSERT_EQ(script_->buffers.size(), 1U);
  EXPECT_EQ(script_->buffers[0].data(), at(4096 + kPart));
  EXPECT_EQ(script_->buffers[0].size(), kPart);
  memory_->use(at(4096 + 2 * kPart), 8192);
  memory_->use(at(4096), 1);
  ASSERT_EQ(script_->buffers.size(), 3U);
  EXPECT_EQ(script_->buffers[1].size(), 8192U);  // what is left of the range
  EXPECT_EQ(script_->buffers[2].data(), at(4096));
  EXPECT_EQ(memory_->pinned_bytes(), 2 * kPart + 8192);
  EXPECT_EQ(memory_->refused(), 0U);
}

TEST_F(RingMemoryTest, MemoryThatIsNotRegisteredIsLeftAlone) {
  add(at(4096), 4096);
  memory_->use(at(8192), 1);
  memory_->use(at(4096), 4097);
  EXPECT_EQ(script_->pins_asked, 0U);
  RingMemory none(nullptr, *queue_);
  none.use(at(4096), 1);
  EXPECT_EQ(script_->pins_asked, 0U);
}

TEST_F(RingMemoryTest, ForgettingARangeTakesOutAllOfItAndNoMore) {
  add(at(4096), 2 * kPart);
  add(at(4096 + 2 * kPart), kPart);
  for (std::uint64_t i = 0; i < 3; ++i) memory_->use(at(4096 + i * kPart), 1);
  ASSERT_EQ(script_->buffers.size(), 3U);
  memory_->forget({at(4096), 2 * kPart});
  ASSERT_EQ(script_->buffers.size(), 1U);
  EXPECT_EQ(script_->buffers[0].data(), at(4096 + 2 * kPart));
  EXPECT_EQ(memory_->pinned_bytes(), kPart);
  memory_->use(at(4096), 1);  // as if registered again
  EXPECT_EQ(script_->buffers.size(), 2U);
}

TEST_F(RingMemoryTest, WhatIsRefusedIsCountedAndNotTriedAgain) {
  add(at(4096), 2 * kPart);
  script_->pins = false;
  for (int i = 0; i < 3; ++i) memory_->use(at(4096), 1);
  EXPECT_EQ(script_->pins_asked, 1U);
  EXPECT_EQ(memory_->refused(), 1U);
  EXPECT_EQ(memory_->pinned_bytes(), 0U);
  memory_->use(at(4096 + kPart), 1);
  EXPECT_EQ(memory_->refused(), 2U);
  memory_->forget({at(4096), 2 * kPart});
  script_->pins = true;
  memory_->use(at(4096), 1);
  EXPECT_EQ(memory_->pinned_bytes(), kPart);
}

}  // namespace
}  // namespace larder::transfer
