// SPDX-License-Identifier: Apache-2.0
// What hosts see when what is behind a namespace fails.
#include <gtest/gtest.h>

#include "block/fault_device.h"
#include "block/memory_device.h"
#include "nvmf/target/target_testing.h"

namespace larder::nvmf {
namespace {

class TargetFaults : public ::testing::Test {
 protected:
  static NamespaceOptions on(std::shared_ptr<block::BlockDevice> device) {
    NamespaceOptions options;
    options.device = std::move(device);
    return options;
  }

  const std::shared_ptr<block::FaultDevice> medium_ = value_of(
      block::FaultDevice::create(value_of(block::MemoryDevice::create({.bytes = 4 * kMiB})), {}));
  const std::unique_ptr<Target> target_ = value_of(Target::create(test_options(), {on(medium_)}));
  TestHost host_{*target_};
  const std::unique_ptr<TestQueue> io_ = host_.io_queue(1);
};

// Not for good: the same write works when there is room again.
TEST_F(TargetFaults, ABackingWithoutSpaceIsCapacityExceeded) {
  const Bytes data = pattern(64 << 10, 1);
  ASSERT_TRUE(io_->write(0, data).status.ok());
  medium_->set_full(true);
  EXPECT_EQ(io_->write(16, data).status, failed(Sc::kCapacityExceeded));
  EXPECT_EQ(io_->write(32, std::span(data).first(4096), true).status,
            failed(Sc::kCapacityExceeded));
  EXPECT_TRUE(io_->read(0, 16).data == data);
  EXPECT_TRUE(io_->flush().status.ok());
  medium_->set_full(false);
  EXPECT_TRUE(io_->write(16, data).status.ok());
  EXPECT_TRUE(io_->flush().status.ok());
  EXPECT_TRUE(io_->read(16, 16).data == data);
  EXPECT_EQ(target_->stats().errors, 2U);
}

}  // namespace
}  // namespace larder::nvmf
