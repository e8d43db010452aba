// SPDX-License-Identifier: Apache-2.0
// What becomes of a device whose connections are lost: it attaches again to the same namespace and
// to no other, and never calls a write durable that may be gone.
#include <gtest/gtest.h>

#include "nvmf/host/hostile_testing.h"

namespace larder::nvmf {
namespace {

using block::BlockDone;
using block::HealthState;

// Cuts I/O connections on cue; what it does not cut is served honestly.
class Cutter {
 public:
  explicit Cutter(FakeTarget& target) {
    target.on_io([this](FakeConnection& at, const FakePdu& pdu) {
      if (pdu.command().opcode == kFabricsOpcode || cuts <= 0) return false;
      --cuts;
      at.close();
      return true;
    });
  }
  std::atomic<int> cuts{0};  // commands that are answered by the end of their connection
};

class ReattachTest : public testing::Test {
 protected:
  void SetUp() override { descriptors_ = open_descriptors(); }
  void TearDown() override { EXPECT_EQ(open_descriptors(), descriptors_); }

  static FakeSelf with_cache() {
    FakeSelf self;
    self.controller.vwc = 1;
    return self;
  }
  // After a loss the target is as `change` made it.
  void expect_end(const std::function<void(FakeSelf&)>& change, const char* part) {
    FakeTarget target;
    Cutter cutter(target);
    Victim victim(target, Reattach::kOnce);
    EXPECT_EQ(victim.write().code, Code::kOk);
    {
      const std::lock_guard lock(target.self_mutex);
      change(target.self);
    }
    cutter.cuts = 1;
    victim.expect_broken(victim.read(), part);
    victim.queue.reset();
    EXPECT_TRUE(victim.untouched());
    EXPECT_EQ(block::code_of(victim.device->open_queue(1)), Code::kUnavailable);
  }

