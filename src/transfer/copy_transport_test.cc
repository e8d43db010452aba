// SPDX-License-Identifier: Apache-2.0
// What is special to copies; the rest is in tests/conformance.
#include "transfer/copy_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "transfer/transfer_testing.h"

namespace larder::transfer {
namespace {

// Pieces in the order in which they ended.
class OrderSink final : public PieceSink {
 public:
  void piece_done(PieceToken token, const Error* error) noexcept override {
    order.push_back(token.index);
    codes.push_back(error != nullptr ? error->code() : Code::kOk);
  }
  std::vector<std::uint32_t> order;
  std::vector<Code> codes;
};

class CopyTransportTest : public testing::Test {
 protected:
  const Piece* add(TrafficClass traffic_class, std::uint32_t number) {
    auto piece = std::make_unique<Piece>(piece_of(
        Opcode::kRead, std::span(local_).subspan(number * 16, 16), *segment_, 0, {number, 1}));
    piece->traffic_class = traffic_class;
    piece->near = target_.data() + number * 16;
    pieces_.push_back(std::move(piece));
    return pieces_.back().get();
  }
  void submit(const Piece* piece) { transport_.submit(std::span(&piece, 1)); }

  std::vector<std::byte> local_ = std::vector<std::byte>(4096);
  std::vector<std::byte> target_ = std::vector<std::byte>(4096);
  SegmentTable segments_;
  std::shared_ptr<const Segment> segment_ = segments_.find(kLocalSegment);
  std::vector<std::unique_ptr<Piece>> pieces_;
  OrderSink sink_;
  CopyTransport transport_{TransportType::kMemcpy, 0, sink_};
};

TEST_F(CopyTransportTest, HighGoesFirstAndLowStillGetsItsTurn) {
  for (std::uint32_t i = 0; i < 40; ++i) submit(add(TrafficClass::kLow, i));
  for (std::uint32_t i = 40; i < 120; ++i) submit(add(TrafficClass::kHigh, i));
  while (transport_.help()) {
  }
  ASSERT_EQ(sink_.order.size(), 120U);
  std::uint32_t high = 0;
  std::uint32_t low_before = 0;
  for (const std::uint32_t number : sink_.order) {
    if (high == 80) break;
    (number >= 40 ? high : low_before) += 1;
  }
  // One of eight, and none is moved up otherwise.
  EXPECT_GE(low_before, 80U / 8 - 1);
  EXPECT_LE(low_before, 80U / 7 + 1);
  // Within a class the first comes first.
  std::vector<std::uint32_t> highs;
  std::copy_if(sink_.order.begin(), sink_.order.end(), std::back_inserter(highs),
               [](std::uint32_t number) { return number >= 40; });
  EXPECT_TRUE(std::is_sorted(highs.begin(), highs.end()));
}

TEST_F(CopyTransportTest, CancelTakesOutWhatWaits) {
  const Piece* const first = add(TrafficClass::kLow, 0);
  const Piece* const second = add(TrafficClass::kHigh, 1);
  submit(first);
  submit(second);
  transport_.cancel(first->token);
  EXPECT_EQ(sink_.order, std::vector<std::uint32_t>{0});
  EXPECT_EQ(sink_.codes, std::vector<Code>{Code::kCancelled});
  EXPECT_TRUE(transport_.help());
  EXPECT_FALSE(transport_.help());
  EXPECT_EQ(sink_.codes.back(), Code::kOk);
  EXPECT_TRUE(transport_.drain(0));
}

TEST_F(CopyTransportTest, DrainSaysWhenThereIsSomethingLeft) {
  submit(add(TrafficClass::kLow, 0));
  EXPECT_FALSE(transport_.drain(0));
  transport_.help();
  EXPECT_TRUE(transport_.drain(0));
}

TEST_F(CopyTransportTest, CopiesOverlappingRanges) {
  std::vector<std::byte> memory(3U << 20U);
  for (const std::uint64_t shift : {1UL, 4096UL, 1UL << 20U}) {
    for (const Opcode opcode : {Opcode::kRead, Opcode::kWrite}) {
      fill_data(memory, shift);
      const std::uint64_t bytes = 2U << 20U;
      const std::vector<std::byte> before = memory;
      std::byte* const a = memory.data();
      std::byte* const b = memory.data() + shift;
      ASSERT_TRUE(CopyTransport::copy(opcode, a, b, nullptr, bytes));
      const std::uint64_t to = opcode == Opcode::kRead ? 0 : shift;
      const std::uint64_t from = opcode == Opcode::kRead ? shift : 0;
      EXPECT_TRUE(
          equal(std::span(memory).subspan(to, bytes), std::span(before).subspan(from, bytes)))
          << shift;
    }
  }
}

TEST_F(CopyTransportTest, MemoryThatIsNotHereIsUnavailable) {
  const auto copied =
      CopyTransport::copy(Opcode::kRead, local_.data(), nullptr, nullptr, local_.size());
  EXPECT_EQ(code_of(copied), Code::kUnavailable);
}

TEST_F(CopyTransportTest, MemcpyStaysInTheProcessAndShmOnTheMachine) {
  EXPECT_EQ(transport_.type(), TransportType::kMemcpy);
  EXPECT_TRUE(transport_.abilities().same_process_only);
  const CopyTransport shm(TransportType::kShm, 0, sink_);
  EXPECT_EQ(shm.type(), TransportType::kShm);
  EXPECT_FALSE(shm.abilities().same_process_only);
  EXPECT_TRUE(shm.abilities().same_machine_only);
}

// ---- through the submitter ----

TEST(CopiesAtOnce, SmallOnesAreDoneWhenSubmitReturns) {
  std::vector<std::byte> local(8U << 20U);
  std::vector<std::byte> target(8U << 20U);
  fill_data(target, 1);
  Rig rig;
  rig.add(std::make_unique<CopyTransport>(TransportType::kMemcpy, 0, rig.dispatcher));
  rig.open("policy: [{segment_type: memory, transports: [memcpy]}]");
  rig.add_memory(local);
  rig.add_memory(target);
  const BatchRef batch = rig.batch(64);
  int calls = 0;
  batch->subscribe([&](BatchId) { ++calls; });
  std::vector<TransferRequest> small;
  for (std::uint64_t i = 0; i < 8; ++i) {
    small.push_back(request_of(Opcode::kRead, std::span(local).subspan(i * 4096, 4096),
                               target.data() + i * 4096));
  }
  ASSERT_TRUE(rig.submit(batch, small));
  EXPECT_TRUE(batch->status().all_completed());
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(equal(std::span(local).first(8 * 4096), std::span(target).first(8 * 4096)));
  // A large one beside small ones: they do not wait for it.
  std::vector<TransferRequest> mixed = small;
  mixed.push_back(request_of(Opcode::kRead, std::span(local).subspan(1U << 20U, 6U << 20U),
                             target.data() + (1U << 20U)));
  ASSERT_TRUE(rig.submit(batch, mixed));
  EXPECT_EQ(batch->status().completed, 16U);
  EXPECT_EQ(batch->status().pending, 1U);
  EXPECT_EQ(rig.remove_memory(local), Code::kConflict);
  EXPECT_EQ(calls, 1);
  while (rig.dispatcher.transport(TransportType::kMemcpy)->help()) {
  }
  EXPECT_TRUE(batch->status().all_completed());
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(equal(std::span(local).subspan(1U << 20U, 6U << 20U),
                    std::span(target).subspan(1U << 20U, 6U << 20U)));
  EXPECT_EQ(rig.remove_memory(local), Code::kOk);
}

}  // namespace
}  // namespace larder::transfer
