// SPDX-License-Identifier: Apache-2.0
// Races that every metadata backend must decide: exactly one winner, and no epoch twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "meta/backend.h"

namespace larder::meta {
namespace {

constexpr Micros kTtl = 1'000'000;
constexpr int kThreads = 4;

class MetaBackendConcurrent : public testing::TestWithParam<std::string> {
 protected:
  // Each thread opens the backend itself, as other components of a process would.
  void SetUp() override {
    auto opened = open_backend(GetParam());
    ASSERT_TRUE(opened) << opened.error().to_string();
    backend_ = std::move(*opened);
  }
  void race(const std::function<void(MetadataBackend&, int)>& body) {
    std::barrier start(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const auto mine = open_backend(GetParam());
        start.arrive_and_wait();
        body(**mine, t);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::shared_ptr<MetadataBackend> backend_;
};

TEST_P(MetaBackendConcurrent, EveryRevisionHasOneWinner) {
  constexpr int kWinsEach = 200;
  ASSERT_TRUE(backend_->put_device_if_absent("disk", "0"));
  std::atomic<int> errors{0};
  race([&](MetadataBackend& backend, int) {
    for (int wins = 0; wins < kWinsEach;) {
      const auto seen = backend.get_device("disk");
      if (!seen) {
        ++errors;
        return;
      }
      const std::string next = std::to_string(std::stoi(seen->value) + 1);
      const auto stored = backend.update_device("disk", next, seen->revision);
      if (stored) {
        ++wins;
      } else if (stored.error().code() != Code::kConflict) {
        ++errors;
        return;
      }
    }
  });
  EXPECT_EQ(errors, 0);
  // A lost update would leave the count short.
  EXPECT_EQ(backend_->get_device("disk")->value, std::to_string(kThreads * kWinsEach));
}

TEST_P(MetaBackendConcurrent, OnePutIfAbsentSucceeds) {
  constexpr int kDevices = 100;
  std::atomic<int> made{0};
  race([&](MetadataBackend& backend, int) {
    for (int d = 0; d < kDevices; ++d) {
      if (backend.put_device_if_absent("disk-" + std::to_string(d), "x")) ++made;
    }
  });
  EXPECT_EQ(made, kDevices);
  EXPECT_EQ(backend_->list_devices()->size(), std::size_t{kDevices});
}

TEST_P(MetaBackendConcurrent, NoEpochIsGivenTwice) {
  constexpr int kEach = 100;
  std::vector<std::vector<std::uint64_t>> got(kThreads);
  race([&](MetadataBackend& backend, int t) {
    Lease wanted;
    wanted.stable_id = "node";
    for (int i = 0; i < kEach; ++i) {
      const auto lease = backend.allocate_lease(wanted, i, kTtl);
      if (lease) got[static_cast<std::size_t>(t)].push_back(lease->epoch);
    }
  });
  std::set<std::uint64_t> all;
  for (const auto& epochs : got) {
    EXPECT_TRUE(std::is_sorted(epochs.begin(), epochs.end()));
    all.insert(epochs.begin(), epochs.end());
  }
  EXPECT_EQ(all.size(), std::size_t{kThreads * kEach});
  EXPECT_EQ(*all.rbegin(), std::uint64_t{kThreads * kEach});
}

INSTANTIATE_TEST_SUITE_P(Memory, MetaBackendConcurrent, testing::Values("memory://races"),
                         [](const auto&) { return "Memory"; });

}  // namespace
}  // namespace larder::meta
