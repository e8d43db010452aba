// SPDX-License-Identifier: Apache-2.0
// Who copies when several threads could.
#include <gtest/gtest.h>

#include <chrono>
#include <semaphore>
#include <thread>

#include "env/thread.h"
#include "transfer/copy_transport.h"
#include "transfer/transfer_testing.h"

namespace larder::transfer {
namespace {

constexpr std::uint32_t kHeld = 100;  // pieces from this number on are held as they end

class HoldingSink final : public PieceSink {
 public:
  void piece_done(PieceToken token, const Error*) noexcept override {
    if (token.index >= kHeld) {
      held.release();
      (token.index == kHeld ? first : second).acquire();
    } else {
      done.release();
    }
  }
  std::counting_semaphore<> held{0};
  std::binary_semaphore first{0};
  std::binary_semaphore second{0};
  std::counting_semaphore<> done{0};
};

class CopyThreads : public testing::Test {
 protected:
  void submit(CopyTransport& transport, std::uint32_t number) {
    auto piece =
        std::make_unique<Piece>(piece_of(Opcode::kRead, local_, *segment_, 0, {number, 1}));
    piece->near = target_.data();
    pieces_.push_back(std::move(piece));
    const Piece* const one = pieces_.back().get();
    transport.submit(std::span(&one, 1));
  }
  bool copied() { return sink_.done.try_acquire_for(std::chrono::nanoseconds(kSoon)); }

  std::vector<std::byte> local_ = std::vector<std::byte>(64);
  std::vector<std::byte> target_ = std::vector<std::byte>(64);
  SegmentTable segments_;
  std::shared_ptr<const Segment> segment_ = segments_.find(kLocalSegment);
  std::vector<std::unique_ptr<Piece>> pieces_;
  HoldingSink sink_;
};

TEST_F(CopyThreads, WhatComesWhileTheWaiterSleepsIsCopiedWithoutWorkers) {
  CopyTransport transport(TransportType::kMemcpy, 0, sink_);
  EXPECT_FALSE(transport.help());
  transport.rest();
  for (std::uint32_t i = 0; i < 3; ++i) {
    submit(transport, i);
    ASSERT_TRUE(copied());
  }
  transport.rest();
}

// One waits for the end of all, and does not take the wake-up that was for the worker.
TEST_F(CopyThreads, WhoDrainsKeepsNoWorkerAsleep) {
  CopyTransport transport(TransportType::kMemcpy, 1, sink_);
  submit(transport, kHeld);
  sink_.held.acquire();  // the worker has it, and stays with it
  submit(transport, kHeld + 1);
  std::thread helper([&] { EXPECT_TRUE(transport.help()); });
  sink_.held.acquire();
  std::thread drainer([&] { EXPECT_TRUE(transport.drain(within(kSoon))); });
  // The worker goes to sleep after the drainer, most likely, and comes after it in the queue.
  for (int i = 0; i < 200; ++i) env::yield_core();
  sink_.first.release();
  for (int i = 0; i < 200; ++i) env::yield_core();
  submit(transport, 0);
  EXPECT_TRUE(copied());
  sink_.second.release();
  helper.join();
  drainer.join();
}

}  // namespace
}  // namespace larder::transfer
