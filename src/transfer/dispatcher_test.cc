// SPDX-License-Identifier: Apache-2.0
// What becomes of jobs: slices, the window, failover, splits, giving up, the quarantine.
#include "transfer/dispatcher.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "env/thread.h"
#include "transfer/transfer_testing.h"

namespace larder::transfer {
namespace {

constexpr std::uint64_t kKiB = 1024;

class DispatcherTest : public testing::Test {
 protected:
  void SetUp() override {
    fill_data(target_, 5);
    tcp_ = &rig_.add({.type = TransportType::kTcp});
    gds_ = &rig_.add({.type = TransportType::kGds});
    nds_ = &rig_.add({.type = TransportType::kNds});
    rig_.open();
    rig_.add_memory(local_);
    rig_.add_memory(target_);
    batch_ = rig_.batch(256);
  }
  TransferRequest read(std::uint64_t at, std::uint64_t bytes) {
    return request_of(Opcode::kRead, std::span(local_).subspan(at, bytes), target_.data() + at);
  }
  // The number of the first task.
  std::uint32_t submit(std::vector<TransferRequest> requests) {
    const auto results = rig_.submit(batch_, requests);
    EXPECT_TRUE(results);
    for (const SubmitResult& result : *results) EXPECT_EQ(result.code, Code::kOk) << result.message;
    return results->front().task;
  }
  TaskStatus status(std::uint32_t task) { return batch_->task(task).status(); }
  bool arrived(std::uint64_t at, std::uint64_t bytes) {
    return equal(std::span(local_).subspan(at, bytes), std::span(target_).subspan(at, bytes));
  }
  static void script(FaultTransport& transport, std::vector<Fate> fates) {
    transport.script(fates);
  }
  static std::vector<Fate> times(std::size_t count, const Fate& fate) {
    return std::vector<Fate>(count, fate);
  }

