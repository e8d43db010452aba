// SPDX-License-Identifier: Apache-2.0
// The stager between a dispatcher and transports that misbehave, on a simulated device. The
// transports' time is the test's; the stager has a thread of its own.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "env/thread.h"
#include "transfer/stager.h"
#include "transfer/transfer_testing.h"

namespace larder::transfer {
namespace {

constexpr std::uint64_t kBytes = 64 << 10;

class StagerTest : public testing::Test {
 protected:
  void SetUp() override {
    platform::SimOptions options;
    options.device_bytes = 1 << 20;
    auto sim = platform::SimPlatform::create(options);
    sim_ = sim->get();
    std::vector<std::unique_ptr<platform::Platform>> list;
    list.push_back(std::move(*sim));
    platforms_.emplace(platform::PlatformSet::create(std::move(list)).value());
    device_ = sim_->allocate(kBytes, 0).value();
    rig_.emplace();
    tcp_ = &add(TransportType::kTcp);
    gds_ = &add(TransportType::kGds);
    rig_->open();
    rig_->add_memory(device(0, kBytes), device_.location());
    rig_->add_memory(far_);
    batch_ = rig_->batch(16);
    fill_data(far_, 5);
    ASSERT_TRUE(sim_->poke(device_.data(), std::vector<std::byte>(kBytes, kPoison)));
  }
  // The same type twice: for host memory, and behind a stager, which alone is used here.
  FaultTransport& add(TransportType type) {
    rig_->add({.type = type});
    auto stager =
        Stager::create({.buffer_bytes = 4096, .buffers = 4}, *platforms_, rig_->dispatcher).value();
    auto inner =
        std::make_unique<FaultTransport>(FaultTransportOptions{.type = type}, stager->inner_sink());
    FaultTransport& fault = *inner;
    stager->set_inner(std::move(inner));
    stagers_.push_back(stager.get());
    rig_->add_stager(std::move(stager));
    return fault;
  }
  std::span<std::byte> device(std::uint64_t at, std::uint64_t bytes) const {
    return {device_.data() + at, bytes};
  }
  std::vector<std::byte> on_device() const {
    std::vector<std::byte> bytes(kBytes);
    EXPECT_TRUE(sim_->peek(device_.data(), bytes));
    return bytes;
  }
  Task& submit(Opcode opcode, std::uint64_t bytes) {
    const TransferRequest request = request_of(opcode, device(0, bytes), far_.data());
    const auto results = rig_->submit(batch_, std::span(&request, 1));
    EXPECT_EQ(results.value()[0].message, "");
    return batch_->task(results.value()[0].task);
  }
  // Time goes on until then.
  void until(const std::function<bool()>& then, bool step = true) {
    const env::Nanos end = within(kSoon);
    while (!then() && env::monotonic_now() < end) {
      if (step) {
        tcp_->step();
        gds_->step();
      }
      static_cast<void>(env::yield_core());
    }
    ASSERT_TRUE(then());
  }
  void until_quiet(const Task& task) {
    until([&] { return task.status().quiescent; });
  }

