// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "obs/metrics.h"

namespace larder::obs {
namespace {

constexpr int kThreads = 4;
constexpr std::uint64_t kRounds = 20000;

TEST(MetricsConcurrentTest, NoUpdateIsLost) {
  Registry registry;
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done.load()) {
      ASSERT_FALSE(nlohmann::json::parse(registry.stats_json()).is_null());
      ASSERT_NE(registry.text().data(), nullptr);
    }
  });
  std::vector<std::thread> writers;
  for (int t = 0; t < kThreads; ++t) {
    writers.emplace_back([&registry] {
      // Every thread asks for the same series: all must get the same objects.
      Counter* counter = *registry.counter("c_total", "c", {{"k", "v"}});
      Gauge* gauge = *registry.gauge("g", "g");
      Histogram* histogram = *registry.histogram("h_seconds", "h");
      for (std::uint64_t i = 0; i < kRounds; ++i) {
        counter->add();
        gauge->add(2);
        gauge->sub(1);
        histogram->record(i);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  done = true;
  reader.join();
  EXPECT_EQ((*registry.counter("c_total", "c", {{"k", "v"}}))->value(), kThreads * kRounds);
  EXPECT_EQ((*registry.gauge("g", "g"))->value(), static_cast<std::int64_t>(kThreads * kRounds));
  Histogram* histogram = *registry.histogram("h_seconds", "h");
  EXPECT_EQ(histogram->count(), kThreads * kRounds);
  EXPECT_EQ(histogram->sum_ns(), kThreads * (kRounds * (kRounds - 1) / 2));
}

// A callback never runs after its handle is gone, however scrapes and removals interleave.
TEST(MetricsConcurrentTest, RemovedCallbacksNeverRun) {
  Registry registry;
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done.load()) ASSERT_NE(registry.text().data(), nullptr);
  });
  for (int i = 0; i < 500; ++i) {
    auto alive = std::make_unique<std::atomic<int>>(1);
    auto handle = registry.callback(
        "level", "level", [raw = alive.get()] { return static_cast<double>(raw->load()); });
    ASSERT_TRUE(handle) << handle.error().to_string();
    handle->reset();
    alive.reset();  // a late call would be a use after free
  }
  done = true;
  reader.join();
  EXPECT_EQ(registry.series(), 0U);
}

}  // namespace
}  // namespace larder::obs
