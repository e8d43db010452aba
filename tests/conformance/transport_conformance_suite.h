// SPDX-License-Identifier: Apache-2.0
// What every transport must do. A test binary includes this and instantiates TransportConformance
// with one TransportUnderTest per transport.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "env/clock.h"
#include "env/thread.h"
#include "transfer/transfer_testing.h"

namespace larder::transfer {

// Keeps what was reported.
class RecordingSink final : public PieceSink {
 public:
  using Key = std::pair<std::uint32_t, std::uint32_t>;
  struct End {
    int times = 0;
    Code code = Code::kOk;
  };
  void piece_done(PieceToken token, const Error* error) noexcept override {
    const std::lock_guard lock(mutex_);
    End& end = ends_[{token.index, token.generation}];
    ++end.times;
    end.code = error != nullptr ? error->code() : Code::kOk;
  }
  std::size_t ended() const {
    const std::lock_guard lock(mutex_);
    return ends_.size();
  }
  End end_of(PieceToken token) const {
    const std::lock_guard lock(mutex_);
    const auto found = ends_.find({token.index, token.generation});
    return found != ends_.end() ? found->second : End{};
  }

 private:
  mutable std::mutex mutex_;
  std::map<Key, End> ends_;
};

// One transport and kTargetBytes that it can reach.
class TransportStage {
 public:
  static constexpr std::uint64_t kTargetBytes = 4U << 20U;

  virtual ~TransportStage() = default;
  virtual Transport& transport() = 0;
  // A piece between `local` and the target from byte `at` on.
  virtual Piece piece(Opcode opcode, std::span<std::byte> local, std::uint64_t at) = 0;
  virtual void set_target(std::span<const std::byte> bytes) = 0;
  virtual std::vector<std::byte> target() = 0;
  // A read that cannot succeed, and how it ends.
  virtual std::pair<Piece, Code> bad_piece(std::span<std::byte> local) = 0;
  // A moment of the threads that the transport does not have.
  virtual void drive() {}
};

struct TransportUnderTest {
  std::string name;  // letters and digits
  // Empty: not on this host.
  std::function<std::unique_ptr<TransportStage>(PieceSink&)> make;
};

class TransportConformance : public testing::TestWithParam<TransportUnderTest> {
 protected:
  static constexpr std::uint64_t kTargetBytes = TransportStage::kTargetBytes;

  void SetUp() override {
    stage_ = GetParam().make(sink_);
    if (stage_ == nullptr) GTEST_SKIP() << "not on this host";
    fill_data(data_, 11);
    stage_->set_target(data_);
    poison(local_);
  }
  Transport& transport() { return stage_->transport(); }
  std::span<std::byte> local(std::uint64_t at, std::uint64_t bytes) {
    return std::span(local_).subspan(at, bytes);
  }
  std::span<std::byte> data(std::uint64_t at, std::uint64_t bytes) {
    return std::span(data_).subspan(at, bytes);
  }
  // Each has a token of its own; it stays where it is.
  Piece& add(Opcode opcode, std::uint64_t at, std::uint64_t bytes) {
    return add(stage_->piece(opcode, local(at, bytes), at));
  }
  Piece& add(const Piece& piece) {
    const std::lock_guard lock(mutex_);
    const auto number = static_cast<std::uint32_t>(pieces_.size());
    pieces_.push_back(std::make_unique<Piece>(piece));
    pieces_.back()->token = {number, 2 * number + 1};
    return *pieces_.back();
  }
  std::vector<const Piece*> all() const {
    std::vector<const Piece*> list;
    for (const auto& piece : pieces_) list.push_back(piece.get());
    return list;
  }
  void submit_all() { transport().submit(all()); }
  void wait_all() {
    const env::Nanos end = within(kSoon);
    while (sink_.ended() < pieces_.size() && env::monotonic_now() < end) {
      stage_->drive();
      static_cast<void>(env::yield_core());
    }
    ASSERT_EQ(sink_.ended(), pieces_.size());
  }
  // Each has ended once, in one of these ways.
  void expect_ends(std::initializer_list<Code> codes) {
    EXPECT_EQ(sink_.ended(), pieces_.size());
    for (const auto& piece : pieces_) {
      const RecordingSink::End end = sink_.end_of(piece->token);
      EXPECT_EQ(end.times, 1) << piece->token.index;
      EXPECT_NE(std::find(codes.begin(), codes.end(), end.code), codes.end())
          << code_name(end.code);
    }
  }
  bool completed(const Piece& piece) const { return sink_.end_of(piece.token).code == Code::kOk; }

