// SPDX-License-Identifier: Apache-2.0
#include "rpc/channel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <string>
#include <vector>

#include "rpc/rpc_testing.h"

namespace larder::rpc {
namespace {

using wire::Op;

class ChannelTest : public RpcTest {
 protected:
  ChannelOptions options() const {
    ChannelOptions out;
    out.address = unix_address();
    out.connect_timeout = 20 * env::kSecond;
    return out;
  }
  std::shared_ptr<Channel> connect() const { return Channel::connect(options()).value(); }
  std::unique_ptr<Server> serve() {
    ServerOptions with;
    with.listen = {unix_address()};
    return Server::create(with, service_, env::system_clock()).value();
  }
  EchoService service_;
};

// Answers a request; `payload` may be cut off anywhere.
void answer(int fd, const wire::FrameHeader& request, std::string_view text,
            std::span<const std::byte> payload = {}) {
  wire::FrameHeader reply = request;
  reply.kind = wire::FrameKind::kReply;
  reply.payload_bytes = payload.size();
  EXPECT_TRUE(env::send_all(fd, as_bytes(sealed(reply, text)), later()));
  EXPECT_TRUE(env::send_all(fd, payload, later()));
}

TEST_F(ChannelTest, WaitsInAnyOrder) {
  const auto server = serve();
  const auto channel = connect();
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < 50; ++i) {
    calls.push_back(std::make_unique<TestCall>());
    start(*channel, *calls.back(), Op::kInfo, std::to_string(i), {}, later(), true);
  }
  EXPECT_EQ(channel->in_flight(), 50U);
  for (const std::size_t i : {49U, 0U, 25U}) channel->wait(*calls[i]);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    channel->wait(*calls[i]);  // again, for some: done is done
    EXPECT_EQ(calls[i]->text, std::to_string(i));
    EXPECT_EQ(calls[i]->ends, 1);
  }
  EXPECT_EQ(channel->in_flight(), 0U);
}

TEST_F(ChannelTest, CallsWithoutAWaiterEndByThemselves) {
  const auto server = serve();
  const auto channel = connect();
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < 300; ++i) {
    calls.push_back(std::make_unique<TestCall>());
    start(*channel, *calls.back(), Op::kStat, "", pattern(1000, 1), later(), false);
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->wait_end());
    EXPECT_EQ(call->code(), Code::kOk);
    EXPECT_TRUE(call->payload == pattern(1000, 1));
  }
}

// The destination is smaller than what comes: the rest is lost, the stream is not.
TEST_F(ChannelTest, ReplyLargerThanItsPlace) {
  const auto server = serve();
  const auto channel = connect();
  std::vector<std::byte> room(1001, std::byte{0x5a});
  const std::span<std::byte> place(room.data(), 1000);
  TestCall call(place);
  run(*channel, call, Op::kGet, "300000");
  EXPECT_EQ(call.code(), Code::kOk);
  const std::vector<std::byte> whole = pattern(300'000, 300'000);
  EXPECT_TRUE(std::equal(room.begin(), room.begin() + 1000, whole.begin()));
  EXPECT_EQ(room[1000], std::byte{0x5a});
  TestCall next;
  run(*channel, next, Op::kInfo, "next");
  EXPECT_EQ(next.text, "next");
}

// ---- deadlines ----

