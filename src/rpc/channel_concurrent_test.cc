// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "rpc/rpc_testing.h"

namespace larder::rpc {
namespace {

using wire::Op;

constexpr unsigned kThreads = 8;
constexpr int kCallsPerThread = 150;

class ChannelConcurrentTest : public RpcTest {
 protected:
  void serve(unsigned reactors) {
    ServerOptions with;
    with.listen = {unix_address(), env::SocketAddress::parse("tcp:127.0.0.1:0").value()};
    with.reactors = reactors;
    server_ = Server::create(with, service_, env::system_clock()).value();
  }
  std::shared_ptr<Channel> connect(std::size_t address) {
    ChannelOptions options;
    options.address = server_->addresses()[address];
    options.connect_timeout = 20 * env::kSecond;
    return Channel::connect(options).value();
  }
  EchoService service_;
  std::unique_ptr<Server> server_;
};

std::size_t random_size(std::mt19937_64& random) {
  return random() % 8 == 0 ? random() % 400'000 : random() % 3000;
}

// One call whose answer depends on what was sent, waited for or not.
void call_and_check(Channel& channel, std::mt19937_64& random) {
  const std::vector<std::byte> data = pattern(random_size(random), random());
  const bool waited = random() % 2 == 0;
  TestCall call;
  const auto go = [&](Op op, const std::string& text, std::vector<std::byte> payload) {
    start(channel, call, op, text, std::move(payload), later(), waited);
    if (waited) channel.wait(call);
    ASSERT_TRUE(call.wait_end());
    ASSERT_EQ(call.code(), Code::kOk);
  };
  switch (random() % 4) {
    case 0:
      go(Op::kPut, "", data);
      EXPECT_EQ(call.text, std::to_string(checksum64(data)));
      break;
    case 1:
      go(Op::kGet, std::to_string(data.size()), {});
      EXPECT_TRUE(call.payload == pattern(data.size(), data.size()));
      break;
    case 2:
      go(Op::kStat, "echo", data);
      EXPECT_TRUE(call.payload == data);
      break;
    default:
      go(Op::kInfo, std::to_string(random()), {});
      break;
  }
  EXPECT_EQ(call.ends, 1);
}

void hammer(Channel& channel, std::uint64_t seed) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&channel, seed, t] {
      std::mt19937_64 random(seed + t);
      for (int i = 0; i < kCallsPerThread && !testing::Test::HasFailure(); ++i) {
        call_and_check(channel, random);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(channel.in_flight(), 0U);
}

TEST_F(ChannelConcurrentTest, ManyThreadsOnOneUnixChannel) {
  serve(1);
  hammer(*connect(0), 100);
}

TEST_F(ChannelConcurrentTest, ManyThreadsOnOneTcpChannel) {
  serve(2);
  hammer(*connect(1), 200);
}

TEST_F(ChannelConcurrentTest, ManyUnwaitedCallsFromManyThreads) {
  serve(1);
  const auto channel = connect(0);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      std::vector<std::unique_ptr<TestCall>> calls;
      for (int i = 0; i < kCallsPerThread; ++i) {
        calls.push_back(std::make_unique<TestCall>());
        start(*channel, *calls.back(), Op::kStat, "", pattern(2000, 9), later(), false);
      }
      for (const auto& call : calls) {
        EXPECT_TRUE(call->wait_end());
        EXPECT_EQ(call->code(), Code::kOk);
        EXPECT_EQ(call->payload.size(), 2000U);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The connection breaks under calls of every kind: each ends exactly once, nobody hangs.
TEST_F(ChannelConcurrentTest, ShutDownWhileCallsAreInFlight) {
  serve(1);
  for (int round = 0; round < 10; ++round) {
    const auto channel = connect(round % 2);
    std::atomic<int> done{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(static_cast<std::uint64_t>(round) * 100 + t);
        for (int i = 0; i < 50; ++i) {
          TestCall call;
          const bool waited = random() % 2 == 0;
          start(*channel, call, Op::kStat, "", pattern(random_size(random), i), later(), waited);
          if (waited) channel->wait(call);
          EXPECT_TRUE(call.wait_end());
          EXPECT_EQ(call.ends, 1);
          EXPECT_TRUE(call.code() == Code::kOk || call.code() == Code::kUnavailable);
          if (++done == 60) channel->shut_down();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(channel->broken());
    EXPECT_EQ(channel->in_flight(), 0U);
  }
}

TEST_F(ChannelConcurrentTest, ServerStopsUnderLoad) {
  for (int round = 0; round < 5; ++round) {
    serve(2);
    const auto channel = connect(round % 2);
    std::vector<std::thread> threads;
    std::atomic<int> done{0};
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 50; ++i) {
          TestCall call;
          run(*channel, call, Op::kStat, "", pattern(5000, t));
          EXPECT_EQ(call.ends, 1);
          EXPECT_TRUE(call.code() == Code::kOk || call.code() == Code::kUnavailable);
          ++done;
        }
      });
    }
    while (done < 40) std::this_thread::yield();
    server_->stop(after(5 * env::kSecond));
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(service_.sessions, 0);
  }
}

// Short deadlines under load: whichever way a call ends, its buffer is quiet afterwards.
TEST_F(ChannelConcurrentTest, DeadlinesUnderLoad) {
  serve(1);
  const auto channel = connect(0);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 60; ++i) {
        auto room = std::make_unique<std::vector<std::byte>>(300'000);
        TestCall call(*room);
        run(*channel, call, Op::kGet, "300000", {},
            after(static_cast<env::Nanos>(random() % 4) * env::kMilli + env::kSecond * (i % 2)));
        EXPECT_EQ(call.ends, 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- assisted calls ----

class AssistedTest : public ChannelConcurrentTest {
 protected:
  void SetUp() override {
    ChannelConcurrentTest::SetUp();
    serve(1);
    channel_ = connect(0);
  }
  // Asks for something that is answered at once.
  void ask(TestCall& call) {
    wire::FrameHeader header;
    header.op = Op::kInfo;
    channel_->send(call, header, body_frame("hello"), nullptr, later(), Attendance::kAssisted);
  }
  bool readable() const {
    return env::wait_ready(channel_->descriptor(), env::kReadable, later()) != 0;
  }
  std::shared_ptr<Channel> channel_;
};

TEST_F(AssistedTest, WhoLendsItselfReceives) {
  TestCall call;
  EXPECT_FALSE(channel_->assist());
  ask(call);
  while (channel_->in_flight() > 0) channel_->assist();
  ASSERT_TRUE(call.wait_end());
  EXPECT_EQ(call.ends, 1);
  EXPECT_EQ(call.text, "hello");
}

TEST_F(AssistedTest, WhereNobodyComesTheChannelReceives) {
  for (int i = 0; i < 3; ++i) {
    TestCall call;
    ask(call);
    if (i == 1) channel_->hand_over();
    ASSERT_TRUE(call.wait_end());
    EXPECT_EQ(call.code(), Code::kOk);
    EXPECT_EQ(call.ends, 1);
  }
}

TEST_F(AssistedTest, OneAtATimeSleepsOnTheDescriptor) {
  EXPECT_FALSE(channel_->attend()) << "no call, nothing to wait for";
  TestCall call;
  ask(call);
  // The channel's own thread keeps away as soon as somebody attends; it may have come before that.
  if (channel_->attend()) {
    EXPECT_FALSE(channel_->attend());
    channel_->hand_over();  // of another thread: it has been handed over already
    if (channel_->in_flight() > 0 && readable()) channel_->assist();
    channel_->leave();
  }
  ASSERT_TRUE(call.wait_end());
  EXPECT_EQ(call.ends, 1);
  EXPECT_FALSE(channel_->attend());
}

TEST_F(AssistedTest, AnAttendantThatLeavesLeavesNothingBehind) {
  TestCall call;
  ask(call);
  static_cast<void>(channel_->attend());
  channel_->leave();
  ASSERT_TRUE(call.wait_end());
  EXPECT_EQ(call.code(), Code::kOk);
}

}  // namespace
}  // namespace larder::rpc
