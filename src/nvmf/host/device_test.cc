// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/device.h"

#include <gtest/gtest.h>

#include "nvmf/host/fake_target_testing.h"

namespace larder::nvmf {
namespace {

using block::buffer_of;
using block::queue_of;
using block::take_value;

class NvmeDeviceTest : public testing::Test {
 protected:
  std::shared_ptr<NvmeDevice> open(const FakeTarget& target) {
    return take_value(NvmeDevice::open(target.options()));
  }
  Error refusal(const FakeTarget& target) {
    auto device = NvmeDevice::open(target.options());
    EXPECT_FALSE(device) << "it should have been refused";
    return device ? Error(Code::kOk) : device.error();
  }
  std::mt19937_64 random_{3};
};

TEST_F(NvmeDeviceTest, ReadsWhatItWrote) {
  FakeTarget target;
  const auto device = open(target);
  EXPECT_EQ(device->geometry().block_bytes, 4096U);
  EXPECT_EQ(device->geometry().blocks, kFakeBlocks);
  EXPECT_EQ(device->geometry().sector_bytes, 512U);
  EXPECT_FALSE(device->geometry().volatile_cache);
  EXPECT_TRUE(device->identity().id.starts_with("uuid.")) << device->identity().id;
  const auto queue = queue_of(*device);
  for (const std::size_t bytes : {4096U, 8192U, 12288U, 65536U, 1U << 20U}) {
    auto out = buffer_of(bytes);
    block::fill_random(out.span(), random_);
    ASSERT_TRUE(block::write_all(*queue, 8192, out.span()));
    auto in = buffer_of(bytes);
    ASSERT_TRUE(block::read_all(*queue, 8192, in.span()));
    EXPECT_EQ(std::memcmp(in.data(), out.data(), bytes), 0) << bytes;
  }
  EXPECT_TRUE(block::flush(*queue));
  EXPECT_EQ(target.flushes, 1);
  EXPECT_TRUE(block::discard(*queue, 0, 16384));
  EXPECT_TRUE(block::all_are(std::span(target.memory).first(16384), std::byte{0}));
}

TEST_F(NvmeDeviceTest, ObeysEveryLimit) {
  FakeSelf self;
  self.controller.mdts = 2;    // 16 KiB
  self.controller.ioccsz = 4;  // no data in capsules
  self.icresp.maxh2cdata = 4096;
  self.icresp.cpda = 31;
  self.cap = Cap::make(4, 1000);  // three commands
  self.sq_flow_off = false;
  FakeTarget target(self);
  const auto device = open(target);
  std::atomic<std::uint32_t> most{0};
  target.on_io([&](FakeConnection&, const FakePdu& pdu) {
    EXPECT_TRUE(pdu.data.empty());
    if (pdu.command().opcode <= 2) most = std::max<std::uint32_t>(most, pdu.command().blocks());
    return false;
  });
  const auto queue = queue_of(*device, 1);
  auto out = buffer_of(1U << 17U);
  block::fill_random(out.span(), random_);
  // The fake serves one write at a time.
  for (std::size_t at = 0; at < out.size(); at += 16384) {
    ASSERT_TRUE(block::write_all(*queue, at, out.span().subspan(at, 16384)));
  }
  auto in = buffer_of(out.size());
  ASSERT_TRUE(block::read_all(*queue, 0, in.span()));
  EXPECT_EQ(std::memcmp(in.data(), out.data(), out.size()), 0);
  EXPECT_EQ(most, 4U);
  EXPECT_EQ(target.reads, 8);
}

// MDTS is no limit of theirs, says the specification; there are controllers that have no more.
TEST_F(NvmeDeviceTest, WritesZeroesWithinMdtsAndWithoutDeallocating) {
  FakeSelf self;
  self.controller.mdts = 2;  // 16 KiB
  FakeTarget target(self);
  const auto device = open(target);
  std::atomic<int> commands{0};
  target.on_io([&](FakeConnection&, const FakePdu& pdu) {
    const Command command = pdu.command();
    if (command.opcode != static_cast<std::uint8_t>(IoOpcode::kWriteZeroes)) return false;
    ++commands;
    EXPECT_LE(command.blocks(), 4U);
    EXPECT_EQ(command.cdw12 & kDeallocate, 0U);
    return false;
  });
  const auto queue = queue_of(*device);
  std::fill_n(target.memory.begin(), 16 * 4096, std::byte{7});
  ASSERT_TRUE(block::write_zeroes(*queue, 4096, 10 * 4096));
  EXPECT_EQ(commands, 3);
  const auto memory = std::span(target.memory);
  EXPECT_TRUE(block::all_are(memory.first(4096), std::byte{7}));
  EXPECT_TRUE(block::all_are(memory.subspan(4096, 10 * 4096), std::byte{0}));
  EXPECT_TRUE(block::all_are(memory.subspan(11 * 4096, 5 * 4096), std::byte{7}));
}

// It says that it can, and finds out that its file system cannot.
TEST_F(NvmeDeviceTest, AZeroesCommandThatIsRefusedIsUnsupportedAndNoFault) {
  FakeTarget target;
  const auto device = open(target);
  target.on_io([&](FakeConnection& at, const FakePdu& pdu) {
    const Command command = pdu.command();
    if (command.opcode == static_cast<std::uint8_t>(IoOpcode::kFlush)) return false;
    at.respond(command.cid, refused(Sc::kInvalidOpcode));
    return true;
  });
  const auto queue = queue_of(*device);
  EXPECT_EQ(block::code_of(block::write_zeroes(*queue, 0, 4096)), Code::kUnsupported);
  EXPECT_EQ(device->health().state, block::HealthState::kHealthy);
  auto in = buffer_of(4096);
  EXPECT_EQ(block::code_of(block::read_all(*queue, 0, in.span())), Code::kUnavailable);
  EXPECT_EQ(device->health().errors, 1U);
}

TEST_F(NvmeDeviceTest, WritesNoZeroesWhereTheControllerCannot) {
  FakeSelf self;
  self.controller.oncs = kOncsDsm;
  FakeTarget target(self);
  const auto device = open(target);
  EXPECT_EQ(device->geometry().zeroes_max, 0U);
  const auto queue = queue_of(*device);
  EXPECT_EQ(block::code_of(block::write_zeroes(*queue, 0, 4096)), Code::kUnsupported);
}

TEST_F(NvmeDeviceTest, DigestsGoBothWays) {
  FakeTarget target;
  NvmeDeviceOptions options = target.options();
  options.url.header_digest = options.url.data_digest = true;
  const auto device = take_value(NvmeDevice::open(options));
  const auto queue = queue_of(*device);
  for (const std::size_t bytes : {4096U, 1U << 18U}) {
    auto out = buffer_of(bytes);
    block::fill_random(out.span(), random_);
    ASSERT_TRUE(block::write_all(*queue, 0, out.span()));
    auto in = buffer_of(bytes);
    ASSERT_TRUE(block::read_all(*queue, 0, in.span()));
    EXPECT_EQ(std::memcmp(in.data(), out.data(), bytes), 0);
  }
}

TEST_F(NvmeDeviceTest, SaysGoodbye) {
  FakeTarget target;
  {
    const auto device = open(target);
    const auto queue = queue_of(*device);
    EXPECT_FALSE(target.shut_down);
  }
  EXPECT_TRUE(target.shut_down);
}

TEST_F(NvmeDeviceTest, QueuesAreBoundedByWhatIsGranted) {
  FakeSelf self;
  self.queues_dw0 = 1U << 16U | 5U;  // two
  FakeTarget target(self);
  const auto device = open(target);
  const auto one = queue_of(*device);
  auto two = queue_of(*device);
  const auto three = device->open_queue(1);
  EXPECT_EQ(block::code_of(three), Code::kExhausted);
  const std::size_t connections = target.accepted();
  two.reset();
  EXPECT_TRUE(device->open_queue(1));
  EXPECT_EQ(target.accepted(), connections) << "the connection is used again";
}

TEST_F(NvmeDeviceTest, MetricsAndChargesTell) {
  FakeTarget target;
  obs::Registry registry;
  NvmeDeviceOptions options = target.options();
  options.metrics = &registry;
  {
    const auto device = take_value(NvmeDevice::open(options));
    const auto queue = queue_of(*device);
    auto buffer = buffer_of(8192);
    block::BlockingOptions high;
    high.purpose = {Intent::kForegroundPrefixFetch, TrafficClass::kHigh};
    ASSERT_TRUE(block::write_all(*queue, 0, buffer.span()));
    ASSERT_TRUE(block::read_all(*queue, 0, buffer.span(), high));
    const NvmeStats stats = device->nvme_stats();
    EXPECT_EQ(stats.kinds[0].bytes, 8192U);
    EXPECT_EQ(stats.kinds[1].commands, 1U);
    EXPECT_EQ(stats.queues.at(0).commands, 2U);
    EXPECT_EQ(stats.charges[0][Resource::kNicRx], 8192U);
    EXPECT_EQ(stats.charges[0][Resource::kNvmeRead], 8192U);
    EXPECT_EQ(stats.charges[1][Resource::kNicTx], 8192U);
    EXPECT_EQ(stats.charges[1][Resource::kNvmeWrite], 8192U);
    const auto prefix = static_cast<std::size_t>(Intent::kForegroundPrefixFetch);
    EXPECT_EQ(stats.by_intent[0][prefix],
              qos::charges_of(qos::Stage::kNamespaceToHost).scaled(8192));
    EXPECT_EQ(stats.by_intent[1][0], qos::charges_of(qos::Stage::kHostToNamespace).scaled(8192));
    EXPECT_EQ(stats.charges[0], stats.by_intent[0][prefix]);
    const std::string text = registry.text();
    EXPECT_NE(text.find("larder_nvmf_bytes_total{kind=\"read\",subsystem=\"" +
                        std::string(kFakeNqn) + "\"} 8192"),
              std::string::npos)
        << text;
    // Series of a class and intent are there once something was moved for them.
    const auto charged = [&](const std::string& traffic_class, const std::string& intent,
                             const std::string& resource) {
      return "larder_nvmf_charged_bytes_total{class=\"" + traffic_class + "\",intent=\"" + intent +
             "\",resource=\"" + resource + "\",subsystem=\"" + std::string(kFakeNqn) + "\"} ";
    };
    for (const std::string resource : {"nic_rx", "nvme_read", "host_memory_bw"}) {
      const std::string line = charged("high", "foreground_prefix_fetch", resource) + "8192\n";
      EXPECT_NE(text.find(line), std::string::npos) << line << text;
    }
    for (const std::string resource : {"nic_tx", "nvme_write", "host_memory_bw"}) {
      const std::string line = charged("low", "unknown", resource) + "8192\n";
      EXPECT_NE(text.find(line), std::string::npos) << line << text;
    }
    EXPECT_EQ(text.find(charged("low", "checkpoint", "nic_tx")), std::string::npos);
    high.purpose = {Intent::kCheckpoint, TrafficClass::kLow};
    ASSERT_TRUE(block::write_all(*queue, 0, buffer.span(), high));
    EXPECT_NE(registry.text().find(charged("low", "checkpoint", "nic_tx") + "8192\n"),
              std::string::npos);
  }
  EXPECT_EQ(registry.text().find("larder_nvmf_bytes_total{"), std::string::npos);
  EXPECT_EQ(registry.text().find("larder_nvmf_charged_bytes_total{"), std::string::npos);
}

TEST_F(NvmeDeviceTest, WhatIsSentAgainIsChargedAgain) {
  FakeTarget target;
  const auto device = open(target);
  std::atomic<int> refused{0};
  target.on_io([&](FakeConnection& at, const FakePdu& pdu) {
    if (refused++ > 0) return false;
    at.respond(pdu.command().cid, failed(Sc::kNamespaceNotReady));
    return true;
  });
  const auto queue = queue_of(*device);
  auto buffer = buffer_of(8192);
  block::BlockingOptions options;
  options.purpose = {Intent::kForegroundHandoff, TrafficClass::kHigh};
  ASSERT_TRUE(block::read_all(*queue, 0, buffer.span(), options));
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(device->nvme_stats().charges[0][Resource::kNicRx], 2 * 8192U);
}

// ---- what a target may say of itself

TEST_F(NvmeDeviceTest, RefusesWhatItCannotUse) {
  const auto with = [&](auto change) {
    FakeSelf self;
    change(self);
    FakeTarget target(self);
    return refusal(target);
  };
  const auto names = [](const Error& error, Code code, const char* part) {
    EXPECT_EQ(error.code(), code) << error.to_string();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.to_string();
  };
  names(with([](FakeSelf& s) { s.ns.formats[0].ms = 8; }), Code::kUnsupported, "metadata");
  names(with([](FakeSelf& s) { s.ns.formats[0].lbads = 0; }), Code::kUnsupported, "blocks");
  names(with([](FakeSelf& s) { s.ns.formats[0].lbads = 30; }), Code::kUnsupported, "blocks");
  names(with([](FakeSelf& s) { s.ns.nsze = ~0ULL; }), Code::kCorrupt, "2^64");
  names(with([](FakeSelf& s) { s.ns.nsze = 1ULL << 51U; }), Code::kUnsupported, "2^63");
  names(with([](FakeSelf& s) { s.ns.nsze = 0; }), Code::kNotFound, "active");
  names(with([](FakeSelf& s) { s.ns.flbas = 5; }), Code::kCorrupt, "format");
  names(with([](FakeSelf& s) { s.queues_dw0 = ~0U; }), Code::kExhausted, "queue");
  names(with([](FakeSelf& s) { s.controller.sgls = 0; }), Code::kUnsupported, "SGL");
  names(with([](FakeSelf& s) { s.active = {2, 3}; }), Code::kNotFound, "2, 3");
  names(with([](FakeSelf& s) { s.active = {3, 2}; }), Code::kCorrupt, "");
  names(with([](FakeSelf& s) { s.ids.command_set = 2; }), Code::kUnsupported, "command set");
  names(with([](FakeSelf& s) { s.controller.cntrltype = 2; }), Code::kInvalidArgument, "discovery");
  names(with([](FakeSelf& s) { s.cap.bits &= ~0xFFFFULL; }), Code::kUnsupported, "MQES");
  names(with([](FakeSelf& s) { s.icresp.pfv = 9; }), Code::kCorrupt, "");
  names(with([](FakeSelf& s) { s.icresp.maxh2cdata = 100; }), Code::kCorrupt, "");
  names(with([](FakeSelf& s) { s.icresp.dgst = 3; }), Code::kCorrupt, "digest");
  names(with([](FakeSelf& s) {
          s.ready = false;
          s.cap = Cap::make(16, 500);
        }),
        Code::kUnavailable, "ready");
}

TEST_F(NvmeDeviceTest, TakesTheOnlyNamespaceThereIs) {
  FakeSelf self;
  self.active = {9};
  FakeTarget target(self);
  EXPECT_EQ(open(target)->nsid(), 9U);
}

TEST_F(NvmeDeviceTest, IdentityPrefersTheUuid) {
  FakeSelf self;
  self.ids.has_nguid = true;
  self.ids.nguid[0] = 0xAB;
  self.ns.eui64[7] = 5;
  {
    FakeTarget target(self);
    EXPECT_TRUE(open(target)->identity().id.starts_with("uuid.00000000-"));
  }
  self.ids.has_uuid = false;
  {
    FakeTarget target(self);
    EXPECT_TRUE(open(target)->identity().id.starts_with("nguid.ab00"));
  }
  self.ids.has_nguid = false;
  {
    FakeTarget target(self);
    EXPECT_EQ(open(target)->identity().id, "eui64.0000000000000005");
  }
  self.ns.eui64 = {};
  FakeTarget target(self);
  EXPECT_TRUE(open(target)->identity().id.starts_with(kFakeNqn));
}

TEST_F(NvmeDeviceTest, AnotherNamespaceThanExpectedIsRefused) {
  FakeTarget target;
  NvmeDeviceOptions options = target.options();
  options.expected_id = "uuid.f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
  EXPECT_EQ(block::code_of(NvmeDevice::open(options)), Code::kConflict);
}

TEST_F(NvmeDeviceTest, RefusedHostsAndSubsystemsAreNamed) {
  FakeTarget target;
  const auto refuse = [&](Status status, std::uint32_t dw0) {
    target.on_admin([status, dw0](FakeConnection& at, const FakePdu& pdu) {
      at.respond(pdu.command().cid, status, dw0);
      return true;
    });
    return refusal(target);
  };
  EXPECT_EQ(refuse(refused(Sc::kConnectInvalidHost), 0).code(), Code::kPermissionDenied);
  const ConnectRefusal where{offsetof(ConnectData, subnqn), true};
  EXPECT_EQ(refuse(refused(Sc::kConnectInvalidParameters), where.dw0()).code(), Code::kNotFound);
  EXPECT_EQ(refuse(failed(Sc::kControllerBusy), 0).code(), Code::kExhausted);
  EXPECT_EQ(refuse(refused(Sc::kAuthenticationRequired), 0).code(), Code::kUnsupported);
}

}  // namespace
}  // namespace larder::nvmf