  std::vector<std::byte> local_ = std::vector<std::byte>(256 * kKiB);
  std::vector<std::byte> target_ = std::vector<std::byte>(256 * kKiB);
  Rig rig_;
  FaultTransport* tcp_ = nullptr;
  FaultTransport* gds_ = nullptr;
  FaultTransport* nds_ = nullptr;
  BatchRef batch_;
};

// ---- slices ----

TEST_F(DispatcherTest, KeepsAWindowOfPieces) {
  const std::uint32_t task = submit({read(0, 64 * kKiB)});
  std::uint64_t steps = 0;
  std::uint64_t bytes = 0;
  while (!batch_->idle()) {
    const std::vector<Piece> held = tcp_->held();
    ASSERT_LE(held.size(), Job::kWindow);
    ASSERT_GT(held.size(), 0U);
    // Another takes the place of each that ends.
    if (status(task).bytes + held.size() * 2048 < 64 * kKiB) {
      ASSERT_EQ(held.size(), Job::kWindow);
    }
    EXPECT_EQ(status(task).bytes, bytes);
    bytes += held.size() * 2048;
    tcp_->step();
    ++steps;
  }
  EXPECT_EQ(steps, 4U);
  EXPECT_EQ(status(task).outcome, Outcome::kCompleted);
  EXPECT_EQ(batch_->task(task).record.pieces.load(), 32U);
  EXPECT_TRUE(arrived(0, 64 * kKiB));
}

TEST_F(DispatcherTest, SlicesRespectTheClass) {
  TransferRequest high = read(0, 40 * kKiB);
  high.traffic_class = TrafficClass::kHigh;
  TransferRequest low = read(64 * kKiB, 40 * kKiB);
  low.traffic_class = TrafficClass::kLow;
  submit({high, low});
  std::uint64_t high_max = 0;
  std::uint64_t low_max = 0;
  while (!batch_->idle()) {
    for (const Piece& piece : tcp_->held()) {
      auto& most = piece.traffic_class == TrafficClass::kHigh ? high_max : low_max;
      most = std::max(most, piece.bytes);
    }
    tcp_->step();
  }
  EXPECT_EQ(high_max, kSmallSlices.high_slice_max);
  EXPECT_EQ(low_max, kSmallSlices.low_slice_max);
}

TEST_F(DispatcherTest, PiecesCarryWhatTheRequestSays) {
  TransferRequest request = read(512, 1000);
  request.intent = Intent::kForegroundHandoff;
  request.trace_id = 77;
  request.deadline = std::chrono::steady_clock::time_point(
      std::chrono::nanoseconds(env::monotonic_now() + 3600 * env::kSecond));
  submit({request});
  ASSERT_EQ(tcp_->held().size(), 1U);
  const Piece piece = tcp_->held()[0];
  EXPECT_EQ(piece.opcode, Opcode::kRead);
  EXPECT_EQ(piece.traffic_class, TrafficClass::kHigh);
  EXPECT_EQ(piece.intent, Intent::kForegroundHandoff);
  EXPECT_EQ(piece.local, local_.data() + 512);
  EXPECT_EQ(piece.target_offset, reinterpret_cast<std::uintptr_t>(target_.data() + 512));
  EXPECT_EQ(piece.bytes, 1000U);
  EXPECT_EQ(piece.trace_id, 77U);
  EXPECT_EQ(piece.deadline, request.deadline.time_since_epoch().count());
  EXPECT_EQ(piece.target->id, kLocalSegment);
  rig_.settle();
}

// A transport may end pieces before submit() returns; a long request must not need a deep stack.
TEST(DispatcherDepth, PiecesThatEndAtOnceDoNotNest) {
  constexpr std::uint64_t kBytes = 200'000 * 16;
  std::vector<std::byte> local(kBytes);
  std::vector<std::byte> target(kBytes);
  fill_data(target, 6);
  Rig rig({.jobs_max = 8, .slices = {16, 16}});
  rig.add({.type = TransportType::kTcp, .at_once = 1});
  rig.open("policy: [{segment_type: memory, transports: [tcp]}]");
  rig.add_memory(local);
  rig.add_memory(target);
  const BatchRef batch = rig.batch(1);
  const TransferRequest request = request_of(Opcode::kRead, local, target.data());
  ASSERT_TRUE(rig.submit(batch, std::span(&request, 1)));
  EXPECT_TRUE(batch->status().all_completed());
  EXPECT_EQ(batch->task(0).record.pieces.load(), 200'000U);
  EXPECT_TRUE(equal(local, target));
}

// ---- failover ----

TEST_F(DispatcherTest, GoesOnWithTheNextTransportThatWasNotTried) {
  for (const Code code : {Code::kUnavailable, Code::kExhausted, Code::kUnsupported, Code::kInternal,
                          Code::kCorrupt, Code::kVersionMismatch}) {
    SCOPED_TRACE(code_name(code));
    poison(local_);
    script(*tcp_, {{.part = 0.5, .code = code}});
    script(*gds_, {{.code = code}});
    const std::uint32_t task = submit({read(0, 1000)});
    EXPECT_EQ(status(task).transport, TransportType::kTcp);
    tcp_->step();
    EXPECT_EQ(status(task).transport, TransportType::kGds);
    EXPECT_EQ(status(task).outcome, Outcome::kPending);
    gds_->step();
    EXPECT_EQ(status(task).transport, TransportType::kNds);
    nds_->step();
    EXPECT_EQ(status(task).outcome, Outcome::kCompleted);
    EXPECT_EQ(batch_->task(task).record.attempts.load(), 3U);
    EXPECT_TRUE(arrived(0, 1000));
    rig_.breakers.forget(kLocalSegment);
  }
}

TEST_F(DispatcherTest, EndsWithTheLastErrorWhenAllWereTried) {
  for (FaultTransport* const fault : rig_.faults) {
    script(*fault, {{.at_once = true, .part = 0, .code = Code::kUnavailable}});
  }
  script(*nds_, {{.code = Code::kExhausted}});
  const std::uint32_t task = submit({read(0, 1000)});
  EXPECT_EQ(status(task).outcome, Outcome::kFailed);
  EXPECT_EQ(status(task).code, Code::kUnavailable);
  EXPECT_TRUE(status(task).quiescent);
  EXPECT_FALSE(status(task).message.empty());
  EXPECT_TRUE(batch_->idle());
}

TEST_F(DispatcherTest, ARequestThatIsWrongIsNotTriedAgain) {
  for (const Code code :
       {Code::kInvalidArgument, Code::kPermissionDenied, Code::kNotFound, Code::kConflict,
        Code::kTooLarge, Code::kCancelled, Code::kAlreadyExists}) {
    script(*tcp_, {{.code = code}});
    const std::uint32_t task = submit({read(0, 1000)});
    tcp_->step();
    EXPECT_EQ(status(task).outcome, Outcome::kFailed) << code_name(code);
    EXPECT_EQ(status(task).code, code);
    EXPECT_TRUE(status(task).quiescent);
  }
  EXPECT_EQ(gds_->counts().pieces, 0U);
  EXPECT_EQ(rig_.breakers.open(), 0U);  // and the transport is not to blame
}

TEST_F(DispatcherTest, NothingFurtherStartsAfterAnErrorAndAllEndsFirst) {
  script(*tcp_, {{.code = Code::kUnavailable}, {.steps = 3}});
  const std::uint32_t task = submit({read(0, 64 * kKiB)});
  tcp_->step();
  EXPECT_EQ(tcp_->held().size(), 1U);
  EXPECT_EQ(gds_->held().size(), 0U);  // the memory is not theirs before
  tcp_->step();
  EXPECT_EQ(gds_->held().size(), 0U);
  tcp_->step();
  EXPECT_EQ(gds_->held().size(), Job::kWindow);  // from the begin
  rig_.settle();
  EXPECT_EQ(status(task).outcome, Outcome::kCompleted);
  EXPECT_EQ(status(task).bytes, 64 * kKiB);
  EXPECT_TRUE(arrived(0, 64 * kKiB));
}

TEST_F(DispatcherTest, AHintAllowsNoOther) {
  script(*gds_, {{.code = Code::kUnavailable}});
  TransferRequest request = read(0, 1000);
  request.transport_hint = TransportType::kGds;
  const std::uint32_t task = submit({request});
  rig_.settle();
  EXPECT_EQ(status(task).outcome, Outcome::kFailed);
  EXPECT_EQ(status(task).transport, TransportType::kGds);
  EXPECT_EQ(tcp_->counts().pieces + nds_->counts().pieces, 0U);
}

TEST_F(DispatcherTest, BreakersTurnNewRequestsAway) {
  script(*tcp_, times(Breakers::kFailuresMax, {.code = Code::kUnavailable}));
  for (int i = 0; i < Breakers::kFailuresMax; ++i) {
    submit({read(0, 100)});
    rig_.settle();
  }
  const std::uint32_t task = submit({read(0, 100)});
  EXPECT_EQ(status(task).transport, TransportType::kGds);
  rig_.settle();
  EXPECT_EQ(batch_->status().completed, Breakers::kFailuresMax + 1U);
}

TEST_F(DispatcherTest, ATransportThatGivesUpWaitingIsNotFollowedByAnotherButBlamed) {
  script(*tcp_, {{.code = Code::kDeadlineExceeded}});
  const std::uint32_t task = submit({read(0, 1000)});
  rig_.settle();
  EXPECT_EQ(status(task).code, Code::kDeadlineExceeded);
  EXPECT_EQ(gds_->counts().pieces, 0U);
  EXPECT_EQ(rig_.breakers.open(), 1U);
}

TEST_F(DispatcherTest, TimeOutsOpenABreakerToo) {
  script(*tcp_, times(Breakers::kFailuresMax, {.steps = Fate::kNever}));
  for (int i = 0; i < Breakers::kFailuresMax; ++i) {
    const std::uint32_t task = submit({read(0, 100)});
    EXPECT_EQ(rig_.time_out(batch_->task(task)), Code::kOk);
    rig_.settle();
    EXPECT_TRUE(status(task).quiescent);
  }
  const std::uint32_t task = submit({read(0, 100)});
  EXPECT_EQ(status(task).transport, TransportType::kGds);
  rig_.settle();
}

TEST_F(DispatcherTest, ATransportBehindABreakerIsTheLastResort) {
  for (int i = 0; i < Breakers::kFailuresMax; ++i) {
    rig_.breakers.failed(kLocalSegment, TransportType::kGds, env::monotonic_now());
    rig_.breakers.failed(kLocalSegment, TransportType::kNds, within(3600 * env::kSecond));
  }
  script(*tcp_, {{.code = Code::kUnavailable}});
  script(*gds_, {{.code = Code::kUnavailable}});
  const std::uint32_t task = submit({read(0, 100)});
  rig_.settle();
  EXPECT_EQ(status(task).outcome, Outcome::kCompleted) << status(task).message;
  EXPECT_EQ(status(task).transport, TransportType::kNds);
  EXPECT_EQ(tcp_->counts().pieces, 1U);
  EXPECT_EQ(gds_->counts().pieces, 1U);
}

// ---- merged requests ----

TEST_F(DispatcherTest, NeighboursTravelTogether) {
  const std::uint32_t first = submit({read(0, 500), read(500, 500), read(1000, 24)});
  EXPECT_EQ(tcp_->held().size(), 1U);
  rig_.settle();
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(status(first + i).outcome, Outcome::kCompleted);
    EXPECT_EQ(batch_->task(first + i).record.merged.load(), 3U);
  }
  EXPECT_EQ(status(first + 2).bytes, 24U);
  EXPECT_TRUE(arrived(0, 1024));
}

TEST_F(DispatcherTest, OfMergedOnesOnlyTheBadOneFails) {
  script(*tcp_, {{.code = Code::kInvalidArgument}, {}, {.code = Code::kInvalidArgument}, {}});
  const std::uint32_t first = submit({read(0, 500), read(500, 500), read(1000, 24)});
  rig_.settle();
  EXPECT_EQ(status(first).outcome, Outcome::kCompleted);
  EXPECT_EQ(status(first + 1).outcome, Outcome::kFailed);
  EXPECT_EQ(status(first + 1).code, Code::kInvalidArgument);
  EXPECT_EQ(status(first + 2).outcome, Outcome::kCompleted);
  EXPECT_TRUE(arrived(0, 500));
  EXPECT_TRUE(arrived(1000, 24));
  EXPECT_EQ(rig_.dispatcher.jobs(), 0U);
}

TEST_F(DispatcherTest, ACancelledOneOfMergedOnesStaysLentWithTheOthers) {
  script(*tcp_, {{.steps = 2}});
  const std::uint32_t first = submit({read(0, 500), read(500, 500), read(1000, 24)});
  EXPECT_EQ(rig_.cancel(batch_->task(first + 1)), Code::kOk);
  EXPECT_EQ(status(first + 1).outcome, Outcome::kCancelled);
  EXPECT_FALSE(status(first + 1).quiescent);
  EXPECT_EQ(rig_.dispatcher.quarantined_bytes(), 500U);
  EXPECT_EQ(tcp_->counts().cancelled, 0U);  // the others want it
  rig_.settle();
  EXPECT_EQ(status(first).outcome, Outcome::kCompleted);
  EXPECT_EQ(status(first + 1).outcome, Outcome::kCancelled);
  EXPECT_TRUE(status(first + 1).quiescent);
  EXPECT_EQ(rig_.dispatcher.quarantined_bytes(), 0U);
  EXPECT_EQ(batch_->status().completed, 2U);
}

TEST_F(DispatcherTest, ACancelledOneOfMergedOnesDoesNotGoAgain) {
  script(*tcp_, {{.code = Code::kInvalidArgument}, {.steps = 2}, {.steps = 2}});
  const std::uint32_t first = submit({read(0, 500), read(500, 500), read(1000, 24)});
  EXPECT_EQ(rig_.cancel(batch_->task(first + 1)), Code::kOk);
  tcp_->step();
  // Two of them start again, each by itself; the memory of the third is its owner's.
  EXPECT_EQ(tcp_->held().size(), 2U);
  EXPECT_TRUE(status(first + 1).quiescent);
  EXPECT_EQ(status(first + 1).outcome, Outcome::kCancelled);
  EXPECT_EQ(rig_.dispatcher.quarantined_bytes(), 0U);
  rig_.settle();
  EXPECT_EQ(batch_->status().completed, 2U);
  EXPECT_TRUE(batch_->idle());
}

TEST_F(DispatcherTest, TheLastOfMergedOnesToBeCancelledStopsIt) {
  script(*tcp_, {{.steps = Fate::kNever}});
  const std::uint32_t first = submit({read(0, 500), read(500, 500)});
  rig_.cancel(batch_->task(first));
  EXPECT_EQ(tcp_->step(), 0U);
  rig_.cancel(batch_->task(first + 1));
  EXPECT_EQ(tcp_->step(), 1U);
  EXPECT_TRUE(batch_->idle());
}

// ---- giving up ----

TEST_F(DispatcherTest, GivenUpMemoryStaysLentUntilTheTransportIsThrough) {
  script(*tcp_, times(8, {.steps = Fate::kNever, .after_cancel = 3}));
  const std::uint32_t task = submit({read(0, 64 * kKiB)});
  EXPECT_EQ(rig_.time_out(batch_->task(task)), Code::kOk);
  EXPECT_EQ(status(task).outcome, Outcome::kTimedOut);
  EXPECT_EQ(status(task).code, Code::kDeadlineExceeded);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(status(task).quiescent);
    EXPECT_EQ(rig_.dispatcher.quarantined_bytes(), 64 * kKiB);
    EXPECT_EQ(rig_.remove_memory(local_), Code::kConflict);
    EXPECT_EQ(batch_->status().pending, 0U);
    EXPECT_EQ(batch_->status().unquiet, 1U);
    tcp_->step();
  }
  tcp_->step();
  EXPECT_TRUE(status(task).quiescent);
  EXPECT_EQ(rig_.dispatcher.quarantined_bytes(), 0U);
  EXPECT_EQ(rig_.remove_memory(local_), Code::kOk);
  EXPECT_EQ(status(task).outcome, Outcome::kTimedOut);
}

TEST_F(DispatcherTest, TheFirstOutcomeStays) {
  script(*tcp_, {{.steps = Fate::kNever, .after_cancel = 2, .completes_cancelled = true}});
  const std::uint32_t task = submit({read(0, 100)});
  EXPECT_EQ(rig_.cancel(batch_->task(task)), Code::kOk);
  EXPECT_EQ(rig_.cancel(batch_->task(task)), Code::kNotFound);
  EXPECT_EQ(rig_.time_out(batch_->task(task)), Code::kNotFound);
  rig_.settle();
  EXPECT_EQ(status(task).outcome, Outcome::kCancelled);  // though all bytes came
  EXPECT_EQ(batch_->status().completed, 0U);
  EXPECT_EQ(rig_.cancel(batch_->task(task)), Code::kNotFound);
  const std::uint32_t done = submit({read(0, 100)});
  rig_.settle();
  EXPECT_EQ(rig_.cancel(batch_->task(done)), Code::kNotFound);
  EXPECT_EQ(status(done).outcome, Outcome::kCompleted);
}

TEST_F(DispatcherTest, GivingUpTwiceAnnouncesIdlenessOnce) {
  int calls = 0;
  batch_->subscribe([&](BatchId) { ++calls; });
  script(*tcp_, {{.steps = Fate::kNever, .after_cancel = 5, .ends_in_cancel = true}});
  const std::uint32_t task = submit({read(0, 100)});
  rig_.cancel(batch_->task(task));
  EXPECT_EQ(calls, 0);
  rig_.cancel(batch_->task(task));  // has nothing to decide, and the piece ends within it
  EXPECT_EQ(calls, 1);
  rig_.settle();
  rig_.cancel(batch_->task(task));
  EXPECT_EQ(calls, 1);
}

TEST_F(DispatcherTest, AGivenUpJobFailsOverToNobody) {
  script(*tcp_, {{.steps = 2, .code = Code::kUnavailable}});
  const std::uint32_t task = submit({read(0, 100)});
  rig_.cancel(batch_->task(task));
  rig_.settle();
  EXPECT_EQ(gds_->counts().pieces, 0U);
  EXPECT_EQ(rig_.breakers.open(), 0U);
  EXPECT_TRUE(batch_->idle());
}

TEST_F(DispatcherTest, TooMuchQuarantineIsPushedBack) {
  Rig rig({.jobs_max = 64, .slices = kSmallSlices}, 1000);
  FaultTransport& tcp = rig.add({.type = TransportType::kTcp});
  rig.open("policy: [{segment_type: memory, transports: [tcp]}]");
  rig.add_memory(local_);
  rig.add_memory(target_);
  const BatchRef batch = rig.batch(8);
  script(tcp, times(2, {.steps = Fate::kNever, .after_cancel = 5}));
  const TransferRequest one = read(0, 700);
  const TransferRequest two = read(4096, 700);
  ASSERT_TRUE(rig.submit(batch, std::span(&one, 1)));
  ASSERT_TRUE(rig.submit(batch, std::span(&two, 1)));
  rig.cancel(batch->task(0));
  EXPECT_EQ(code_of(rig.submit(batch, {})), Code::kOk);
  rig.cancel(batch->task(1));
  EXPECT_EQ(code_of(rig.submit(batch, std::span(&one, 1))), Code::kBackpressure);
  rig.settle();
  EXPECT_EQ(code_of(rig.submit(batch, std::span(&one, 1))), Code::kOk);
  rig.settle();
}

TEST_F(DispatcherTest, TooManyJobsArePushedBackOneByOne) {
  Rig rig({.jobs_max = 2, .slices = kSmallSlices});
  rig.add({.type = TransportType::kTcp});
  rig.open("policy: [{segment_type: memory, transports: [tcp]}]");
  rig.add_memory(local_);
  rig.add_memory(target_);
  const BatchRef batch = rig.batch(8);
  int calls = 0;
  batch->subscribe([&](BatchId) { ++calls; });
  const std::vector<TransferRequest> apart = {read(0, 100), read(200, 100), read(400, 100)};
  ASSERT_TRUE(rig.submit(batch, apart));
  EXPECT_EQ(batch->task(2).outcome(), Outcome::kFailed);
  EXPECT_EQ(batch->task(2).status().code, Code::kBackpressure);
  EXPECT_TRUE(batch->task(2).quiescent());
  EXPECT_EQ(calls, 0);
  rig.settle();
  EXPECT_EQ(batch->status().completed, 2U);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(rig.remove_memory(local_), Code::kOk);
}

// ---- ends that are none ----

TEST_F(DispatcherTest, StrayEndsAreCountedAndHarmNothing) {
  script(*tcp_, {{.extra_ends = 2, .foreign_ends = 3}});
  const std::uint32_t first = submit({read(0, 100)});
  tcp_->step();
  EXPECT_EQ(rig_.dispatcher.stray_ends(), 5U);
  EXPECT_EQ(status(first).outcome, Outcome::kCompleted);
  script(*tcp_, {{.stale_ends = 4}, {.steps = 5}});
  const std::uint32_t second = submit({read(0, 100), read(4096, 100)});
  tcp_->step();
  EXPECT_EQ(rig_.dispatcher.stray_ends(), 9U);
  EXPECT_EQ(status(second).outcome, Outcome::kCompleted);
  EXPECT_EQ(status(second + 1).outcome, Outcome::kPending);
  const PieceToken live = tcp_->held()[0].token;
  rig_.dispatcher.piece_done({live.index, live.generation + 1}, nullptr);
  rig_.dispatcher.piece_done({live.index, live.generation - 1}, nullptr);
  rig_.dispatcher.piece_done({live.index, live.generation + 2}, nullptr);
  rig_.dispatcher.piece_done({live.index + 1, live.generation}, nullptr);
  rig_.dispatcher.piece_done({0xffffffff, 1}, nullptr);
  rig_.dispatcher.piece_done({0, 0}, nullptr);
  EXPECT_EQ(rig_.dispatcher.stray_ends(), 15U);
  EXPECT_EQ(status(second + 1).outcome, Outcome::kPending);
  rig_.settle();
  EXPECT_TRUE(batch_->idle());
}

TEST_F(DispatcherTest, BytesOfCancelledOnesDoNotCountAsCompleted) {
  const std::uint32_t task = submit({read(0, 1000), read(1000, 24)});
  EXPECT_EQ(rig_.cancel(batch_->task(task)), Code::kOk);
  rig_.settle();
  EXPECT_EQ(batch_->status().completed, 1U);
  const std::string text = rig_.telemetry.registry().text();
  const std::size_t at = text.find("\nlarder_transfer_bytes_total{");
  ASSERT_NE(at, std::string::npos);
  const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  EXPECT_TRUE(line.ends_with(" 24")) << line;
}

// ---- time ----

TEST_F(DispatcherTest, DeadlinesPass) {
  script(*tcp_, times(2, {.steps = Fate::kNever}));
  TransferRequest request = read(0, 100);
  request.deadline = std::chrono::steady_clock::time_point(
      std::chrono::nanoseconds(env::monotonic_now() + 2 * env::kMilli));
  std::vector<TransferRequest> requests = {request, read(4096, 100)};
  const std::uint32_t task = submit(requests);
  // The task that has a deadline gets its outcome by itself; FaultTransport ends with a step.
  const env::Nanos give_up_at = within(kSoon);
  while (batch_->task(task).outcome() == Outcome::kPending && env::monotonic_now() < give_up_at) {
    static_cast<void>(env::yield_core());
  }
  EXPECT_EQ(status(task).outcome, Outcome::kTimedOut);
  EXPECT_EQ(status(task).code, Code::kDeadlineExceeded);
  EXPECT_EQ(status(task + 1).outcome, Outcome::kPending);
  // The cancel comes right after the outcome, from the timer's thread.
  while (!status(task).quiescent && env::monotonic_now() < give_up_at) tcp_->step();
  EXPECT_TRUE(status(task).quiescent);
  rig_.cancel(batch_->task(task + 1));
  rig_.settle();
  EXPECT_TRUE(batch_->wait_idle(within(kSoon)));
}

TEST_F(DispatcherTest, ADeadlineThatHasPassedIsRefused) {
  TransferRequest request = read(0, 100);
  request.deadline = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(1));
  const auto results = rig_.submit(batch_, std::span(&request, 1));
  ASSERT_TRUE(results);
  EXPECT_EQ(results->front().code, Code::kDeadlineExceeded);
}

