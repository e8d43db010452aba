// SPDX-License-Identifier: Apache-2.0
// Platforms from many threads, one engine each.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "platform/platform_set.h"
#include "platform/platform_testing.h"

namespace larder::platform {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 200;

// Allocates, copies in and out through an engine of its own, and frees.
void go_round(Platform& platform, std::uint64_t seed) {
  const auto engine = platform.create_copier({.depth = 2}).value();
  const Bytes from = make_bytes(seed, 3000);
  for (int round = 0; round < kRounds; ++round) {
    Bytes back(from.size());
    const Allocation memory =
        platform.allocate(from.size(), round % platform.device_count()).value();
    for (const Copy& copy : {Copy{memory.data(), from.data(), from.size(), 1},
                             Copy{back.data(), memory.data(), from.size(), 2}}) {
      ASSERT_TRUE(engine->submit(copy));
      CopyDone done;
      ASSERT_EQ(engine->wait({&done, 1}, env::system_clock().now() + 60 * env::kSecond), 1U);
      ASSERT_TRUE(done.result);
    }
    ASSERT_EQ(back, from);
  }
}

TEST(PlatformConcurrent, EnginesAndAllocationsOfOneSimulatedPlatform) {
  SimOptions options;
  options.devices = 2;
  options.device_bytes = 1 << 20;
  const auto sim = SimPlatform::create(options).value();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&sim, i] { go_round(*sim, static_cast<std::uint64_t>(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sim->used_bytes(0) + sim->used_bytes(1), 0U);
  EXPECT_EQ(sim->freed_in_flight(), 0U);
}

TEST(PlatformConcurrent, EnginesAndAllocationsOfHostMemory) {
  CpuPlatform cpu;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&cpu, i] { go_round(cpu, static_cast<std::uint64_t>(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cpu.used_bytes(), 0U);
}

TEST(PlatformConcurrent, LocatingWhileOthersAllocate) {
  const std::array<std::string, 1> names = {"sim-npu"};
  const auto set = PlatformSet::create(names).value();
  Platform& npu = *set.of(MemoryType::kNpu);
  const Allocation kept = npu.allocate(4096, 0).value();
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop.load()) {
      const auto gone = npu.allocate(8192, 0);
      ASSERT_TRUE(gone);
    }
  });
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(set.locate(kept.data(), 4096).value(), (Location{MemoryType::kNpu, 0}));
    ASSERT_EQ(set.locate(&stop, 1)->type, MemoryType::kCpu);
  }
  stop.store(true);
  other.join();
}

}  // namespace
}  // namespace larder::platform