  platform::SimPlatform* sim_ = nullptr;
  std::optional<platform::PlatformSet> platforms_;
  platform::Allocation device_;
  std::vector<std::byte> far_ = std::vector<std::byte>(kBytes);
  std::optional<Rig> rig_;
  std::vector<Stager*> stagers_;
  FaultTransport* tcp_ = nullptr;
  FaultTransport* gds_ = nullptr;
  BatchRef batch_;
};

TEST_F(StagerTest, WhatOneTransportCannotAnotherDoes) {
  tcp_->die();
  const Task& read = submit(Opcode::kRead, kBytes);
  until_quiet(read);
  EXPECT_EQ(read.outcome(), Outcome::kCompleted) << read.status().message;
  EXPECT_EQ(read.status().transport, TransportType::kGds);
  EXPECT_TRUE(equal(on_device(), far_));

  const std::vector<std::byte> before = far_;
  poison(far_);
  const Task& write = submit(Opcode::kWrite, kBytes);
  until_quiet(write);
  EXPECT_EQ(write.status().transport, TransportType::kGds);
  EXPECT_TRUE(equal(far_, before));
  EXPECT_GT(tcp_->counts().pieces, 0U);
}

// The transport alone would never end it.
TEST_F(StagerTest, CancelReachesTheTransportBehind) {
  for (const Opcode opcode : {Opcode::kRead, Opcode::kWrite}) {
    tcp_->script(std::vector<Fate>(4, Fate{.steps = Fate::kNever}));
    Task& task = submit(opcode, 4 * 2048);
    until([&] { return tcp_->held().size() == 4; }, false);
    EXPECT_EQ(rig_->cancel(task), Code::kOk);
    until_quiet(task);
    EXPECT_EQ(task.outcome(), Outcome::kCancelled);
    EXPECT_EQ(tcp_->counts().completed, 0U);
  }
  EXPECT_TRUE(is_poisoned(on_device()));
}

TEST_F(StagerTest, ATimeOutLeavesTheMemoryLentUntilTheTransportIsThrough) {
  Fate fate{.steps = Fate::kNever};
  fate.after_cancel = 8;
  tcp_->script(std::vector<Fate>(4, fate));
  Task& task = submit(Opcode::kRead, 4 * 2048);
  until([&] { return tcp_->held().size() == 4; }, false);
  EXPECT_EQ(rig_->time_out(task), Code::kOk);
  EXPECT_EQ(task.outcome(), Outcome::kTimedOut);
  EXPECT_FALSE(task.status().quiescent);
  EXPECT_EQ(rig_->remove_memory(device(0, kBytes)), Code::kConflict);
  until_quiet(task);
  EXPECT_TRUE(is_poisoned(on_device()));  // the noise went into the buffers
  EXPECT_EQ(rig_->remove_memory(device(0, kBytes)), Code::kOk);
}

// Most have no buffer yet when they are cancelled.
TEST_F(StagerTest, CancelledOnesNeverReachTheTransport) {
  tcp_->script(std::vector<Fate>(4, Fate{.steps = Fate::kNever}));
  Task& first = submit(Opcode::kRead, 4 * 2048);
  until([&] { return tcp_->held().size() == 4; }, false);
  Task& waiting = submit(Opcode::kWrite, 8 * 2048);
  EXPECT_EQ(rig_->cancel(waiting), Code::kOk);
  until([&] { return waiting.status().quiescent; }, false);
  EXPECT_EQ(tcp_->counts().pieces, 4U);
  EXPECT_EQ(rig_->cancel(first), Code::kOk);
  until_quiet(first);
  for (Stager* const stager : stagers_) EXPECT_TRUE(stager->drain(within(kSoon)));
}

TEST_F(StagerTest, BrokenCopiesAreErrorsAndGoOnElsewhere) {
  platform::SimFaults broken;
  broken.error = 1;
  ASSERT_TRUE(sim_->set_faults(broken));
  const Task& task = submit(Opcode::kWrite, kBytes);
  until_quiet(task);
  EXPECT_EQ(task.outcome(), Outcome::kFailed);
  EXPECT_EQ(task.status().code, Code::kUnavailable);
  EXPECT_EQ(tcp_->counts().pieces + gds_->counts().pieces, 0U);
  ASSERT_TRUE(sim_->set_faults({}));
}

TEST_F(StagerTest, InheritsWhatThePieceIs) {
  TransferRequest request = request_of(Opcode::kRead, device(0, 2048), far_.data());
  request.intent = Intent::kForegroundPrefixFetch;
  request.trace_id = 77;
  request.deadline =
      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(within(3600 * env::kSecond)));
  tcp_->script(std::vector<Fate>(1, Fate{.steps = 2}));
  ASSERT_TRUE(rig_->submit(batch_, std::span(&request, 1)));
  until([&] { return tcp_->held().size() == 1; }, false);
  const Piece piece = tcp_->held()[0];
  EXPECT_EQ(piece.intent, request.intent);
  EXPECT_EQ(piece.traffic_class, TrafficClass::kHigh);
  EXPECT_EQ(piece.trace_id, 77U);
  EXPECT_EQ(piece.deadline, request.deadline.time_since_epoch().count());
  EXPECT_EQ(piece.local_type, MemoryType::kCpu);
  EXPECT_FALSE(piece.attended);
  until_quiet(batch_->task(0));
}

}  // namespace
}  // namespace larder::transfer