  std::size_t descriptors_ = 0;
};

TEST_F(ReattachTest, WhatWasInFlightIsSentOnceMore) {
  FakeTarget target;
  Cutter cutter(target);
  Victim victim(target, Reattach::kOnce);
  block::fill_random(victim.memory.span(), *std::make_unique<std::mt19937_64>(1));
  EXPECT_EQ(victim.write().code, Code::kOk);
  for (int i = 1; i <= 3; ++i) {
    cutter.cuts = 1;
    EXPECT_EQ(victim.read().code, Code::kOk);
    cutter.cuts = 1;
    EXPECT_EQ(victim.write().code, Code::kOk);
    EXPECT_EQ(victim.device->nvme_stats().reattached, 2U * i);
    EXPECT_EQ(victim.device->nvme_stats().retried, 2U * i);
  }
  EXPECT_EQ(std::memcmp(victim.memory.data(), target.memory.data(), Victim::kBytes), 0);
  EXPECT_EQ(victim.flush().code, Code::kOk);  // there is no volatile cache
}

// Before anything goes on: what was in flight must not reach another medium.
TEST_F(ReattachTest, TheWitnessIsAskedFirst) {
  FakeTarget target;
  Cutter cutter(target);
  Victim victim(target, Reattach::kOnce);
  const std::uint64_t last = target.memory.size() - 4096;
  std::atomic<int> asked{0};
  victim.device->set_witness({{0, last}, [&](std::span<const std::byte> blocks) -> Result<void> {
                                ++asked;
                                EXPECT_EQ(blocks.size(), 2U * 4096);
                                if (blocks[4096] == std::byte{0}) return {};
                                return fail(Code::kConflict, "it is another medium");
                              }});
  EXPECT_EQ(victim.write().code, Code::kOk);
  EXPECT_EQ(asked, 0);
  cutter.cuts = 1;
  EXPECT_EQ(victim.read().code, Code::kOk);
  EXPECT_EQ(asked, 1);
  target.memory[last] = std::byte{1};
  std::fill_n(target.memory.begin(), Victim::kBytes, std::byte{5});
  cutter.cuts = 1;
  victim.expect_broken(victim.write(), "it is another medium");
  EXPECT_EQ(asked, 2);
  victim.queue.reset();
  EXPECT_TRUE(block::all_are(std::span(target.memory).first(Victim::kBytes), std::byte{5}));
}

TEST_F(ReattachTest, AndNoMoreThanThat) {
  FakeTarget target;
  Cutter cutter(target);
  Victim victim(target, Reattach::kOnce);
  cutter.cuts = 2;
  EXPECT_EQ(victim.read().code, Code::kUnavailable);
  EXPECT_EQ(victim.device->health().state, HealthState::kDegraded);
  EXPECT_EQ(victim.read().code, Code::kOk);
}

TEST_F(ReattachTest, AllQueuesHearOfIt) {
  FakeTarget target;
  Cutter cutter(target);
  Victim victim(target, Reattach::kOnce);
  const auto other = block::queue_of(*victim.device);
  ASSERT_TRUE(block::read_all(*other, 0, victim.memory.span()));
  cutter.cuts = 1;
  EXPECT_EQ(victim.read().code, Code::kOk);
  ASSERT_TRUE(block::read_all(*other, 0, victim.memory.span()));
  EXPECT_EQ(victim.device->nvme_stats().reattached, 1U);
  EXPECT_EQ(victim.device->nvme_stats().retried, 1U);
}

TEST_F(ReattachTest, ManyInFlightAllEnd) {
  FakeTarget target;
  Cutter cutter(target);
  Victim victim(target, Reattach::kOnce);
  cutter.cuts = 1;
  for (std::uint64_t i = 0; i < 16; ++i) {
    ASSERT_TRUE(victim.queue->submit(block::BlockOp::read(i * 4096, {&victim.small, 1}, i)));
  }
  for (const BlockDone& done : block::wait_for(*victim.queue, 16)) EXPECT_TRUE(done.ok());
}

TEST_F(ReattachTest, ATargetThatIsGoneIsWaitedForAWhile) {
  FakeTarget target;
  Cutter cutter(target);
  std::atomic<bool> gone{false};
  target.on_handshake([&](FakeConnection& at, const FakePdu&) {
    if (gone) at.close();
    return gone.load();
  });
  NvmeDeviceOptions options = Victim::options_of(target, Reattach::kOnce, false);
  options.reattach_timeout = 150 * env::kMilli;
  Victim victim(options);
  gone = true;
  cutter.cuts = 1;
  EXPECT_EQ(victim.read().code, Code::kUnavailable);
  EXPECT_EQ(victim.read().code, Code::kUnavailable);
  EXPECT_EQ(victim.device->health().state, HealthState::kDegraded);
  gone = false;
  // The next try may be further away than one operation waits.
  const env::Nanos deadline = block::within(block::kSoon);
  Code code = Code::kUnavailable;
  while (code != Code::kOk && env::monotonic_now() < deadline) code = victim.read().code;
  EXPECT_EQ(code, Code::kOk);
}

TEST_F(ReattachTest, ALateCommandIsNotSentAgainButItsNeighboursAre) {
  FakeTarget target;
  std::atomic<int> mute{2};
  target.on_io([&](FakeConnection&, const FakePdu& pdu) {
    const bool read = pdu.command().opcode == static_cast<std::uint8_t>(IoOpcode::kRead);
    return read && mute-- > 0;
  });
  NvmeDeviceOptions options = Victim::options_of(target, Reattach::kOnce, false);
  options.io_timeout = 400 * env::kMilli;
  Victim victim(options);
  BlockDone done;
  ASSERT_TRUE(victim.queue->submit(block::BlockOp::read(0, {&victim.small, 1}, 1)));
  EXPECT_EQ(victim.queue->wait({&done, 1}, block::within(200 * env::kMilli)), 0U);
  ASSERT_TRUE(victim.queue->submit(block::BlockOp::read(4096, {&victim.small, 1}, 2)));
  for (const BlockDone& one : block::wait_for(*victim.queue, 2)) {
    EXPECT_EQ(one.code, one.tag == 1 ? Code::kUnavailable : Code::kOk);
  }
  EXPECT_EQ(victim.device->nvme_stats().retried, 1U);
}

TEST_F(ReattachTest, AFlushThatIsGivenUpEndsTheDevice) {
  FakeTarget target;
  target.on_io([](FakeConnection&, const FakePdu& pdu) {
    return pdu.command().opcode == static_cast<std::uint8_t>(IoOpcode::kFlush);
  });
  NvmeDeviceOptions options = Victim::options_of(target, Reattach::kOnce, false);
  options.io_timeout = 100 * env::kMilli;
  Victim victim(options);
  EXPECT_EQ(victim.flush().code, Code::kUnavailable);
  EXPECT_EQ(victim.device->health().state, HealthState::kFailed);
}

TEST_F(ReattachTest, AnotherNamespaceEndsTheDevice) {
  expect_end([](FakeSelf& self) { self.ids.uuid[15] = 2; }, "another namespace");
  expect_end([](FakeSelf& self) { self.ns.nsze = kFakeBlocks - 1; }, "shrunk");
  expect_end([](FakeSelf& self) { self.ns.formats[0].lbads = 9; }, "block size");
  expect_end([](FakeSelf& self) { self.controller.vwc = 1; }, "volatile write cache");
  expect_end([](FakeSelf& self) { self.controller.oncs = 0; }, "discard");
}

TEST_F(ReattachTest, OneThatGrewIsTheSame) {
  FakeTarget target;
  Cutter cutter(target);
  Victim victim(target, Reattach::kOnce);
  {
    const std::lock_guard lock(target.self_mutex);
    target.self.ns.nsze = 2 * kFakeBlocks;
  }
  cutter.cuts = 1;
  EXPECT_EQ(victim.read().code, Code::kOk);
  EXPECT_EQ(victim.device->geometry().blocks, kFakeBlocks);
}

// ---- flushes

TEST_F(ReattachTest, WritesThatMayBeLostFailTheNextFlush) {
  FakeTarget target(with_cache());
  Cutter cutter(target);
  Victim victim(target, Reattach::kOnce);
  EXPECT_TRUE(victim.device->geometry().volatile_cache);
  EXPECT_EQ(victim.write().code, Code::kOk);
  cutter.cuts = 1;
  EXPECT_EQ(victim.read().code, Code::kOk);
  victim.expect_broken(victim.flush(), "before a flush");
}

TEST_F(ReattachTest, AlsoWhenItIsTheFlushThatMeetsTheLoss) {
  FakeTarget target(with_cache());
  Cutter cutter(target);
  Victim victim(target, Reattach::kOnce);
  EXPECT_EQ(victim.write().code, Code::kOk);
  cutter.cuts = 1;
  victim.expect_broken(victim.flush(), "before a flush");
}

TEST_F(ReattachTest, WhatWasFlushedIsSafe) {
  FakeTarget target(with_cache());
  Cutter cutter(target);
  Victim victim(target, Reattach::kOnce);
  EXPECT_EQ(victim.write().code, Code::kOk);
  EXPECT_EQ(victim.flush().code, Code::kOk);
  cutter.cuts = 1;
  EXPECT_EQ(victim.read().code, Code::kOk);
  EXPECT_EQ(victim.flush().code, Code::kOk);
  // A write that was hit itself ended on the new association.
  cutter.cuts = 1;
  EXPECT_EQ(victim.write().code, Code::kOk);
  EXPECT_EQ(victim.flush().code, Code::kOk);
}

TEST_F(ReattachTest, AFlushOfAnotherQueueDoesNotCoverLaterWrites) {
  FakeTarget target(with_cache());
  Cutter cutter(target);
  Victim victim(target, Reattach::kOnce);
  const auto other = block::queue_of(*victim.device);
  EXPECT_EQ(victim.write().code, Code::kOk);
  ASSERT_TRUE(block::flush(*other));
  EXPECT_EQ(victim.write_small().code, Code::kOk);
  cutter.cuts = 1;
  EXPECT_EQ(victim.read().code, Code::kOk);
  EXPECT_FALSE(block::flush(*other));
  EXPECT_EQ(victim.device->health().state, HealthState::kFailed);
}

// ---- events

class EventTest : public ReattachTest {
 protected:
  static constexpr AsyncEvent kChanged{kEventNotice, kNoticeNamespaceChanged, 4};

