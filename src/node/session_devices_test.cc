// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "larder.pb.h"
#include "larder/client.h"
#include "node/device_testing.h"
#include "rpc/channel.h"
#include "wire/message.h"

namespace larder::node {
namespace {

env::Nanos later() {
  return env::monotonic_now() + 30 * env::kSecond;
}

// One call of a peer, and its answer.
class TestCall final : public rpc::Call {
 public:
  rpc::PayloadSink* on_reply(const wire::FrameHeader& header, std::string_view body) override {
    code = header.code;
    pb::ErrorReply error;
    if (code != Code::kOk && wire::parse_body(body, header.op, error)) text = error.text();
    if (code == Code::kOk && header.op == wire::Op::kDevices) {
      EXPECT_TRUE(wire::parse_body(body, header.op, reply));
    }
    return nullptr;
  }
  void on_done(const Error* error) override {
    if (error != nullptr) code = error->code();
    ended.store(true);
    ended.notify_all();
  }

  Code code = Code::kInternal;
  std::string text;
  pb::DevicesReply reply;
  std::atomic<bool> ended{false};
};

class SessionDevicesTest : public testing::Test {
 protected:
  void serve(DeviceControl* devices, const std::string& token = {}) {
    node_ = std::make_unique<DeviceNode>(devices, token);
    channel_ = connect(0, token);
  }
  std::shared_ptr<rpc::Channel> connect(std::size_t address, const std::string& token = {}) {
    rpc::ChannelOptions options;
    options.address = node_->server().addresses()[address];
    options.token = token;
    return rpc::Channel::connect(options).value();
  }
  static void start(rpc::Channel& channel, TestCall& call, const std::string& frame,
                    wire::Op op = wire::Op::kDevices) {
    wire::FrameHeader header;
    header.op = op;
    channel.send(call, header, frame, nullptr, later(), rpc::Attendance::kPumped);
  }
  static std::string frame(std::uint32_t action, const std::string& device = {},
                           std::uint64_t size = 0) {
    pb::DevicesRequest request;
    request.set_action(action);
    request.set_device(device);
    request.set_size(size);
    return wire::frame_with(request);
  }
  static std::string frame(DeviceAction action, const std::string& device, std::uint64_t size = 0) {
    return frame(static_cast<std::uint32_t>(action), device, size);
  }
  // Sends one and waits for its answer.
  Code ask(TestCall& call, const std::string& request) {
    start(*channel_, call, request);
    call.ended.wait(false);
    return call.code;
  }
  Code ask(const std::string& request) {
    TestCall call;
    return ask(call, request);
  }

