// SPDX-License-Identifier: Apache-2.0
// A node's books of a disk behind a network: what values took of NIC and drive, and why.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "client/disk_testing.h"
#include "nvmf/target/target.h"

namespace larder::client {
namespace {

constexpr std::uint64_t kBlock = 4096;

std::uint64_t whole_blocks(std::uint64_t bytes) {
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

// All that is read comes into DRAM (on_hit), so clients read nothing by themselves.
class RemoteBooksTest : public testing::Test, protected DiskBed {
 protected:
  RemoteBooksTest() : DiskBed(Path::kUnixSocket) {
    nvmf::TargetOptions options;
    options.listen.port = 0;
    nvmf::NamespaceOptions space;
    space.ram_bytes = 256ULL << 20U;
    space.populate = false;
    target_ = nvmf::Target::create(options, {space}).value();
    start_on(target_->url() + "?host_nqn=nqn.2014-08.org.nvmexpress:larder-test");
  }
  void TearDown() override {
    end();
    nodes_.node.reset();  // while its target is there
  }
  // 0: there is no such series.
  std::uint64_t value_of(const std::string& series) const {
    const std::string text = nodes_.node->metrics();
    const auto at = text.find("\n" + series + " ");
    return at == std::string::npos ? 0 : std::stoull(text.substr(at + series.size() + 2));
  }
  std::uint64_t booked(const std::string& traffic_class, const std::string& direction,
                       const std::string& intent) const {
    return value_of("larder_transfer_bytes_total{class=\"" + traffic_class + "\",direction=\"" +
                    direction + "\",intent=\"" + intent + "\",transport=\"nvme_tcp\"}");
  }
  std::uint64_t charged(const std::string& traffic_class, const std::string& intent,
                        const std::string& resource) const {
    return value_of("larder_nvmf_charged_bytes_total{class=\"" + traffic_class + "\",intent=\"" +
                    intent + "\",resource=\"" + resource + "\",subsystem=\"" + target_->nqn() +
                    "\"}");
  }
  void expect_cold(std::uint64_t i, Intent intent) {
    ASSERT_EQ(tier_of(key(i)), Tier::kCold);
    CallOptions options;
    options.intent = intent;
    const auto got = client_->get(key(i), options);
    ASSERT_TRUE(got) << words(got);
    EXPECT_TRUE(same(got->bytes(), make_value(i, kValue + i)));
  }

  std::unique_ptr<nvmf::Target> target_;
};

TEST_F(RemoteBooksTest, WhatGoesToARemoteDiskAndBackIsBookedAsThat) {
  const std::string write = "remote_store_write";
  const std::uint64_t made = charged("low", write, "nvme_write");
  put_many(0, kMore);
  settle(kMore);
  std::uint64_t values = 0;
  std::uint64_t blocks = 0;
  const auto add = [&](std::uint64_t i) {
    values += kValue + i;
    blocks += whole_blocks(kValue + i);
  };
  for (std::uint64_t i = 0; i < kMore; ++i) add(i);
  for (std::uint64_t i = kFillers; i < fillers_end_; ++i) add(i);
  EXPECT_EQ(booked("low", "write", write), values);
  // Beside the values: blocks of the table, at most two for each, less where several share them.
  const std::uint64_t written = charged("low", write, "nvme_write") - made;
  RecordProperty("header_bytes", std::to_string(written - blocks));
  EXPECT_GT(written, blocks);
  EXPECT_LE(written, blocks + 2 * (kMore + fillers_end_ - kFillers) * kBlock);
  EXPECT_EQ(charged("low", write, "nic_tx") - made, written);
  expect_cold(0, Intent::kUnknown);  // the call itself says: a prefix fetch
  expect_cold(1, Intent::kForegroundHandoff);
  EXPECT_EQ(booked("high", "read", "foreground_prefix_fetch"), kValue);
  EXPECT_EQ(booked("high", "read", "foreground_handoff"), kValue + 1);
  for (const std::string resource : {"nic_rx", "nvme_read", "host_memory_bw"}) {
    EXPECT_EQ(charged("high", "foreground_prefix_fetch", resource), whole_blocks(kValue));
    EXPECT_EQ(charged("high", "foreground_handoff", resource), whole_blocks(kValue + 1));
  }
  EXPECT_EQ(nodes_.node->metrics().find("io_uring"), std::string::npos);
  EXPECT_EQ(nodes_.node->metrics().find("local_store_write"), std::string::npos);
  EXPECT_EQ(charged("low", "unknown", "nvme_write"), 0U);
}

}  // namespace
}  // namespace larder::client
