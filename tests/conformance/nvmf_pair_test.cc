// SPDX-License-Identifier: Apache-2.0
// Our initiator and our target together: what is found, and what happens when the target ends,
// comes back, or has other namespaces than before.
#include <gtest/gtest.h>

#include "block/block_testing.h"
#include "block/fault_device.h"
#include "env/thread.h"
#include "nvmf/host/device.h"
#include "nvmf/host/discover.h"
#include "nvmf/pdu/connect.h"
#include "nvmf/target/target.h"

namespace larder::nvmf {
namespace {

using block::HealthState;
using block::take_value;

constexpr std::uint64_t kBytes = 1U << 20U;
constexpr const char* kNqn = "nqn.2024-01.org.example:pair";

class NvmfPairTest : public testing::Test {
 protected:
  static NamespaceOptions on(const std::shared_ptr<block::BlockDevice>& medium,
                             const std::string& identity = "one") {
    NamespaceOptions out;
    out.device = medium;
    out.identity = identity;
    return out;
  }
  static NamespaceOptions ram(std::uint64_t bytes) {
    NamespaceOptions out;
    out.ram_bytes = bytes;
    out.ram_bytes_max = 2 * kBytes;
    return out;
  }
  void serve(const std::vector<NamespaceOptions>& namespaces) {
    TargetOptions options;
    options.listen.port = port_;  // the same again after the first time
    options.nqn = kNqn;
    target_ = take_value(Target::create(options, namespaces));
    port_ = target_->address().port;
  }
  NvmeDeviceOptions options() const {
    NvmeDeviceOptions out;
    out.url = take_value(parse_nvme_url(target_->url()));
    out.host.nqn = "nqn.2024-01.org.example:host";
    return out;
  }
  ToolOptions tool(const std::string& url) const {
    ToolOptions out;
    out.url = take_value(parse_nvme_url(url));
    out.host.nqn = "nqn.2024-01.org.example:host";
    return out;
  }
  static bool fails_soon(const NvmeDevice& device) {
    const env::Nanos deadline = block::within(block::kSoon);
    while (device.health().state != HealthState::kFailed && env::monotonic_now() < deadline) {
      env::yield_core();
    }
    return device.health().state == HealthState::kFailed;
  }

