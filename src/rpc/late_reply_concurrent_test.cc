// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "rpc/late_testing.h"

namespace larder::rpc {
namespace {

using wire::Op;

constexpr unsigned kCallers = 4;
constexpr unsigned kWorkers = 3;
constexpr int kCallsPerCaller = 300;

// Answers what comes, in no particular order, dropping one in 16.
void work(LateService& service, std::atomic<bool>& over, std::atomic<int>& alive,
          std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<LateCall> calls;
  while (!over) {
    for (LateCall& call : service.poll()) calls.push_back(std::move(call));
    std::shuffle(calls.begin(), calls.end(), random);
    for (std::size_t n = calls.size() - calls.size() / 4; n > 0; --n) {
      LateCall call = std::move(calls.back());
      calls.pop_back();
      if (random() % 16 == 0) continue;
      call.responder.complete(payload_reply(std::stoul(call.text), alive));
    }
    std::this_thread::yield();
  }
}

class LateReplyConcurrentTest : public RpcTest {
 protected:
  void SetUp() override {
    RpcTest::SetUp();
    ServerOptions with;
    with.listen = {unix_address()};
    with.reactors = 2;
    server_ = Server::create(with, service_, env::system_clock()).value();
    for (unsigned i = 0; i < kWorkers; ++i) {
      workers_.emplace_back([this, i] { work(service_, over_, alive_, 100 + i); });
    }
  }
  void TearDown() override {
    over_ = true;
    for (std::thread& worker : workers_) worker.join();
    service_.poll();
    server_.reset();
    EXPECT_EQ(alive_, 0);
    RpcTest::TearDown();
  }
  std::shared_ptr<Channel> connect() const {
    ChannelOptions options;
    options.address = server_->addresses()[0];
    options.connect_timeout = 20 * env::kSecond;
    return Channel::connect(options).value();
  }

  LateService service_;
  std::unique_ptr<Server> server_;
  std::atomic<bool> over_{false};
  std::atomic<int> alive_{0};
  std::vector<std::thread> workers_;
};

TEST_F(LateReplyConcurrentTest, ManyCallersManyWorkers) {
  const auto shared = connect();
  std::vector<std::thread> callers;
  for (unsigned t = 0; t < kCallers; ++t) {
    callers.emplace_back([this, shared, t] {
      const auto channel = t % 2 == 0 ? shared : connect();
      std::mt19937_64 random(t);
      for (int i = 0; i < kCallsPerCaller; ++i) {
        const std::size_t bytes = 1 + random() % 20'000;
        TestCall call;
        run(*channel, call, Op::kGet, std::to_string(bytes));
        ASSERT_TRUE(call.code() == Code::kOk || call.code() == Code::kUnavailable);
        if (call.code() == Code::kOk) {
          EXPECT_TRUE(call.payload == pattern(bytes, bytes));
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(shared->in_flight(), 0U);
}

// Connections come and go with calls under way.
TEST_F(LateReplyConcurrentTest, ConnectionsThatEndUnderCalls) {
  std::vector<std::thread> callers;
  for (unsigned t = 0; t < kCallers; ++t) {
    callers.emplace_back([this] {
      for (int round = 0; round < 20; ++round) {
        const auto channel = connect();
        std::vector<std::unique_ptr<TestCall>> calls;
        for (int i = 0; i < 100; ++i) {
          calls.push_back(std::make_unique<TestCall>());
          start(*channel, *calls.back(), Op::kGet, "3000", {}, later(), false);
        }
        ASSERT_TRUE(calls[static_cast<std::size_t>(round)]->wait_end());
        channel->shut_down();
        for (const auto& call : calls) {
          ASSERT_TRUE(call->wait_end());
          EXPECT_EQ(call->ends, 1);
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST_F(LateReplyConcurrentTest, StopUnderCalls) {
  const auto channel = connect();
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < 200; ++i) {
    calls.push_back(std::make_unique<TestCall>());
    start(*channel, *calls.back(), Op::kGet, "3000", {}, later(), false);
    if (i == 100) server_->stop(after(5 * env::kSecond));
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->wait_end());
    EXPECT_EQ(call->ends, 1);
  }
}

}  // namespace
}  // namespace larder::rpc