TEST_F(DispatcherTest, DrainCancelsAndSaysWhetherAllIsQuiet) {
  script(*tcp_, {{.steps = Fate::kNever, .after_cancel = 1}, {.steps = Fate::kNever}});
  const std::uint32_t first = submit({read(0, 100), read(4096, 100)});
  rig_.dispatcher.cancel_all();
  EXPECT_FALSE(rig_.dispatcher.drain(0));
  EXPECT_EQ(status(first).outcome, Outcome::kCancelled);
  EXPECT_EQ(status(first + 1).outcome, Outcome::kCancelled);
  EXPECT_EQ(rig_.dispatcher.quarantined_bytes(), 200U);
  tcp_->step();
  EXPECT_FALSE(rig_.dispatcher.drain(0));
  tcp_->step();
  EXPECT_TRUE(rig_.dispatcher.drain(0));
  EXPECT_TRUE(batch_->idle());
  EXPECT_EQ(rig_.dispatcher.quarantined_bytes(), 0U);
}

TEST_F(DispatcherTest, ADrainLeavesTimeForTheTransports) {
  script(*tcp_, {{.steps = Fate::kNever, .after_cancel = 1U << 20}});
  submit({read(0, 100)});
  rig_.dispatcher.cancel_all();
  EXPECT_FALSE(rig_.dispatcher.drain(within(env::kMilli)));
  EXPECT_TRUE(rig_.dispatcher.drain_all(within(100 * env::kMilli)));  // only its drain() ends that
  EXPECT_TRUE(batch_->idle());
}

}  // namespace
}  // namespace larder::transfer
