// SPDX-License-Identifier: Apache-2.0
// A block device under the target: its errors, its memory, and a loss of power.
#include <gtest/gtest.h>

#include "block/fault_device.h"
#include "block/memory_device.h"
#include "nvmf/target/target_testing.h"

namespace larder::nvmf {
namespace {

// A device under the target, with faults, and little memory for its data.
class TargetDevice : public ::testing::Test {
 protected:
  void start(const block::FaultOptions& faults) {
    block::MemoryDeviceOptions memory;
    memory.bytes = 16 * kMiB;
    memory_ = value_of(block::MemoryDevice::create(memory));
    device_ = value_of(block::FaultDevice::create(memory_, faults));
    TargetOptions options = test_options();
    options.bounce_bytes_max = 4 * kMiB;
    NamespaceOptions space;
    space.device = device_;
    target_ = value_of(Target::create(options, {space}));
  }
  std::shared_ptr<block::MemoryDevice> memory_;
  std::shared_ptr<block::FaultDevice> device_;
  std::unique_ptr<Target> target_;
};

TEST_F(TargetDevice, MoreThanTheMemoryHoldsWaits) {
  start({});
  TestHost host(*target_);
  const auto queue = host.io_queue(1);
  const Bytes data = pattern(kMiB, 4);
  ASSERT_TRUE(queue->write(0, data).status.ok());
  Bytes burst;
  for (std::uint16_t cid = 0; cid < 30; ++cid) {
    Command command = TestQueue::io(IoOpcode::kRead, 0, 256, 4096);
    command.cid = cid;
    const Bytes one = queue->capsule(command);
    burst.insert(burst.end(), one.begin(), one.end());
  }
  ASSERT_TRUE(queue->send(burst));
  const auto small = host.io_queue(2);
  ASSERT_TRUE(small->write(1024, pattern(16384, 1), true).status.ok());
  for (int i = 0; i < 30; ++i) {
    const Received got = queue->receive();
    ASSERT_EQ(got.header.type, PduType::kC2hData);
    ASSERT_TRUE(got.data == data);
  }
  EXPECT_LE(target_->stats().bounce_bytes, 4 * kMiB);
}

TEST_F(TargetDevice, ErrorsOfTheDeviceAreThoseOfCommands) {
  start({});
  device_->set_bad(0, 4096);
  TestHost host(*target_);
  const auto queue = host.io_queue(1);
  EXPECT_EQ(queue->read(0, 1).status, failed(Sc::kUnrecoveredRead));
  EXPECT_EQ(queue->write(0, pattern(4096, 1), true).status, failed(Sc::kWriteFault));
  EXPECT_TRUE(queue->read(1, 1).status.ok());
}

TEST_F(TargetDevice, FlushedWritesSurviveALossOfPower) {
  start({});
  TestHost host(*target_);
  const auto queue = host.io_queue(1);
  const auto id = limits_of(
      load_le<IdentifyController>(host.admin().identify(IdentifyCns::kController).data.data()), 12);
  EXPECT_TRUE(id->volatile_cache);
  const Bytes data = pattern(4096, 8);
  ASSERT_TRUE(queue->write(7, data, true).status.ok());
  ASSERT_TRUE(queue->flush().status.ok());
  ASSERT_TRUE(queue->write(8, data, true).status.ok());
  ASSERT_TRUE(device_->cut_power(block::CutKind::kNothing));
  EXPECT_FALSE(queue->read(7, 1).status.ok());
  EXPECT_FALSE(queue->flush().status.ok());
  // The medium is another one for its owner: here it comes back as it is.
  NamespaceOptions again;
  again.nsid = 1;
  again.device = value_of(block::FaultDevice::create(memory_, {}));
  ASSERT_TRUE(target_->replace_namespace(again));
  EXPECT_TRUE(queue->read(7, 1).data == data);
  EXPECT_TRUE(queue->read(8, 1).data == Bytes(4096));
}

// The device still works on it when the connection is gone, and so is the target then.
TEST_F(TargetDevice, ConnectionsMayEndWhileTheDeviceWorks) {
  start({});
  device_->stall();
  {
    TestHost host(*target_);
    const auto queue = host.io_queue(1);
    Command command = TestQueue::io(IoOpcode::kRead, 0, 256, 4096);
    ASSERT_TRUE(queue->send(queue->capsule(command)));
    while (target_->stats().bounce_bytes == 0) {
      ASSERT_TRUE(host.admin().run(TestQueue::admin(AdminOpcode::kKeepAlive)).status.ok());
    }
  }
  device_->resume();
  TestHost host(*target_);
  EXPECT_TRUE(host.io_queue(1)->read(0, 1).status.ok());
}

}  // namespace
}  // namespace larder::nvmf
