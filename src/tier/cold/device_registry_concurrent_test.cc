// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tier/cold/device_testing.h"

namespace larder::tier {
namespace {

DeviceRecord device_of(const DeviceOwner& owner, int number) {
  DeviceRecord record = sample_device();
  record.id.replace(0, 4, std::to_string(1000 + number));
  record.owner = owner;
  return record;
}

// Two nodes, one disk: one gets it, and the other hears whose it is.
TEST(DeviceRegistryConcurrent, TwoOwnersOneWins) {
  env::ManualClock clock;
  const auto backend = meta::make_memory_backend();
  DeviceRegistry registry(backend, clock);
  const std::vector<DeviceOwner> nodes = {start_node(*backend, clock, "node-a"),
                                          start_node(*backend, clock, "node-b"),
                                          start_node(*backend, clock, "node-c")};
  for (int round = 0; round < 200; ++round) {
    std::atomic<std::size_t> winners{0};
    std::atomic<std::size_t> winner{0};
    std::atomic<unsigned> ready{0};
    std::vector<std::thread> threads;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      threads.emplace_back([&, n] {
        ++ready;
        while (ready < nodes.size()) std::this_thread::yield();
        const auto enlisted = registry.enlist(device_of(nodes[n], round));
        if (enlisted) {
          ++winners;
          winner = n;
        } else {
          EXPECT_EQ(enlisted.error().code(), Code::kConflict);
          EXPECT_NE(enlisted.error().message().find("is owned by node"), std::string::npos);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(winners, 1U);
    EXPECT_EQ(registry.get(device_of({}, round).id)->owner, nodes[winner]);
  }
}

// Changes of one record from many threads: none is lost, and none undoes another.
TEST(DeviceRegistryConcurrent, NoChangeIsLost) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  env::ManualClock clock;
  const auto backend = meta::make_memory_backend();
  DeviceRegistry registry(backend, clock);
  const DeviceOwner owner = start_node(*backend, clock, "node-a");
  DeviceRecord record = device_of(owner, 0);
  record.failures = 0;
  ASSERT_TRUE(registry.enlist(record));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        const auto done = registry.report_failures(record.id, owner, 1, "one more");
        EXPECT_TRUE(done || done.error().code() == Code::kConflict);
        if (!done) --i;  // outrun by the others: it says so, and has changed nothing
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < kRounds; ++i) {
      static_cast<void>(registry.disable(record.id, owner));
      static_cast<void>(registry.enable(record.id, owner));
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(registry.get(record.id)->failures, std::uint64_t{kThreads} * kRounds);
}

// While a node is replaced by its next incarnation, the old one's changes end for good.
TEST(DeviceRegistryConcurrent, ATakeoverEndsTheOldIncarnation) {
  env::ManualClock clock;
  const auto backend = meta::make_memory_backend();
  DeviceRegistry registry(backend, clock);
  const DeviceOwner old = start_node(*backend, clock, "node-a");
  const DeviceRecord record = device_of(old, 0);
  ASSERT_TRUE(registry.enlist(record));
  std::atomic<bool> taken{false};
  std::thread writing([&] {
    bool fenced = false;
    for (std::uint64_t i = 0; !fenced && !testing::Test::HasFailure(); ++i) {
      const bool after = taken;
      const auto done = registry.report_usage(record.id, old, {i % 900, 0});
      EXPECT_FALSE(after && done.has_value());
      fenced = !done && done.error().message().find("is owned by") != std::string::npos;
    }
  });
  const DeviceOwner next = start_node(*backend, clock, "node-a");
  Result<DeviceRecord> mine = registry.enlist(device_of(next, 0));
  while (!mine) mine = registry.enlist(device_of(next, 0));  // outrun 32 times
  taken = true;
  writing.join();
  EXPECT_EQ(registry.get(record.id).value(), *mine);
}

}  // namespace
}  // namespace larder::tier