  std::shared_ptr<block::BlockDevice> medium_ =
      take_value(block::MemoryDevice::create({.bytes = kBytes}));
  std::uint16_t port_ = 0;
  std::unique_ptr<Target> target_;
};

TEST_F(NvmfPairTest, DiscoveryFindsTheSubsystem) {
  serve({ram(kBytes)});
  const auto found = take_value(discover(tool("nvme-tcp://127.0.0.1:" + std::to_string(port_))));
  const auto one =
      std::find_if(found.begin(), found.end(), [](const auto& entry) { return entry.nqn == kNqn; });
  ASSERT_NE(one, found.end());
  EXPECT_EQ(one->address, "127.0.0.1");
  EXPECT_EQ(one->port, std::to_string(port_));
  EXPECT_EQ(one->transport, static_cast<std::uint8_t>(TransportType::kTcp));
}

TEST_F(NvmfPairTest, IdentifyShowsAllNamespaces) {
  serve({ram(kBytes), on(medium_)});
  const Identified all = take_value(identify(tool(target_->url())));
  EXPECT_EQ(all.controller.limits.subnqn, kNqn);
  EXPECT_EQ(all.namespaces.size(), 2U);
  EXPECT_GT(all.io_queues, 0);
  const Identified one = take_value(identify(tool(target_->url(2))));
  ASSERT_EQ(one.namespaces.size(), 1U);
  EXPECT_EQ(one.namespaces[0].nsid, 2U);
  EXPECT_EQ(block::code_of(identify(tool(target_->url() + "#7"))), Code::kNotFound);
  EXPECT_EQ(block::code_of(identify(tool("nvme-tcp://127.0.0.1:" + std::to_string(port_)))),
            Code::kInvalidArgument);
}

TEST_F(NvmfPairTest, WhoIsNotThereOrNotAllowedIsTold) {
  serve({ram(kBytes)});
  NvmeDeviceOptions given = options();
  given.url.nqn = "nqn.2024-01.org.example:other";
  EXPECT_EQ(block::code_of(NvmeDevice::open(given)), Code::kNotFound);
  given.url.nqn = kDiscoveryNqn;
  EXPECT_EQ(block::code_of(NvmeDevice::open(given)), Code::kInvalidArgument);
  TargetOptions strict;
  strict.listen.port = 0;
  strict.nqn = kNqn;
  strict.allow_hosts = {"nqn.2024-01.org.example:somebody"};
  const auto other = take_value(Target::create(strict, {ram(kBytes)}));
  given.url = take_value(parse_nvme_url(other->url()));
  EXPECT_EQ(block::code_of(NvmeDevice::open(given)), Code::kPermissionDenied);
}

TEST_F(NvmfPairTest, ATargetThatComesBackIsUsedAgain) {
  serve({on(medium_)});
  const auto device = take_value(NvmeDevice::open(options()));
  const auto queue = block::queue_of(*device);
  auto out = block::buffer_of(65536, std::byte{7});
  ASSERT_TRUE(block::write_all(*queue, 0, out.span()));
  ASSERT_TRUE(block::flush(*queue));
  target_.reset();
  serve({on(medium_)});
  auto in = block::buffer_of(65536);
  ASSERT_TRUE(block::read_all(*queue, 0, in.span()));
  EXPECT_TRUE(block::all_are(in.span(), std::byte{7}));
  EXPECT_EQ(device->nvme_stats().reattached, 1U);
  EXPECT_TRUE(block::flush(*queue));
}

TEST_F(NvmfPairTest, OneThatComesBackAsAnotherIsNot) {
  serve({on(medium_)});
  const auto device = take_value(NvmeDevice::open(options()));
  const auto queue = block::queue_of(*device);
  target_.reset();
  serve({on(medium_, "two")});
  auto in = block::buffer_of(4096);
  EXPECT_FALSE(block::read_all(*queue, 0, in.span()));
  EXPECT_EQ(device->health().state, HealthState::kFailed);
  EXPECT_NE(device->health().reason.find("another namespace"), std::string::npos);
}

TEST_F(NvmfPairTest, UnflushedWritesFailTheNextFlushWhenTheTargetWasGone) {
  // Memory alone has no cache that could lose anything.
  const std::shared_ptr<block::BlockDevice> cached =
      take_value(block::FaultDevice::create(medium_, {}));
  serve({on(cached)});
  const auto device = take_value(NvmeDevice::open(options()));
  ASSERT_TRUE(device->geometry().volatile_cache);
  const auto queue = block::queue_of(*device);
  auto out = block::buffer_of(4096, std::byte{7});
  ASSERT_TRUE(block::write_all(*queue, 0, out.span()));
  target_.reset();
  serve({on(cached)});
  ASSERT_TRUE(block::read_all(*queue, 0, out.span()));
  EXPECT_FALSE(block::flush(*queue));
  EXPECT_EQ(device->health().state, HealthState::kFailed);
}

TEST_F(NvmfPairTest, UnflushedZeroesCountAsWrites) {
  const std::shared_ptr<block::BlockDevice> cached =
      take_value(block::FaultDevice::create(medium_, {}));
  serve({on(cached)});
  const auto device = take_value(NvmeDevice::open(options()));
  const auto queue = block::queue_of(*device);
  ASSERT_TRUE(block::write_zeroes(*queue, 0, 4096));
  target_.reset();
  serve({on(cached)});
  auto in = block::buffer_of(4096);
  ASSERT_TRUE(block::read_all(*queue, 0, in.span()));
  EXPECT_FALSE(block::flush(*queue));
}

// Linux's target over TCP says no MDTS; ours does.
TEST_F(NvmfPairTest, WhatIsBeyondMdtsTravelsInParts) {
  TargetOptions narrow;
  narrow.listen.port = 0;
  narrow.nqn = kNqn;
  narrow.transfer_max = 16384;
  target_ = take_value(Target::create(narrow, {ram(kBytes)}));
  const auto device = take_value(NvmeDevice::open(options()));
  const auto queue = block::queue_of(*device);
  auto out = block::buffer_of(20 * 16384 + 4096);
  std::mt19937_64 random(8);
  block::fill_random(out.span(), random);
  const block::Piece whole = block::Piece::from(out.span());
  ASSERT_TRUE(queue->submit(block::BlockOp::write(4096, {&whole, 1})));  // one operation
  ASSERT_TRUE(block::wait_for(*queue, 1).at(0).ok());
  EXPECT_EQ(target_->stats().writes, 21U);
  auto in = block::buffer_of(out.size());
  const block::Piece into{in.data(), in.size()};
  ASSERT_TRUE(queue->submit(block::BlockOp::read(4096, {&into, 1})));
  ASSERT_TRUE(block::wait_for(*queue, 1).at(0).ok());
  EXPECT_EQ(target_->stats().reads, 21U);
  EXPECT_EQ(std::memcmp(in.data(), out.data(), out.size()), 0);
  EXPECT_EQ(target_->stats().errors, 0U);
}

TEST_F(NvmfPairTest, ChangesOfTheNamespaceAreHeardOf) {
  serve({ram(kBytes)});
  const auto grown = take_value(NvmeDevice::open(options()));
  ASSERT_TRUE(target_->resize_namespace(1, 2 * kBytes));
  const auto queue = block::queue_of(*grown);
  auto in = block::buffer_of(4096);
  EXPECT_TRUE(block::read_all(*queue, 0, in.span()));
  const auto shrunk = take_value(NvmeDevice::open(options()));
  ASSERT_TRUE(target_->resize_namespace(1, kBytes / 2));
  ASSERT_TRUE(fails_soon(*shrunk));
  EXPECT_NE(shrunk->health().reason.find("shrunk"), std::string::npos);
  ASSERT_TRUE(fails_soon(*grown));
  const auto removed = take_value(NvmeDevice::open(options()));
  ASSERT_TRUE(target_->remove_namespace(1));
  ASSERT_TRUE(fails_soon(*removed));
}

}  // namespace
}  // namespace larder::nvmf
