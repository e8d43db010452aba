// SPDX-License-Identifier: Apache-2.0
// Several hosts, several reactors, and namespaces that change meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "block/memory_device.h"
#include "env/test_seeds.h"
#include "nvmf/target/target_testing.h"

namespace larder::nvmf {
namespace {

constexpr std::uint64_t kRegionBlocks = 64;

// Writes and reads a region of its own, and knows what must be in it.
void work(const Target& target, std::uint32_t nsid, std::uint64_t region, std::uint64_t seed,
          std::uint8_t digests) {
  QueueOptions options;
  options.digests = digests;
  TestHost host(target, options);
  const auto queue = host.io_queue(1);
  std::mt19937_64 random(seed);
  Bytes expected(kRegionBlocks * 4096);
  const std::uint64_t first = region * kRegionBlocks;
  const auto wipe = queue->write(first, expected, false, 4096, nsid);
  ASSERT_TRUE(wipe.status.ok()) << to_string(wipe.status);
  for (int i = 0; i < 60; ++i) {
    const std::uint64_t at = random() % kRegionBlocks;
    const std::uint64_t blocks = 1 + random() % std::min<std::uint64_t>(32, kRegionBlocks - at);
    if (random() % 2 == 0) {
      const Bytes data = pattern(blocks * 4096, random());
      const bool in_capsule = blocks <= 4 && random() % 2 == 0;
      ASSERT_TRUE(queue->write(first + at, data, in_capsule, 4096, nsid).status.ok());
      std::copy(data.begin(), data.end(),
                expected.begin() + static_cast<std::ptrdiff_t>(at * 4096));
    } else {
      const Answer got = queue->read(first + at, static_cast<std::uint32_t>(blocks), 4096, nsid);
      ASSERT_TRUE(got.status.ok());
      const auto want = std::span(expected).subspan(at * 4096, blocks * 4096);
      ASSERT_TRUE(std::equal(got.data.begin(), got.data.end(), want.begin(), want.end()));
    }
  }
}

TEST(TargetConcurrent, HostsReactorsAndChanges) {
  const auto seeds = env::test_seeds(2);
  for (std::uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    SCOPED_TRACE(env::seed_trace(seed, "nvmf_target_concurrent_test",
                                 "TargetConcurrent.HostsReactorsAndChanges"));
    TargetOptions options = test_options();
    options.threads = 2;
    options.bounce_bytes_max = 8 * kMiB;
    block::MemoryDeviceOptions memory;
    memory.bytes = 4 * kMiB;
    NamespaceOptions disk;
    disk.device = value_of(block::MemoryDevice::create(memory));
    NamespaceOptions growing = ram(kMiB);
    growing.ram_bytes_max = 2 * kMiB;
    const auto target = value_of(Target::create(options, {ram(4 * kMiB), disk, growing}));
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < 4; ++i) {
      threads.emplace_back(
          [&, i] { work(*target, 1 + i % 2, i, seed * 100 + i, static_cast<std::uint8_t>(i)); });
    }
    std::thread changes([&] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_TRUE(target->resize_namespace(3, i % 2 == 0 ? 2 * kMiB : kMiB));
        EXPECT_TRUE(target->add_namespace(ram(kMiB)));
        EXPECT_TRUE(target->remove_namespace(4));
        target->stats();
      }
    });
    // Hosts that come, use what changes, and go without a word.
    std::thread visitors([&] {
      for (int i = 0; i < 10; ++i) {
        TestHost host(*target);
        const auto queue = host.io_queue(1);
        const Answer got = queue->read(300, 8, 4096, 3);
        EXPECT_TRUE(got.status.ok() || got.status == refused(Sc::kLbaOutOfRange));
        Command command = TestQueue::io(IoOpcode::kWrite, 0, 16, 4096, 3);
        EXPECT_TRUE(queue->send(queue->capsule(command)));
      }
    });
    for (std::thread& thread : threads) thread.join();
    changes.join();
    visitors.join();
  }
}

// A target that ends while hosts are busy.
TEST(TargetConcurrent, EndsUnderLoad) {
  for (int round = 0; round < 5; ++round) {
    TargetOptions options = test_options();
    options.threads = 2;
    auto target = ram_target(options);
    const env::SocketAddress address = target->address();
    std::atomic<int> running{0};
    std::vector<std::thread> hosts;
    for (int i = 0; i < 3; ++i) {
      hosts.emplace_back([&] {
        TestQueue queue(address);
        queue.negotiate({});
        queue.connect({}, 0, kAnyController, test_options().nqn);
        running.fetch_add(1);
        PropertyCommand command;
        command.fctype = static_cast<std::uint8_t>(FabricsType::kPropertyGet);
        command.attrib = 1;
        while (queue.send(queue.capsule(__builtin_bit_cast(Command, command))) &&
               !queue.receive().closed) {
        }
      });
    }
    while (running.load() < 3) std::this_thread::yield();
    target.reset();
    for (std::thread& host : hosts) host.join();
  }
}

}  // namespace
}  // namespace larder::nvmf