  RecordingSink sink_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::vector<std::byte> local_ = std::vector<std::byte>(kTargetBytes);
  std::vector<std::byte> data_ = std::vector<std::byte>(kTargetBytes);
  std::unique_ptr<TransportStage> stage_;
};

TEST_P(TransportConformance, SaysWhatItCanDo) {
  const TransportAbilities can = transport().abilities();
  EXPECT_FALSE(can.moves.empty());
  EXPECT_NE(transport().type(), TransportType::kUnspecified);
  EXPECT_EQ(can.alignment & (can.alignment - 1), 0U);
  EXPECT_GE(can.bytes_max, can.alignment);
}

TEST_P(TransportConformance, MovesBytesBothWays) {
  std::uint64_t at = 0;
  for (const std::uint64_t bytes : {4096UL, 1UL, 511UL, 4097UL, 70001UL, 1UL << 20U}) {
    add(Opcode::kRead, at, bytes);
    at += bytes;
  }
  const std::uint64_t reads = at;
  for (const std::uint64_t bytes : {4096UL, 3UL, 12345UL, 1UL << 20U}) {
    fill_data(local(at, bytes), at + 17);
    add(Opcode::kWrite, at, bytes);
    at += bytes;
  }
  submit_all();
  wait_all();
  expect_ends({Code::kOk});
  EXPECT_TRUE(equal(local(0, reads), data(0, reads)));
  EXPECT_TRUE(is_poisoned(local(at, kTargetBytes - at)));
  const std::vector<std::byte> target = stage_->target();
  EXPECT_TRUE(equal(std::span(target).first(reads), data(0, reads)));
  EXPECT_TRUE(equal(std::span(target).subspan(reads, at - reads), local(reads, at - reads)));
  EXPECT_TRUE(equal(std::span(target).subspan(at), data(at, kTargetBytes - at)));
}

TEST_P(TransportConformance, ManyAtOnceEndOnceEach) {
  for (std::uint64_t i = 0; i < 1000; ++i) {
    Piece& piece = add(Opcode::kRead, i * 4096, 4000);
    piece.traffic_class = i % 3 == 0 ? TrafficClass::kHigh : TrafficClass::kLow;
  }
  submit_all();
  wait_all();
  expect_ends({Code::kOk});
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(equal(local(i * 4096, 4000), data(i * 4096, 4000)));
    ASSERT_TRUE(is_poisoned(local(i * 4096 + 4000, 96)));
  }
}

TEST_P(TransportConformance, SeveralThreadsSubmit) {
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kEach = 60;
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        const Piece* const piece = &add(Opcode::kRead, (thread * kEach + i) * 8192, 8192);
        transport().submit(std::span(&piece, 1));
        if (i % 7 == 0) transport().cancel(piece->token);
        if (i % 5 == 0) static_cast<void>(transport().help());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  wait_all();
  expect_ends({Code::kOk, Code::kCancelled});
  for (const auto& piece : pieces_) {
    const auto at = static_cast<std::uint64_t>(piece->local - local_.data());
    if (completed(*piece)) {
      ASSERT_TRUE(equal(local(at, 8192), data(at, 8192)));
    }
  }
}

TEST_P(TransportConformance, CancelEndsThemSoonAndOnce) {
  for (std::uint64_t i = 0; i < 60; ++i) add(Opcode::kRead, i * 65536, 65536);
  submit_all();
  for (int turn = 0; turn < 2; ++turn) {
    for (const auto& piece : pieces_) transport().cancel(piece->token);
  }
  wait_all();
  for (const auto& piece : pieces_) transport().cancel(piece->token);  // is over
  transport().cancel({12345, 77});                                     // never was
  transport().cancel({0, 0});
  stage_->drive();
  expect_ends({Code::kOk, Code::kCancelled});
  // From its end on the memory is the caller's.
  for (const auto& piece : pieces_) {
    const auto at = static_cast<std::uint64_t>(piece->local - local_.data());
    if (completed(*piece)) {
      EXPECT_TRUE(equal(local(at, 65536), data(at, 65536)));
    }
  }
  poison(local_);
  EXPECT_TRUE(transport().drain(within(kSoon)));
  EXPECT_TRUE(is_poisoned(local_));
  expect_ends({Code::kOk, Code::kCancelled});
}

TEST_P(TransportConformance, DrainSaysThatAllHasEnded) {
  EXPECT_TRUE(transport().drain(within(kSoon)));  // nothing to end
  for (std::uint64_t i = 0; i < 64; ++i) add(Opcode::kRead, i * 65536, 65536);
  submit_all();
  while (transport().help()) {  // whose threads are the waiters'
  }
  EXPECT_TRUE(transport().drain(within(kSoon)));
  expect_ends({Code::kOk, Code::kCancelled});
}

TEST_P(TransportConformance, HelpSaysWhetherItMoved) {
  EXPECT_FALSE(transport().help());
  EXPECT_FALSE(transport().look());
  transport().rest();
  for (std::uint64_t i = 0; i < 32; ++i) add(Opcode::kRead, i * 65536, 65536);
  submit_all();
  wait_all();
  expect_ends({Code::kOk});
  EXPECT_FALSE(transport().help());
}

TEST_P(TransportConformance, ABadPieceFailsAlone) {
  add(Opcode::kRead, 0, 4096);
  const auto [bad, code] = stage_->bad_piece(local(8192, 4096));
  Piece& failing = add(bad);
  add(Opcode::kRead, 4096, 4096);
  submit_all();
  wait_all();
  expect_ends({Code::kOk, code});
  EXPECT_EQ(sink_.end_of(failing.token).code, code);
  EXPECT_TRUE(completed(*pieces_[0]));
  EXPECT_TRUE(completed(*pieces_[2]));
  EXPECT_TRUE(equal(local(0, 8192), data(0, 8192)));
  EXPECT_TRUE(is_poisoned(local(12288, 4096)));
}

}  // namespace larder::transfer
