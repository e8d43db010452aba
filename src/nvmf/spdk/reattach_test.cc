// SPDX-License-Identifier: Apache-2.0
// What becomes of a device whose controller is lost.
#include <gtest/gtest.h>

#include "nvmf/spdk/spdk_testing.h"

namespace larder::nvmf {
namespace {

using block::BlockDone;
using block::HealthState;

class SpdkReattachTest : public FakeSpdkTest {
 protected:
  static void lose(FakeKind kind, int times = 1) { next(kind, FakeFate::kLost, times); }
  static void give_a_cache() {
    with_fake([](FakeSpdk& fake) { fake.controller.vwc = 1; });
  }
  // After a loss the namespace is as `change` made it.
  static void expect_end(const std::function<void(FakeSpdk&)>& change, const char* part) {
    reset_fake_spdk();
    SpdkUser user;
    EXPECT_EQ(user.write().code, Code::kOk);
    with_fake(change);
    lose(FakeKind::kRead);
    user.expect_broken(user.read(), part);
    user.queue.reset();
    EXPECT_EQ(block::code_of(user.device->open_queue(1)), Code::kUnavailable);
  }
};

TEST_F(SpdkReattachTest, WhatWasInFlightIsSentOnceMore) {
  SpdkUser user;
  EXPECT_EQ(user.write().code, Code::kOk);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    lose(FakeKind::kRead);
    EXPECT_EQ(user.read().code, Code::kOk);
    lose(FakeKind::kWrite);
    EXPECT_EQ(user.write().code, Code::kOk);
    EXPECT_EQ(user.device->nvme_stats().reattached, 2 * i);
    EXPECT_EQ(user.device->nvme_stats().retried, 2 * i);
  }
  EXPECT_EQ(std::memcmp(user.memory.data(), fake_spdk().memory.data(), SpdkUser::kBytes), 0);
  EXPECT_EQ(user.flush().code, Code::kOk);  // there is no volatile cache
}

TEST_F(SpdkReattachTest, AndNoMoreThanThat) {
  SpdkUser user;
  lose(FakeKind::kRead, 2);
  EXPECT_EQ(user.read().code, Code::kUnavailable);
  EXPECT_EQ(user.device->health().state, HealthState::kDegraded);
  EXPECT_EQ(user.read().code, Code::kOk);
}

// The driver attaches no controller anew as long as a queue pair of the old one is there, and this
// queue's thread does nothing about its own.
TEST_F(SpdkReattachTest, AQueueThatNobodyPollsIsNoHindrance) {
  SpdkUser user;
  const auto other = block::queue_of(*user.device);
  ASSERT_TRUE(block::read_all(*other, 0, user.memory.span()));
  const block::Piece last{user.memory.data(), kFakeBlockBytes};
  ASSERT_TRUE(other->submit(block::BlockOp::read(0, {&last, 1})));
  lose(FakeKind::kRead);
  const block::Piece rest{user.memory.data() + kFakeBlockBytes, kFakeBlockBytes};
  EXPECT_EQ(user.run(block::BlockOp::read(0, {&rest, 1})).code, Code::kOk);
  EXPECT_EQ(block::wait_for(*other, 1).at(0).code, Code::kOk);
  EXPECT_EQ(user.device->nvme_stats().reattached, 1U);
  EXPECT_EQ(user.device->nvme_stats().retried, 2U);
}

TEST_F(SpdkReattachTest, ManyInFlightAllEnd) {
  SpdkUser user;
  lose(FakeKind::kRead);
  std::vector<block::Piece> pieces;
  for (std::size_t i = 0; i < 16; ++i) {
    pieces.push_back({user.memory.data() + i * kFakeBlockBytes, kFakeBlockBytes});
  }
  for (std::size_t i = 0; i < 16; ++i) {
    ASSERT_TRUE(user.queue->submit(block::BlockOp::read(i * kFakeBlockBytes, {&pieces[i], 1}, i)));
  }
  for (const BlockDone& done : block::wait_for(*user.queue, 16)) EXPECT_TRUE(done.ok());
}

TEST_F(SpdkReattachTest, ATargetThatIsGoneIsWaitedForAWhile) {
  SpdkDeviceOptions options = fake_options();
  options.remote.reattach_timeout = 150 * env::kMilli;
  SpdkUser user(options);
  with_fake([](FakeSpdk& fake) { fake.connect_failures = 1 << 20; });
  lose(FakeKind::kRead);
  EXPECT_EQ(user.read().code, Code::kUnavailable);
  EXPECT_EQ(user.read().code, Code::kUnavailable);
  EXPECT_EQ(user.device->health().state, HealthState::kDegraded);
  with_fake([](FakeSpdk& fake) { fake.connect_failures = 0; });
  EXPECT_EQ(user.read().code, Code::kOk);
}

TEST_F(SpdkReattachTest, SomeAttemptsFailFirst) {
  SpdkUser user;
  with_fake([](FakeSpdk& fake) {
    fake.connect_failures = 2;
    fake.pair_failures = 2;
  });
  lose(FakeKind::kRead);
  EXPECT_EQ(user.read().code, Code::kOk);
}

TEST_F(SpdkReattachTest, ALateCommandIsNotSentAgain) {
  next(FakeKind::kRead, FakeFate::kMute, 1 << 20);
  SpdkDeviceOptions options = fake_options();
  options.remote.io_timeout = 100 * env::kMilli;
  SpdkUser user(options);
  const BlockDone done = user.read();
  EXPECT_EQ(done.code, Code::kUnavailable);
  EXPECT_EQ(done.sys_errno, ETIMEDOUT);
  EXPECT_EQ(user.device->nvme_stats().retried, 0U);
  EXPECT_EQ(user.write().code, Code::kOk);
  EXPECT_EQ(user.device->nvme_stats().reattached, 1U);
}

TEST_F(SpdkReattachTest, NeverMeansThatTheDeviceFails) {
  SpdkDeviceOptions options = fake_options();
  options.remote.reattach = Reattach::kNever;
  SpdkUser user(options);
  lose(FakeKind::kRead);
  user.expect_broken(user.read(), "lost");
}

TEST_F(SpdkReattachTest, AnotherNamespaceEndsTheDevice) {
  expect_end([](FakeSpdk& fake) { fake.uuid[15] = 2; }, "another namespace");
  expect_end([](FakeSpdk& fake) { fake.ns.nsze = kFakeNamespaceBlocks - 1; }, "shrunk");
  expect_end([](FakeSpdk& fake) { fake.ns.formats[0].lbads = 9; }, "block size");
  expect_end([](FakeSpdk& fake) { fake.controller.vwc = 1; }, "volatile write cache");
  expect_end([](FakeSpdk& fake) { fake.controller.oncs = 0; }, "discard");
}

TEST_F(SpdkReattachTest, OneThatGrewIsTheSame) {
  SpdkUser user;
  with_fake([](FakeSpdk& fake) { fake.ns.nsze = 2 * kFakeNamespaceBlocks; });
  lose(FakeKind::kRead);
  EXPECT_EQ(user.read().code, Code::kOk);
  EXPECT_EQ(user.device->geometry().blocks, kFakeNamespaceBlocks);
}

TEST_F(SpdkReattachTest, ALossIsNoticedWithoutOperations) {
  SpdkUser user;
  fake_spdk().cut();
  const env::Nanos deadline = block::within(block::kSoon);
  while (user.device->nvme_stats().lost == 0 && env::monotonic_now() < deadline) {
    static_cast<void>(env::yield_core());
  }
  EXPECT_EQ(user.device->nvme_stats().lost, 1U);
  EXPECT_EQ(user.read().code, Code::kOk);
  EXPECT_EQ(user.device->nvme_stats().retried, 0U);
}

// ---- flushes

TEST_F(SpdkReattachTest, WritesThatMayBeLostFailTheNextFlush) {
  give_a_cache();
  SpdkUser user;
  EXPECT_TRUE(user.device->geometry().volatile_cache);
  EXPECT_EQ(user.write().code, Code::kOk);
  lose(FakeKind::kRead);
  EXPECT_EQ(user.read().code, Code::kOk);
  user.expect_broken(user.flush(), "before a flush");
}

TEST_F(SpdkReattachTest, AlsoWhenItIsTheFlushThatMeetsTheLoss) {
  give_a_cache();
  SpdkUser user;
  EXPECT_EQ(user.write().code, Code::kOk);
  lose(FakeKind::kFlush);
  user.expect_broken(user.flush(), "before a flush");
}

TEST_F(SpdkReattachTest, WhatWasFlushedIsSafe) {
  give_a_cache();
  SpdkUser user;
  EXPECT_EQ(user.write().code, Code::kOk);
  EXPECT_EQ(user.flush().code, Code::kOk);
  lose(FakeKind::kRead);
  EXPECT_EQ(user.read().code, Code::kOk);
  EXPECT_EQ(user.flush().code, Code::kOk);
  // A write that was hit itself ended on the new controller.
  lose(FakeKind::kWrite);
  EXPECT_EQ(user.write().code, Code::kOk);
  EXPECT_EQ(user.flush().code, Code::kOk);
}

TEST_F(SpdkReattachTest, AFlushOfAnotherQueueDoesNotCoverLaterWrites) {
  give_a_cache();
  SpdkUser user;
  const auto other = block::queue_of(*user.device);
  EXPECT_EQ(user.write().code, Code::kOk);
  ASSERT_TRUE(block::flush(*other));
  EXPECT_EQ(user.write().code, Code::kOk);
  lose(FakeKind::kRead);
  EXPECT_EQ(user.read().code, Code::kOk);
  EXPECT_FALSE(block::flush(*other));
  EXPECT_EQ(user.device->health().state, HealthState::kFailed);
}

TEST_F(SpdkReattachTest, AFlushThatFailsEndsTheDevice) {
  SpdkUser user;
  next(FakeKind::kFlush, FakeFate::kFails, 1, refused(Sc::kInternalError));
  EXPECT_EQ(user.flush().code, Code::kUnavailable);
  EXPECT_EQ(user.device->health().state, HealthState::kFailed);
}

// ---- events

class SpdkEventTest : public SpdkReattachTest {
 protected:
  static void expect_end_of(const std::function<void(FakeSpdk&)>& how, const char* part) {
    reset_fake_spdk();
    SpdkUser user;
    with_fake([&](FakeSpdk& fake) {
      how(fake);
      ++fake.events;
    });
    const env::Nanos deadline = block::within(block::kSoon);
    while (user.device->health().state != HealthState::kFailed && env::monotonic_now() < deadline) {
      static_cast<void>(env::yield_core());
    }
    EXPECT_NE(user.device->health().reason.find(part), std::string::npos)
        << user.device->health().reason;
    EXPECT_EQ(block::code_of(user.queue->submit(block::BlockOp::flush())), Code::kUnavailable);
  }
};

TEST_F(SpdkEventTest, ANamespaceThatShrankOrWasReplacedOrRemovedEndsTheDevice) {
  expect_end_of([](FakeSpdk& fake) { fake.ns.nsze = 5; }, "shrunk");
  expect_end_of([](FakeSpdk& fake) { fake.uuid[0] = 9; }, "another namespace");
  expect_end_of([](FakeSpdk& fake) { fake.active = false; }, "no namespace 1");
  expect_end_of([](FakeSpdk& fake) { fake.ns.formats[0].ms = 8; }, "metadata");
}

}  // namespace
}  // namespace larder::nvmf