// No byte of a late answer reaches the buffer, and the connection is still good.
TEST_F(ChannelTest, LateAnswerLeavesTheBufferAlone) {
  std::promise<void> timed_out;
  const ScriptedNode node(unix_address(), [&](int fd) {
    const wire::FrameHeader first = next_frame(fd);
    timed_out.get_future().wait();
    answer(fd, first, "late", pattern(200'000, 1));
    answer(fd, next_frame(fd), "second");
    closes(fd);
  });
  const auto channel = connect();
  std::vector<std::byte> room(200'000, std::byte{0x5a});
  TestCall first(room);
  run(*channel, first, Op::kGet, "", {}, after(20 * env::kMilli));
  EXPECT_EQ(first.code(), Code::kDeadlineExceeded);
  timed_out.set_value();
  TestCall second;
  run(*channel, second, Op::kInfo, "");
  EXPECT_EQ(second.text, "second");
  EXPECT_EQ(std::count(room.begin(), room.end(), std::byte{0x5a}), 200'000);
  EXPECT_EQ(first.ends, 1);
  EXPECT_FALSE(channel->broken());
  channel->shut_down();
}

TEST_F(ChannelTest, DeadlineInMidPayloadLetsGoOfTheBuffer) {
  std::promise<void> timed_out;
  const std::vector<std::byte> data = pattern(200'000, 2);
  const ScriptedNode node(unix_address(), [&](int fd) {
    wire::FrameHeader reply = next_frame(fd);
    reply.kind = wire::FrameKind::kReply;
    reply.payload_bytes = data.size();
    EXPECT_TRUE(env::send_all(fd, as_bytes(sealed(reply, "")), later()));
    EXPECT_TRUE(env::send_all(fd, std::span(data).first(50'000), later()));
    timed_out.get_future().wait();
    EXPECT_TRUE(env::send_all(fd, std::span(data).subspan(50'000), later()));
    answer(fd, next_frame(fd), "second");
    closes(fd);
  });
  const auto channel = connect();
  auto room = std::make_unique<std::vector<std::byte>>(data.size(), std::byte{0});
  TestCall first(*room);
  run(*channel, first, Op::kGet, "", {}, after(50 * env::kMilli));
  EXPECT_EQ(first.code(), Code::kDeadlineExceeded);
  room.reset();  // the sanitizers would find a write into it
  timed_out.set_value();
  TestCall second;
  run(*channel, second, Op::kInfo, "");
  EXPECT_EQ(second.text, "second");
  channel->shut_down();
}

TEST_F(ChannelTest, UnwaitedCallsHaveDeadlinesToo) {
  const ScriptedNode node(unix_address(), [](int fd) { closes(fd); });
  const auto channel = connect();
  TestCall first;
  TestCall second;
  start(*channel, first, Op::kInfo, "", {}, after(20 * env::kMilli), false);
  start(*channel, second, Op::kInfo, "", {}, 1, false);  // long past
  ASSERT_TRUE(first.wait_end());
  ASSERT_TRUE(second.wait_end());
  EXPECT_EQ(first.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(channel->in_flight(), 0U);
  channel->shut_down();
}

// A waiter with a short deadline is not kept by one with a long deadline that has the pump.
TEST_F(ChannelTest, ShortDeadlinesBesideLongOnes) {
  std::promise<void> timed_out;
  const ScriptedNode node(unix_address(), [&](int fd) {
    const wire::FrameHeader first = next_frame(fd);
    next_frame(fd);
    timed_out.get_future().wait();
    answer(fd, first, "slow");
    closes(fd);
  });
  const auto channel = connect();
  TestCall slow;
  TestCall quick;
  start(*channel, slow, Op::kInfo, "", {}, later(), true);
  std::thread waiting([&] { channel->wait(slow); });
  run(*channel, quick, Op::kInfo, "", {}, after(30 * env::kMilli));
  EXPECT_EQ(quick.code(), Code::kDeadlineExceeded);
  timed_out.set_value();
  waiting.join();
  EXPECT_EQ(slow.text, "slow");
  channel->shut_down();
}

// The node takes no more bytes: the call ends, and with it the half-sent stream.
TEST_F(ChannelTest, SendingToANodeThatDoesNotRead) {
  std::promise<void> over;
  const ScriptedNode node(unix_address(), [&](int) { over.get_future().wait(); });
  const auto channel = connect();
  TestCall call;
  run(*channel, call, Op::kPut, "", pattern(30'000'000, 3), after(50 * env::kMilli));
  EXPECT_TRUE(call.error.has_value());
  EXPECT_TRUE(channel->broken());
  TestCall next;
  run(*channel, next, Op::kInfo, "");
  EXPECT_EQ(next.code(), Code::kUnavailable);
  over.set_value();
}

// Whose turn to send does not come in time has sent nothing: only that call ends, and its callback
// comes without anyone waiting.
TEST_F(ChannelTest, UnwaitedCallWhoseTurnNeverComes) {
  std::promise<void> read_on;
  const ScriptedNode node(unix_address(), [&](int fd) {
    read_on.get_future().wait();
    closes(fd);
  });
  const auto channel = connect();
  class Waiting final : public PayloadSource {
   public:
    std::size_t next(std::span<iovec> into) override {
      started.set_value();
      go_on.get_future().wait();
      into[0] = {&byte_, 1};
      return 1;
    }
    std::promise<void> started;
    std::promise<void> go_on;
    std::byte byte_{};
  };
  Waiting source;
  TestCall first;
  std::thread sending([&] {
    wire::FrameHeader header;
    header.op = Op::kPut;
    header.payload_bytes = 1;
    channel->send(first, header, body_frame(""), &source, later(), Attendance::kPumped);
  });
  source.started.get_future().wait();
  TestCall second;
  start(*channel, second, Op::kInfo, "", {}, after(env::kMilli), false);
  EXPECT_EQ(second.ends, 1);
  EXPECT_EQ(second.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(first.ends, 0);
  EXPECT_FALSE(channel->broken());
  source.go_on.set_value();
  sending.join();
  read_on.set_value();
  channel->shut_down();
  ASSERT_TRUE(first.wait_end());
}

// An unwaited call's payload is still being read by send(): its deadline must not end it before.
TEST_F(ChannelTest, NoCallEndsWhileItIsBeingSent) {
  std::promise<void> over;
  const ScriptedNode node(unix_address(), [&](int) { over.get_future().wait(); });
  const auto channel = connect();
  TestCall pumped;  // keeps the channel's own thread at work meanwhile
  start(*channel, pumped, Op::kInfo, "", {}, later(), false);
  class Watching final : public PayloadSource {
   public:
    explicit Watching(const TestCall& call) : call_(call), bytes_(1 << 20) {}
    std::size_t next(std::span<iovec> into) override {
      EXPECT_EQ(call_.ends, 0);
      into[0] = {bytes_.data(), bytes_.size()};
      return 1;  // without end
    }
    const TestCall& call_;
    std::vector<std::byte> bytes_;
  };
  TestCall call;
  Watching source(call);
  wire::FrameHeader header;
  header.op = Op::kPut;
  header.payload_bytes = wire::kPayloadBytesMax;
  channel->send(call, header, body_frame(""), &source, after(50 * env::kMilli),
                Attendance::kPumped);
  ASSERT_TRUE(call.wait_end());
  ASSERT_TRUE(pumped.wait_end());
  EXPECT_EQ(call.ends, 1);
  over.set_value();
}

// A node that answers while the request is still on its way: the answer counts, after the send.
TEST_F(ChannelTest, AnswerInTheMiddleOfAPayload) {
  const ScriptedNode node(unix_address(), [](int fd) {
    answer(fd, next_frame(fd), "early");
    closes(fd);
  });
  const auto channel = connect();
  TestCall call;
  start(*channel, call, Op::kPut, "", pattern(20'000'000, 4), later(), false);
  ASSERT_TRUE(call.wait_end());
  EXPECT_EQ(call.text, "early");
  EXPECT_FALSE(channel->broken());
  channel->shut_down();
}

// ---- nodes that go away or misbehave ----

TEST_F(ChannelTest, NodeThatDiesEndsAllCalls) {
  const ScriptedNode node(unix_address(), [](int fd) {
    answer(fd, next_frame(fd), "first");
    wire::FrameHeader reply = next_frame(fd);
    reply.kind = wire::FrameKind::kReply;
    reply.payload_bytes = 1000;  // half an answer
    EXPECT_TRUE(env::send_all(fd, as_bytes(sealed(reply, "half")), later()));
    ::shutdown(fd, SHUT_RDWR);
  });
  const auto channel = connect();
  TestCall first;
  run(*channel, first, Op::kInfo, "");
  EXPECT_EQ(first.text, "first");
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < 40; ++i) {
    calls.push_back(std::make_unique<TestCall>());
    start(*channel, *calls.back(), Op::kInfo, "", {}, later(), i % 2 == 0);
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (i % 2 == 0) channel->wait(*calls[i]);
    ASSERT_TRUE(calls[i]->wait_end());
    EXPECT_EQ(calls[i]->code(), Code::kUnavailable);
    EXPECT_EQ(calls[i]->ends, 1);
  }
  EXPECT_TRUE(channel->broken());
  EXPECT_EQ(channel->in_flight(), 0U);
}

TEST_F(ChannelTest, GarbageEndsAllCalls) {
  const ScriptedNode node(unix_address(), [](int fd) {
    next_frame(fd);
    EXPECT_TRUE(env::send_all(fd, std::vector<std::byte>(100, std::byte{'x'}), later()));
    closes(fd);
  });
  const auto channel = connect();
  TestCall call;
  run(*channel, call, Op::kInfo, "");
  EXPECT_EQ(call.code(), Code::kCorrupt);
  EXPECT_TRUE(channel->broken());
  TestCall next;
  run(*channel, next, Op::kInfo, "");
  EXPECT_EQ(next.code(), Code::kUnavailable);
}

TEST_F(ChannelTest, RequestFromANodeIsRefused) {
  const ScriptedNode node(unix_address(), [](int fd) {
    wire::FrameHeader header = next_frame(fd);
    EXPECT_TRUE(env::send_all(fd, as_bytes(sealed(header, "")), later()));
    closes(fd);
  });
  const auto channel = connect();
  TestCall call;
  run(*channel, call, Op::kInfo, "");
  EXPECT_EQ(call.code(), Code::kCorrupt);
}

// Answers to nobody, with payload, change nothing.
TEST_F(ChannelTest, UnknownCallIdsArePassedOver) {
  const ScriptedNode node(unix_address(), [](int fd) {
    const wire::FrameHeader request = next_frame(fd);
    wire::FrameHeader stray = request;
    stray.call_id = 12345;
    answer(fd, stray, "stray", pattern(100'000, 1));
    answer(fd, request, "mine");
    answer(fd, request, "twice");
    answer(fd, next_frame(fd), "next");
    closes(fd);
  });
  const auto channel = connect();
  TestCall call;
  run(*channel, call, Op::kInfo, "");
  EXPECT_EQ(call.text, "mine");
  TestCall next;
  run(*channel, next, Op::kInfo, "");
  EXPECT_EQ(next.text, "next");
  EXPECT_EQ(call.text, "mine");
  channel->shut_down();
}

// ---- handshake, the client's side ----

TEST_F(ChannelTest, NodeThatDoesNotKnowTheTokenIsRefused) {
  wire::ServerHello hello;
  hello.token_required = true;
  const ScriptedNode node(
      unix_address(), [](int fd) { closes(fd); }, hello);
  ChannelOptions with = options();
  with.token = "the client knows this token";
  const auto channel = Channel::connect(with);
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code(), Code::kPermissionDenied);
}

TEST_F(ChannelTest, NodeOfAnotherVersionIsNamed) {
  wire::ServerHello hello;
  hello.version = 2;
  const ScriptedNode node(
      unix_address(), [](int) {}, hello);
  const auto channel = Channel::connect(options());
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code(), Code::kVersionMismatch);
}

TEST_F(ChannelTest, NobodyThereSaysWhatToDo) {
  const auto channel = Channel::connect(options());
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code(), Code::kUnavailable);
  EXPECT_NE(channel.error().message().find("larder node"), std::string::npos);
}

TEST_F(ChannelTest, SilentNodeCostsTheConnectTimeout) {
  const env::Fd listener = env::listen_on(unix_address(), 4).value();
  ChannelOptions with = options();
  with.connect_timeout = 20 * env::kMilli;
  const auto channel = Channel::connect(with);
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code(), Code::kDeadlineExceeded);
}

TEST_F(ChannelTest, ClosingTheChannelCancelsWhatIsInFlight) {
  const ScriptedNode node(unix_address(), [](int fd) { closes(fd); });
  auto channel = connect();
  TestCall call;
  start(*channel, call, Op::kInfo, "", {}, later(), false);
  channel.reset();
  EXPECT_EQ(call.ends, 1);
  EXPECT_TRUE(call.code() == Code::kCancelled || call.code() == Code::kUnavailable);
}

}  // namespace
}  // namespace larder::rpc
