// SPDX-License-Identifier: Apache-2.0
// A transfer engine whose peer is killed in the middle of a batch, and comes back with other
// memory. The peer is this very program, run again with another test selected.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "larder/transfer.h"
#include "node_process.h"

namespace larder::integration {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kBytes = 64 * kMiB;
constexpr auto kPeerTimeout = 2s;
constexpr auto kSlack = 8s;  // of a busy machine

// Each byte of a peer's memory, so that whose it is can be seen.
std::byte mark_of(int life) {
  return static_cast<std::byte>(0x40 + life);
}

// The part of the peer: lends its memory until it is killed.
TEST(Role, DISABLED_LendsMemory) {
  const char* address = std::getenv("LARDER_TEST_ADDRESS");
  const char* life = std::getenv("LARDER_TEST_LIFE");
  ASSERT_TRUE(address != nullptr && life != nullptr);
  TransferConfig config;
  config.listen = {address};
  const auto engine = TransferEngine::create(config);
  ASSERT_TRUE(engine) << words(engine);
  auto* const memory = static_cast<std::byte*>((*engine)->allocate_memory(kBytes).value());
  std::fill_n(memory, kBytes, mark_of(std::atoi(life)));
  std::cout << "lent" << std::endl;
  while (true) ::pause();
}

class DeadPeerTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(start_peer());
    TransferConfig config;
    config.transports = {"memcpy", GetParam()};
    config.peer_timeout = kPeerTimeout;
    engine_ = TransferEngine::create(config).value();
    segment_ = engine_->open_segment(address_).value();
    local_ = static_cast<std::byte*>(engine_->allocate_memory(kBytes).value());
    std::fill_n(local_, kBytes, std::byte{0xEE});
  }
  // Another life at the same address.
  bool start_peer() {
    ::setenv("LARDER_TEST_ADDRESS", address_.c_str(), 1);
    ::setenv("LARDER_TEST_LIFE", std::to_string(++life_).c_str(), 1);
    const std::string log = "peer-" + std::to_string(life_) + ".log";
    apps::ChildOptions child;
    child.program = apps::own_program().value();
    child.arguments = {"--gtest_also_run_disabled_tests",
                       "--gtest_filter=Role.DISABLED_LendsMemory"};
    child.output_file = dir_.file(log);
    auto started = apps::ChildProcess::start(child);
    if (!started) return false;
    peer_.emplace(std::move(*started));
    return within(60 * env::kSecond,
                  [&] {
                    return peer_->ended() || dir_.read(log).find("lent") != std::string::npos;
                  }) &&
           !peer_->ended();
  }
  void kill_peer() {
    ::kill(peer_->pid(), SIGKILL);
    peer_.reset();
  }
  std::uint64_t far() const { return engine_->segment_info(segment_)->buffers.at(0).address; }
  TransferRequest request(Opcode opcode, std::uint64_t from, std::uint64_t at) const {
    TransferRequest out;
    out.opcode = opcode;
    out.local = local_ + at;
    out.target = segment_;
    out.target_offset = from + at;
    out.length = kMiB - 4096;  // none goes on where another ends
    return out;
  }
  // Reads one piece; how that ended.
  Code read(std::uint64_t from) {
    const TransferRequest one = request(Opcode::kRead, from, 0);
    const BatchId batch = engine_->allocate_batch(1).value();
    const auto results = engine_->submit(batch, std::span(&one, 1)).value();
    Code code = results[0].code;
    if (code == Code::kOk) {
      EXPECT_TRUE(engine_->wait(batch, kPeerTimeout + kSlack));
      code = engine_->poll(batch, 0)->code;
    }
    EXPECT_TRUE(engine_->free_batch(batch));
    return code;
  }
  bool local_is(std::byte mark) const {
    return std::all_of(local_, local_ + kMiB - 4096, [=](std::byte b) { return b == mark; });
  }

  Directory dir_;
  std::string address_ = "tcp:127.0.0.1:" + std::to_string(free_port());
  int life_ = 0;
  std::optional<apps::ChildProcess> peer_;
  std::unique_ptr<TransferEngine> engine_;
  SegmentId segment_;
  std::byte* local_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Transports, DeadPeerTest, testing::Values("tcp", "shm"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(DeadPeerTest, EveryRequestEndsAndTheMemoryIsFree) {
  const std::uint64_t from = far();
  std::vector<TransferRequest> requests;
  for (std::uint64_t i = 0; i < 64; ++i) {
    requests.push_back(request(i % 2 == 0 ? Opcode::kRead : Opcode::kWrite, from, i * kMiB));
  }
  const BatchId batch = engine_->allocate_batch(64).value();
  ASSERT_TRUE(engine_->submit(batch, requests));
  ASSERT_TRUE(within(10 * env::kSecond, [&] { return engine_->poll(batch)->completed > 0; }));
  kill_peer();
  const env::Nanos killed = env::monotonic_now();
  const auto status = engine_->wait(batch, kPeerTimeout + kSlack);
  ASSERT_TRUE(status) << words(status);
  EXPECT_LT(env::monotonic_now() - killed, std::chrono::nanoseconds(kPeerTimeout + kSlack).count());
  for (std::uint32_t i = 0; i < 64; ++i) {
    const TaskStatus task = engine_->poll(batch, i).value();
    EXPECT_TRUE(task.quiescent) << i;
    // What is mapped outlives its owner, and may complete.
    EXPECT_TRUE(task.outcome == Outcome::kCompleted || task.code == Code::kUnavailable ||
                task.code == Code::kDeadlineExceeded)
        << i << ": " << task.message;
  }
  EXPECT_TRUE(engine_->free_batch(batch));
  EXPECT_TRUE(engine_->free_memory(local_));
}

TEST_P(DeadPeerTest, WhatComesBackIsLearnedAnewAndNeverTakenForTheOldOne) {
  const std::uint64_t before = far();
  ASSERT_EQ(read(before), Code::kOk);
  EXPECT_TRUE(local_is(mark_of(1)));
  kill_peer();
  ASSERT_TRUE(start_peer());
  // At the old place: refused, until what is known is renewed; never the bytes of the dead.
  std::fill_n(local_, kMiB, std::byte{0xEE});
  const Code stale = read(before);
  EXPECT_TRUE(stale == Code::kOk ? local_is(mark_of(2)) : local_is(std::byte{0xEE}))
      << code_name(stale);
  EXPECT_TRUE(stale == Code::kOk || stale == Code::kConflict || stale == Code::kUnavailable ||
              stale == Code::kNotFound)
      << code_name(stale);
  ASSERT_TRUE(within(30 * env::kSecond, [&] {
    const auto info = engine_->segment_info(segment_);
    return info && !info->buffers.empty() && read(info->buffers[0].address) == Code::kOk;
  }));
  EXPECT_TRUE(local_is(mark_of(2)));
}

}  // namespace
}  // namespace larder::integration
