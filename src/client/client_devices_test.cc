// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "larder/client.h"
#include "node/device_testing.h"

namespace larder::client {
namespace {

using node::DeviceNode;
using node::FakeDevices;

std::unique_ptr<Client> connect(const std::string& address) {
  ClientOptions options;
  options.address = address;
  return Client::connect(options).value();
}

TEST(ClientDevices, AreListedAndChanged) {
  FakeDevices devices;
  DeviceNode node(&devices);
  const auto client = connect(node.unix_address());
  EXPECT_TRUE(client->devices()->empty());
  const DeviceInfo added = client->change_device({DeviceAction::kAdd, "/mnt/a", 4096}).value();
  EXPECT_EQ(added.id, FakeDevices::id(0));
  EXPECT_EQ(added.path, "/mnt/a");
  EXPECT_EQ(added.state, "healthy");
  EXPECT_EQ(added.capacity_bytes, 4096U);
  EXPECT_EQ(client->change_device({DeviceAction::kDrain, added.id})->state, "draining");
  EXPECT_EQ(client->change_device({DeviceAction::kDisable, added.id})->state, "disabled_by_admin");
  EXPECT_EQ(client->change_device({DeviceAction::kEnable, added.id})->state, "healthy");
  devices.set(0, [](node::DeviceStatus& device) {
    device.used = 1;
    device.records = 2;
    device.errors = 3;
    device.last_error = "EIO";
  });
  const std::vector<DeviceInfo> all = client->devices().value();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].used_bytes, 1U);
  EXPECT_EQ(all[0].records, 2U);
  EXPECT_EQ(all[0].errors, 3U);
  EXPECT_EQ(all[0].last_error, "EIO");
  const DeviceInfo removed = client->change_device({DeviceAction::kRemove, added.id}).value();
  EXPECT_EQ(removed.id, added.id);
  EXPECT_EQ(removed.path, "");
  EXPECT_TRUE(client->devices()->empty());
}

TEST(ClientDevices, ErrorsComeBack) {
  FakeDevices devices;
  DeviceNode node(&devices);
  const auto client = connect(node.unix_address());
  const auto code = [&](DeviceAction action, const std::string& device) {
    const auto changed = client->change_device({action, device});
    return changed ? Code::kOk : changed.error().code();
  };
  EXPECT_EQ(code(DeviceAction::kAdd, "/other"), Code::kConflict);
  EXPECT_EQ(code(DeviceAction::kRemove, FakeDevices::id(1)), Code::kNotFound);
  EXPECT_EQ(code(DeviceAction::kRemove, "x"), Code::kInvalidArgument);
  EXPECT_EQ(code(DeviceAction::kRemove, ""), Code::kInvalidArgument);
  EXPECT_EQ(code(DeviceAction::kAdd, std::string(5000, '/')), Code::kInvalidArgument);
  EXPECT_EQ(code(static_cast<DeviceAction>(9), FakeDevices::id(1)), Code::kUnsupported);
  DeviceNode without(nullptr);
  EXPECT_EQ(connect(without.unix_address())->devices().error().code(), Code::kUnsupported);
}

// A change is asked for once, also when its answer does not come; a list would be asked for again.
TEST(ClientDevices, AChangeIsNotRepeated) {
  FakeDevices devices;
  auto node = std::make_unique<DeviceNode>(&devices);
  const auto client = connect(node->unix_address());
  const std::string id = client->change_device({DeviceAction::kAdd, "/mnt/a"})->id;
  devices.hold();
  std::thread ending([&] {
    EXPECT_TRUE(devices.wait_asked(2));
    node->server().stop(1);
    devices.let_go();
  });
  const auto drained = client->change_device({DeviceAction::kDrain, id});
  ending.join();
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code(), Code::kUnavailable);
  node.reset();
  EXPECT_EQ(devices.asked(), (std::vector<std::string>{"add /mnt/a 0", "drain " + id}));
}

}  // namespace
}  // namespace larder::client
