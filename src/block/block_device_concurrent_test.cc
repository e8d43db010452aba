// SPDX-License-Identifier: Apache-2.0
// Queues of one device on threads of their own.
#include <atomic>
#include <thread>

#include "block/block_testing.h"
#include "block/fault_device.h"
#include "block/file_device.h"
#include "env/temp_directory.h"

namespace larder::block {
namespace {

constexpr std::size_t kThreads = 4;
constexpr std::uint64_t kShare = 16 * 4096;
constexpr std::uint64_t kBytes = kThreads * kShare;

// Writes, flushes and reads its own share with several in flight. False: something was wrong.
bool work(BlockDevice& device, std::size_t number) {
  const auto queue = device.open_queue(8);
  if (!queue) return false;
  std::mt19937_64 random(number);
  auto out = AlignedBuffer::create(kShare, 4096);
  auto in = AlignedBuffer::create(kShare, 4096);
  if (!out || !in) return false;
  for (int round = 0; round < 20; ++round) {
    fill_random(out->span(), random);
    Piece pieces[8];
    for (std::size_t i = 0; i < 8; ++i) pieces[i] = {out->data() + i * kShare / 8, kShare / 8};
    for (std::size_t i = 0; i < 8; ++i) {
      const std::uint64_t offset = number * kShare + i * kShare / 8;
      if (!(*queue)->submit(BlockOp::write(offset, {&pieces[i], 1}))) return false;
    }
    for (const BlockDone& done : wait_for(**queue, 8)) {
      if (!done.ok()) return false;
    }
    if (!flush(**queue) || !read_all(**queue, number * kShare, in->span())) return false;
    if (std::memcmp(in->data(), out->data(), kShare) != 0) return false;
  }
  return true;
}

void run_threads(BlockDevice& device) {
  std::atomic<std::size_t> good{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { good += work(device, i) ? 1 : 0; });
  }
  // Buffers come and go meanwhile.
  AlignedBuffer buffer = buffer_of(4 * 65536);
  for (int i = 0; i < 50; ++i) {
    const auto part = buffer.span().subspan(static_cast<std::size_t>(i) % 4 * 65536, 65536);
    device.add_buffer(part);
    (void)device.health();
    device.remove_buffer(part);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good.load(), kThreads);
  EXPECT_EQ(device.stats().kinds[1].bytes, 20 * kBytes);
  EXPECT_EQ(device.health().state, HealthState::kHealthy);
}

TEST(BlockDevicesConcurrent, QueuesOfMemoryOnManyThreads) {
  run_threads(*take_value(MemoryDevice::create({.bytes = kBytes})));
}

TEST(BlockDevicesConcurrent, QueuesOfAFileOnManyThreads) {
  const auto directory = take_value(env::TempDirectory::create("larder-block"));
  run_threads(*take_value(
      FileDevice::open({.path = directory.file("device"), .create = true, .bytes = kBytes})));
}

TEST(BlockDevicesConcurrent, QueuesOfAFaultDeviceOnManyThreads) {
  auto inner = take_value(MemoryDevice::create({.bytes = kBytes}));
  run_threads(*take_value(FaultDevice::create(std::move(inner), {.late = 0.3, .reorder = 0.3})));
}

TEST(BlockDevicesConcurrent, AWakeEndsAWaitForAStalledDevice) {
  auto inner = take_value(MemoryDevice::create({.bytes = kBytes}));
  const auto device = take_value(FaultDevice::create(std::move(inner), {}));
  const auto queue = queue_of(*device);
  device->stall();
  ASSERT_TRUE(queue->submit(BlockOp::flush()));
  std::thread waker([&] { queue->wake(); });
  BlockDone done;
  EXPECT_EQ(queue->wait({&done, 1}, kNoDeadline), 0U);
  waker.join();
  std::thread other([&] { device->resume(); });
  EXPECT_EQ(queue->wait({&done, 1}, within(kSoon)), 1U);
  other.join();
}

}  // namespace
}  // namespace larder::block
