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

// The device is asked for zeroes, not given them, and they are in all a write.
TEST_F(TargetFaults, ZeroesAreWrittenByTheBackingItself) {
  const Bytes data = pattern(64 << 10, 1);
  ASSERT_TRUE(io_->write(0, data).status.ok());
  const Command zeroes = TestQueue::io(IoOpcode::kWriteZeroes, 0, 15, 0);
  medium_->set_full(true);
  EXPECT_EQ(io_->run(zeroes).status, failed(Sc::kCapacityExceeded));
  medium_->set_full(false);
  EXPECT_TRUE(io_->run(zeroes).status.ok());
  const auto& lines = medium_->stats().kinds;
  EXPECT_EQ(lines[std::size_t(block::OpKind::kWriteZeroes)].ops, 1U);
  EXPECT_EQ(lines[std::size_t(block::OpKind::kWriteZeroes)].bytes, 15U * 4096);
  EXPECT_EQ(lines[std::size_t(block::OpKind::kWriteZeroes)].errors, 1U);
  EXPECT_EQ(lines[std::size_t(block::OpKind::kWrite)].ops, 1U);
  EXPECT_TRUE(io_->read(0, 15).data == Bytes(15 * 4096));
  EXPECT_TRUE(io_->read(15, 1).data == Bytes(data.begin() + 15 * 4096, data.end()));
  Command now = zeroes;
  now.cdw12 |= kForceUnitAccess;
  EXPECT_TRUE(io_->run(now).status.ok());
  EXPECT_EQ(medium_->stats().kinds[std::size_t(block::OpKind::kFlush)].ops, 1U);
}

}  // namespace
}  // namespace larder::nvmf
