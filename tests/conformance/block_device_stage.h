// SPDX-License-Identifier: Apache-2.0
// What the tests of every block device stand on.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "block/block_testing.h"

namespace larder::block {

// A device of at least kStageBlocks blocks, and what it stands on.
class DeviceStage {
 public:
  virtual ~DeviceStage() = default;
  std::shared_ptr<BlockDevice> device;
  // Opens the medium again once `device` and its queues are gone. False: nothing of it survives.
  virtual bool reopen() { return false; }
};
inline constexpr std::uint64_t kStageBlocks = 256;

struct DeviceUnderTest {
  std::string name;                                     // letters and digits
  std::function<std::unique_ptr<DeviceStage>()> stage;  // nullptr: not on this host
  bool refuses_zeroes = false;  // although its geometry says that it has them
};

inline void PrintTo(const DeviceUnderTest& device, std::ostream* out) {
  *out << device.name;
}

class BlockDeviceConformance : public testing::TestWithParam<DeviceUnderTest> {
 protected:
  void SetUp() override {
    stage_ = GetParam().stage();
    if (stage_ == nullptr) GTEST_SKIP() << "not on this host";
    ASSERT_NE(stage_->device, nullptr);
    block_ = device().geometry().block_bytes;
    ASSERT_GE(device().geometry().blocks, kStageBlocks);
  }
  BlockDevice& device() { return *stage_->device; }
  // In blocks.
  AlignedBuffer random_blocks(std::size_t count) {
    AlignedBuffer buffer = buffer_of(count * block_);
    fill_random(buffer.span(), random_);
    return buffer;
  }
  Code refused(BlockQueue& queue, const BlockOp& op) {
    const auto answer = queue.submit(op);
    if (!answer) {
      EXPECT_FALSE(answer.error().message().empty());
    }
    EXPECT_EQ(queue.in_flight(), 0U);
    return code_of(answer);
  }
  bool holds(std::uint64_t offset, std::span<const std::byte> expected) {
    AlignedBuffer got = contents(device(), offset, expected.size());
    return std::memcmp(got.data(), expected.data(), expected.size()) == 0;
  }

  std::unique_ptr<DeviceStage> stage_;
  std::uint32_t block_ = 0;
  std::mt19937_64 random_{7};
};

}  // namespace larder::block
