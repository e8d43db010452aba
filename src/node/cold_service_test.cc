// SPDX-License-Identifier: Apache-2.0
// The node's disks without a node.
#include "node/cold_service.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "env/temp_directory.h"
#include "meta/memory_backend.h"
#include "node/node_testing.h"
#include "tier/cold/device_testing.h"

namespace larder::node {
namespace {

constexpr std::uint64_t kDisk = 4U << 20U;
constexpr std::size_t kNumbers = 3;

class ColdServiceTest : public testing::Test {
 protected:
  ~ColdServiceTest() override {
    service_.reset();
    store_.core.fence.reset();
    tier::forget_fence(socket());
  }
  void start(const std::vector<tier::DiskSpec>& disks) {
    auto fence = tier::Fence::take(socket());
    ASSERT_TRUE(fence) << fence.error().to_string();
    store_.core.fence = std::make_unique<tier::Fence>(std::move(*fence));
    ColdServiceOptions options;
    options.disks = disks;
    options.tier.devices_max = kNumbers;
    auto made = ColdService::create(options, store_.core, store_.registry);
    ASSERT_TRUE(made) << made.error().to_string();
    service_ = std::move(*made);
    const auto backend = meta::make_memory_backend();
    const auto owner = tier::start_node(*backend, env::system_clock(), "test");
    const auto started = service_->start(backend, owner);
    ASSERT_TRUE(started) << started.error().to_string();
  }
  std::string socket() const { return home_.file("node.sock"); }
  std::string path(const std::string& name) const { return home_.file(name); }

  const env::TempDirectory home_ = env::TempDirectory::create("cold-service").value();
  TestStore store_;
  std::unique_ptr<ColdService> service_;
};

// As `larder device add` and `rm`, and as a remote disk does that comes back time and again.
TEST_F(ColdServiceTest, WithoutNumbersADiskIsRefusedUntouched) {
  start({{path("kept"), kDisk}});
  for (std::size_t i = 1; i < kNumbers; ++i) {
    const auto added = service_->add(path("back"), kDisk);
    ASSERT_TRUE(added) << i << ": " << added.error().to_string();
    ASSERT_TRUE(service_->remove(added->id));
  }
  for (const char* name : {"back", "new"}) {
    const auto refused = service_->add(path(name), kDisk);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code(), Code::kExhausted);
    EXPECT_NE(refused.error().message().find("start it anew"), std::string::npos)
        << refused.error().to_string();
  }
  EXPECT_FALSE(std::filesystem::exists(path("new")));  // it was not even formatted
  const auto left = service_->list().value();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].path, path("kept"));
  EXPECT_EQ(left[0].state, tier::DeviceState::kHealthy);
}

}  // namespace
}  // namespace larder::node
