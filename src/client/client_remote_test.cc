// SPDX-License-Identifier: Apache-2.0
// Clients of a node whose disk is a namespace behind a network.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "block/file_device.h"
#include "client/disk_testing.h"
#include "nvmf/target/target.h"

namespace larder::client {
namespace {

constexpr std::uint64_t kDiskBytes = 256ULL << 20U;

class ClientRemoteTest : public testing::TestWithParam<Path>, protected DiskBed {
 protected:
  ClientRemoteTest() : DiskBed(GetParam()) {}
  void TearDown() override {
    end();
    nodes_.node.reset();  // while its target is there
  }

  // On a file, so that it outlives the target; always at the same port.
  void start_target() {
    block::FileDeviceOptions file;
    file.path = nodes_.dir + "/namespace";
    file.create = true;
    file.bytes = kDiskBytes;
    nvmf::NamespaceOptions space;
    auto device = block::FileDevice::open(file);
    ASSERT_TRUE(device) << device.error().to_string();
    space.device = std::move(*device);
    start_target(std::move(space));
  }
  void start_target(nvmf::NamespaceOptions space) {
    nvmf::TargetOptions options;
    options.listen.port = port_;
    auto made = nvmf::Target::create(options, {std::move(space)});
    ASSERT_TRUE(made) << made.error().to_string();
    target_ = std::move(*made);
    port_ = target_->address().port;
  }
  void start_node(const std::string& more = "") {
    start_on(target_->url() + "?host_nqn=nqn.2014-08.org.nvmexpress:larder-test" + more);
  }
  bool in_service() {
    return nodes_.node->metrics().find("larder_disk_state{") != std::string::npos;
  }
  void expect_values(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto got = client_->get(key(i));
      ASSERT_TRUE(got) << key(i) << ": " << words(got);
      ASSERT_TRUE(same(got->bytes(), make_value(i, kValue + i))) << key(i);
    }
  }

  std::uint16_t port_ = 0;
  std::unique_ptr<nvmf::Target> target_;
};

TEST_P(ClientRemoteTest, HoldsMoreThanDram) {
  start_target();
  start_node();
  put_many(0, kMore);
  settle(kMore);
  expect_values(kMore);
  EXPECT_GT(target_->stats().reads, 0U);
  EXPECT_GT(target_->stats().flushes, 0U);
}

TEST_P(ClientRemoteTest, ValuesAreThereAfterTheNodeAndItsTargetWereAway) {
  start_target();
  start_node();
  put_many(0, kMore);
  settle(kMore);
  client_.reset();
  nodes_.node.reset();
  target_.reset();
  start_target();
  start_node();
  ASSERT_TRUE(soon(
      [&] { return nodes_.node->metrics().find("larder_cold_scanning 0") != std::string::npos; }));
  expect_values(kMore);
}

// The node serves from DRAM meanwhile; what is on the disk is found again.
TEST_P(ClientRemoteTest, ATargetThatComesBackIsInServiceAgain) {
  start_target();
  start_node();
  put_many(0, kMore);
  settle(kMore);
  ASSERT_EQ(tier_of(key(0)), Tier::kCold);
  target_.reset();
  const auto miss = client_->get(key(0));
  ASSERT_FALSE(miss);
  EXPECT_EQ(miss.error().code(), Code::kNotFound) << words(miss);
  ASSERT_TRUE(client_->put("new", make_value(4711, kValue)));
  start_target();
  ASSERT_TRUE(soon([&] { return client_->get(key(0)).has_value(); }));
  EXPECT_TRUE(same(client_->get(key(0))->bytes(), make_value(0, kValue)));
  EXPECT_TRUE(same(client_->get("new")->bytes(), make_value(4711, kValue)));
}

TEST_P(ClientRemoteTest, ANodeStartsWithoutItsTarget) {
  start_target();
  const std::string url = target_->url();
  target_.reset();
  start_on(url);
  ASSERT_TRUE(client_->put("a", make_value(1, kValue)));
  EXPECT_FALSE(in_service());
  start_target();
  ASSERT_TRUE(soon([&] { return in_service(); }));
  put_many(0, kMore);
  settle(kMore);
  expect_values(kMore);
}

// Nothing but the word in the superblock keeps two hosts from writing to it.
TEST_P(ClientRemoteTest, WhatAnotherNodeHasNotClosedIsRefused) {
  start_target();
  start_node();
  NodeFixture other;
  other.options.id = "another";
  other.options.cold.disks = nodes_.options.cold.disks;
  const auto refused = node::Node::create(other.options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kConflict);
  EXPECT_NE(refused.error().message().find("cold.take_over"), std::string::npos)
      << refused.error().message();
  other.options.cold.take_over = true;
  client_.reset();
  nodes_.node.reset();  // it is gone for good
  const auto taken = node::Node::create(other.options);
  EXPECT_TRUE(taken) << taken.error().to_string();
}

INSTANTIATE_TEST_SUITE_P(, ClientRemoteTest,
                         testing::Values(Path::kSharedMemory, Path::kUnixSocket), path_test_name);

}  // namespace
}  // namespace larder::client
