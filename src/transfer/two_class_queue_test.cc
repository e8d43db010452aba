// SPDX-License-Identifier: Apache-2.0
#include "transfer/two_class_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace larder::transfer {
namespace {

class TwoClassQueueTest : public testing::Test {
 protected:
  void push(TrafficClass traffic_class, std::uint32_t number) {
    Piece& piece = pieces_.emplace_back();
    piece.traffic_class = traffic_class;
    piece.token = {number, 1};
    queue_.push(&piece);
  }
  std::vector<std::uint32_t> take_all() {
    std::vector<std::uint32_t> order;
    while (const Piece* const piece = queue_.take()) order.push_back(piece->token.index);
    return order;
  }

  std::deque<Piece> pieces_;
  TwoClassQueue queue_;
};

TEST_F(TwoClassQueueTest, EveryEighthTurnIsLows) {
  for (std::uint32_t i = 0; i < 3; ++i) push(TrafficClass::kLow, i);
  for (std::uint32_t i = 100; i < 120; ++i) push(TrafficClass::kHigh, i);
  EXPECT_EQ(queue_.size(), 23U);
  const std::vector<std::uint32_t> expected = {100, 101, 102, 103, 104, 105, 106, 0,
                                               107, 108, 109, 110, 111, 112, 113, 1,
                                               114, 115, 116, 117, 118, 119, 2};
  EXPECT_EQ(take_all(), expected);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(TwoClassQueueTest, OneClassAloneKeepsItsOrder) {
  for (const TrafficClass traffic_class : {TrafficClass::kLow, TrafficClass::kHigh}) {
    std::vector<std::uint32_t> expected;
    for (std::uint32_t i = 0; i < 20; ++i) {
      push(traffic_class, i);
      expected.push_back(i);
    }
    EXPECT_EQ(take_all(), expected);
  }
}

TEST_F(TwoClassQueueTest, LooksWhileItIsEmptyAreNoTurns) {
  for (int i = 0; i < 7; ++i) EXPECT_EQ(queue_.take(), nullptr);
  push(TrafficClass::kLow, 1);
  push(TrafficClass::kHigh, 2);
  EXPECT_EQ(take_all(), (std::vector<std::uint32_t>{2, 1}));
}

TEST_F(TwoClassQueueTest, RemovesOneOutOfTurn) {
  push(TrafficClass::kLow, 1);
  push(TrafficClass::kHigh, 2);
  push(TrafficClass::kHigh, 3);
  EXPECT_EQ(queue_.remove({4, 1}), nullptr);
  EXPECT_EQ(queue_.remove({2, 2}), nullptr) << "of another generation";
  EXPECT_EQ(queue_.remove({2, 1}), &pieces_[1]);
  EXPECT_EQ(queue_.remove({1, 1}), &pieces_[0]);
  EXPECT_EQ(queue_.size(), 1U);
  EXPECT_EQ(take_all(), std::vector<std::uint32_t>{3});
}

}  // namespace
}  // namespace larder::transfer