  void change(FakeTarget& target, const std::function<void(FakeSelf&)>& how) {
    {
      const std::lock_guard lock(target.self_mutex);
      how(target.self);
    }
    ASSERT_TRUE(eventually([&] { return target.event(kChanged); }));
  }
  void expect_end_of(const std::function<void(FakeSelf&)>& how, const char* part) {
    FakeTarget target;
    Victim victim(target, Reattach::kOnce);
    change(target, how);
    ASSERT_TRUE(eventually([&] { return victim.device->health().state == HealthState::kFailed; }));
    EXPECT_NE(victim.device->health().reason.find(part), std::string::npos)
        << victim.device->health().reason;
    EXPECT_EQ(victim.read().code, Code::kUnavailable);
  }
};

TEST_F(EventTest, ANamespaceThatShrankOrWasReplacedOrRemovedEndsTheDevice) {
  expect_end_of([](FakeSelf& self) { self.ns.nsze = 5; }, "shrunk");
  expect_end_of([](FakeSelf& self) { self.ids.uuid[0] = 1; }, "another namespace");
  expect_end_of([](FakeSelf& self) { self.active.clear(); }, "no namespace 1");
  expect_end_of([](FakeSelf& self) { self.ns.formats[0].ms = 8; }, "metadata");
}

TEST_F(EventTest, OtherEventsDoNot) {
  FakeTarget target;
  Victim victim(target, Reattach::kOnce);
  change(target, [](FakeSelf& self) { self.ns.nsze = 2 * kFakeBlocks; });
  ASSERT_TRUE(eventually([&] { return target.event({1, 2, 2}); }));  // SMART
  ASSERT_TRUE(eventually([&] { return target.has_event_request(); }));
  EXPECT_EQ(victim.read().code, Code::kOk);
  EXPECT_EQ(victim.device->nvme_stats().events, 2U);
}

}  // namespace
}  // namespace larder::nvmf