  FakeDevices devices_;
  std::unique_ptr<DeviceNode> node_;
  std::shared_ptr<rpc::Channel> channel_;
};

TEST_F(SessionDevicesTest, EveryActionReachesTheDevices) {
  serve(&devices_);
  const std::string id = FakeDevices::id(0);
  TestCall added;
  ASSERT_EQ(ask(added, frame(DeviceAction::kAdd, "/mnt/a b", 1 << 20)), Code::kOk);
  ASSERT_EQ(added.reply.devices_size(), 1);
  EXPECT_EQ(added.reply.devices(0).id(), id);
  EXPECT_EQ(added.reply.devices(0).path(), "/mnt/a b");
  EXPECT_EQ(added.reply.devices(0).state(), "healthy");
  EXPECT_EQ(added.reply.devices(0).capacity_bytes(), 1U << 20);
  TestCall drained;
  EXPECT_EQ(ask(drained, frame(DeviceAction::kDrain, id)), Code::kOk);
  EXPECT_EQ(drained.reply.devices(0).state(), "draining");
  TestCall disabled;
  EXPECT_EQ(ask(disabled, frame(DeviceAction::kDisable, id)), Code::kOk);
  EXPECT_EQ(disabled.reply.devices(0).state(), "disabled_by_admin");
  TestCall enabled;
  EXPECT_EQ(ask(enabled, frame(DeviceAction::kEnable, id)), Code::kOk);
  EXPECT_EQ(enabled.reply.devices(0).state(), "healthy");
  devices_.set(0, [](DeviceStatus& device) {
    device.used = 5;
    device.records = 6;
    device.errors = 7;
    device.last_error = "EIO\n at 4096";
  });
  TestCall listed;
  EXPECT_EQ(ask(listed, frame(wire::kDevicesList)), Code::kOk);
  ASSERT_EQ(listed.reply.devices_size(), 1);
  EXPECT_EQ(listed.reply.devices(0).used_bytes(), 5U);
  EXPECT_EQ(listed.reply.devices(0).records(), 6U);
  EXPECT_EQ(listed.reply.devices(0).errors(), 7U);
  EXPECT_EQ(listed.reply.devices(0).last_error(), "EIO? at 4096");
  TestCall removed;
  EXPECT_EQ(ask(removed, frame(DeviceAction::kRemove, id)), Code::kOk);
  EXPECT_EQ(removed.reply.devices_size(), 0);
  EXPECT_EQ(devices_.asked(),
            (std::vector<std::string>{"add /mnt/a b 1048576", "drain " + id, "disable " + id,
                                      "enable " + id, "list", "remove " + id}));
}

TEST_F(SessionDevicesTest, ErrorsAreTheDevicesOwn) {
  serve(&devices_);
  TestCall refused;
  EXPECT_EQ(ask(refused, frame(DeviceAction::kAdd, "/other")), Code::kConflict);
  EXPECT_EQ(refused.text, "/other is owned by node n2:7");
  EXPECT_EQ(ask(frame(DeviceAction::kRemove, FakeDevices::id(4))), Code::kNotFound);
}

TEST_F(SessionDevicesTest, WhatMakesNoSenseDoesNotReachThem) {
  serve(&devices_);
  const std::string path = "/" + std::string(wire::kDeviceNameBytesMax - 1, 'p');
  EXPECT_EQ(ask(frame(DeviceAction::kAdd, path)), Code::kOk);
  for (const std::string& wrong : {std::string(), std::string("relative"), path + "p",
                                   std::string("/a\0b", 4), std::string("/a\x1b[2J")}) {
    EXPECT_EQ(ask(frame(DeviceAction::kAdd, wrong)), Code::kInvalidArgument) << wrong;
  }
  for (const std::string& wrong :
       {std::string(), std::string("0000"), FakeDevices::id(0) + "0", std::string(36, '-')}) {
    EXPECT_EQ(ask(frame(DeviceAction::kRemove, wrong)), Code::kInvalidArgument) << wrong;
  }
  EXPECT_EQ(ask(frame(6, FakeDevices::id(0))), Code::kUnsupported);
  EXPECT_EQ(ask(frame(~0U, FakeDevices::id(0))), Code::kUnsupported);
  EXPECT_EQ(ask(std::string(wire::kHeaderBytes, '\0') + "\xff\xff"), Code::kCorrupt);
  EXPECT_EQ(devices_.asked().size(), 1U);
}

TEST_F(SessionDevicesTest, ANodeWithoutDisksSaysSo) {
  serve(nullptr);
  for (const std::string& request :
       {frame(wire::kDevicesList), frame(DeviceAction::kDrain, FakeDevices::id(0))}) {
    TestCall call;
    EXPECT_EQ(ask(call, request), Code::kUnsupported);
    EXPECT_EQ(call.text, "this node has no disks; start it with --disk");
  }
}

// Any user of this host can connect to TCP on loopback.
TEST_F(SessionDevicesTest, OverTcpTheTokenMustBeKnown) {
  serve(&devices_);
  const auto stranger = connect(1);
  TestCall refused;
  start(*stranger, refused, frame(DeviceAction::kAdd, "/mnt/a"));
  refused.ended.wait(false);
  EXPECT_EQ(refused.code, Code::kPermissionDenied);
  EXPECT_TRUE(devices_.asked().empty());
  channel_.reset();
  const std::string token = "a token of these tests, of some length";
  serve(&devices_, token);
  const auto friendly = connect(1, token);
  TestCall listed;
  start(*friendly, listed, frame(wire::kDevicesList));
  listed.ended.wait(false);
  EXPECT_EQ(listed.code, Code::kOk);
}

// One call runs, sixteen wait, and neither they nor their connection hold up anything else.
TEST_F(SessionDevicesTest, SlowCallsAreBoundedAndHoldUpNothing) {
  serve(&devices_);
  ASSERT_EQ(ask(frame(DeviceAction::kAdd, "/mnt/a")), Code::kOk);
  devices_.hold();
  TestCall running;
  start(*channel_, running, frame(DeviceAction::kDrain, FakeDevices::id(0)));
  ASSERT_TRUE(devices_.wait_asked(2));
  std::vector<std::unique_ptr<TestCall>> waiting;
  for (std::size_t i = 0; i < DeviceCalls::kWaitingMax; ++i) {
    waiting.push_back(std::make_unique<TestCall>());
    start(*channel_, *waiting.back(), frame(wire::kDevicesList));
  }
  TestCall refused;
  EXPECT_EQ(ask(refused, frame(wire::kDevicesList)), Code::kBackpressure);
  TestCall other;
  start(*channel_, other, wire::frame_with(pb::InfoRequest()), wire::Op::kInfo);
  other.ended.wait(false);
  EXPECT_EQ(other.code, Code::kOk);
  EXPECT_FALSE(running.ended);
  EXPECT_FALSE(waiting.front()->ended);
  devices_.let_go();
  running.ended.wait(false);
  EXPECT_EQ(running.code, Code::kOk);
  for (const auto& call : waiting) {
    call->ended.wait(false);
    EXPECT_EQ(call->code, Code::kOk);
    EXPECT_EQ(call->reply.devices(0).state(), "draining");
  }
}

// A change that nobody waits for any more is not begun; one that has begun is finished.
TEST_F(SessionDevicesTest, CallsOfClosedConnectionsAreNotBegun) {
  serve(&devices_);
  ASSERT_EQ(ask(frame(DeviceAction::kAdd, "/mnt/a")), Code::kOk);
  devices_.hold();
  const auto gone = connect(0);
  TestCall begun;
  TestCall waits;
  start(*gone, begun, frame(DeviceAction::kDrain, FakeDevices::id(0)));
  ASSERT_TRUE(devices_.wait_asked(2));
  start(*gone, waits, frame(DeviceAction::kRemove, FakeDevices::id(0)));
  while (node_->server().counters().outstanding < 2) std::this_thread::yield();
  gone->shut_down();
  while (node_->server().counters().outstanding > 0) std::this_thread::yield();
  devices_.let_go();
  TestCall listed;
  EXPECT_EQ(ask(listed, frame(wire::kDevicesList)), Code::kOk);
  ASSERT_EQ(listed.reply.devices_size(), 1);
  EXPECT_EQ(listed.reply.devices(0).state(), "draining");
  begun.ended.wait(false);
  waits.ended.wait(false);
}

TEST_F(SessionDevicesTest, TheNodeEndsWithCallsWaiting) {
  serve(&devices_);
  ASSERT_EQ(ask(frame(DeviceAction::kAdd, "/mnt/a")), Code::kOk);
  devices_.hold();
  TestCall running;
  TestCall waiting;
  start(*channel_, running, frame(DeviceAction::kDrain, FakeDevices::id(0)));
  ASSERT_TRUE(devices_.wait_asked(2));
  start(*channel_, waiting, frame(DeviceAction::kRemove, FakeDevices::id(0)));
  while (node_->server().counters().outstanding < 2) std::this_thread::yield();
  node_->server().stop(1);  // does not wait for them
  running.ended.wait(false);
  waiting.ended.wait(false);
  EXPECT_EQ(running.code, Code::kUnavailable);
  EXPECT_EQ(waiting.code, Code::kUnavailable);
  devices_.let_go();
  node_.reset();
  EXPECT_EQ(devices_.asked().size(), 2U);
}

}  // namespace
}  // namespace larder::node
