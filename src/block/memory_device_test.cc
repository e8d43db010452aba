// SPDX-License-Identifier: Apache-2.0
// What is of this device alone; the rest is in tests/conformance/block_device_suite.h.
#include "block/memory_device.h"

#include "block/block_testing.h"

namespace larder::block {
namespace {

TEST(MemoryDevice, RefusesGeometriesThatCannotBe) {
  const MemoryDeviceOptions wrong[] = {
      {.bytes = 0},
      {.bytes = 4095},
      {.bytes = 1U << 20U, .block_bytes = 0},
      {.bytes = 1U << 20U, .block_bytes = 3000},
      {.bytes = 1U << 20U, .block_bytes = 512, .sector_bytes = 4096},
      {.bytes = 1U << 20U, .memory_alignment = 0},
      {.bytes = 1U << 20U, .transfer_max = 2048},
      {.bytes = 1U << 20U, .transfer_max = 6144},
  };
  for (const MemoryDeviceOptions& options : wrong) {
    EXPECT_EQ(code_of(MemoryDevice::create(options)), Code::kInvalidArgument);
  }
  const auto rounded = take_value(MemoryDevice::create({.bytes = 8191}));
  EXPECT_EQ(rounded->geometry().blocks, 1U);
}

TEST(MemoryDevice, BlockingCallsSplitWhatIsTooLargeForOne) {
  const auto device = take_value(MemoryDevice::create({.bytes = 64 << 10, .transfer_max = 8192}));
  const auto queue = queue_of(*device);
  AlignedBuffer out = buffer_of(40960);
  std::mt19937_64 random(3);
  fill_random(out.span(), random);
  const Piece whole{out.data(), out.size()};
  EXPECT_EQ(code_of(queue->submit(BlockOp::write(0, {&whole, 1}))), Code::kTooLarge);
  ASSERT_TRUE(write_all(*queue, 4096, out.span()));
  EXPECT_EQ(device->stats().kinds[1].ops, 5U);
  AlignedBuffer in = contents(*device, 4096, out.size());
  EXPECT_EQ(std::memcmp(in.data(), out.data(), out.size()), 0);
  // Nothing of what cannot end well is begun.
  EXPECT_EQ(code_of(write_all(*queue, 32768, out.span())), Code::kInvalidArgument);
  EXPECT_EQ(code_of(write_all(*queue, 0, out.span().first(40960 - 512))), Code::kInvalidArgument);
  EXPECT_EQ(device->stats().kinds[1].ops, 5U);
}

TEST(MemoryDevice, BlockingCallsWantTheQueueForThemselves) {
  const auto device = take_value(MemoryDevice::create({.bytes = 64 << 10}));
  const auto queue = queue_of(*device);
  ASSERT_TRUE(queue->submit(BlockOp::flush()));
  EXPECT_EQ(code_of(flush(*queue)), Code::kInvalidArgument);
  wait_for(*queue, 1);
  EXPECT_TRUE(flush(*queue));
}

TEST(MemoryDevice, QueuesAreBounded) {
  const auto device = take_value(MemoryDevice::create({.bytes = 4096}));
  std::vector<std::unique_ptr<BlockQueue>> queues;
  for (std::size_t i = 0; i < kQueuesMax; ++i) queues.push_back(queue_of(*device, 1));
  EXPECT_EQ(code_of(device->open_queue(1)), Code::kExhausted);
  queues.pop_back();
  EXPECT_TRUE(device->open_queue(1));
}

}  // namespace
}  // namespace larder::block
