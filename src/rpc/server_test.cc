// SPDX-License-Identifier: Apache-2.0
#include "rpc/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "rpc/rpc_testing.h"

namespace larder::rpc {
namespace {

using wire::Op;

constexpr std::string_view kToken = "the cluster token of these tests";

class ServerTest : public RpcTest {
 protected:
  ServerOptions options() const {
    ServerOptions out;
    out.listen = {unix_address(), env::SocketAddress::parse("tcp:127.0.0.1:0").value()};
    return out;
  }
  void serve(const ServerOptions& with) {
    server_ = Server::create(with, service_, env::system_clock()).value();
  }
  ChannelOptions over(std::size_t address, std::string_view token = {}) const {
    ChannelOptions out;
    out.address = server_->addresses()[address];
    out.token = std::string(token);
    return out;
  }
  std::shared_ptr<Channel> unix_channel() const { return Channel::connect(over(0)).value(); }
  Code refused(const ChannelOptions& with, wire::Purpose purpose = wire::Purpose::kCalls) {
    const auto connection = connect_and_shake(with, purpose);
    return connection ? Code::kOk : connection.error().code();
  }
  // A connection after its handshake, for bytes of the test's own.
  env::Fd raw_calls() const {
    return std::move(connect_and_shake(over(0), wire::Purpose::kCalls).value().fd);
  }
  env::Fd raw_connection(std::size_t address = 0) const {
    return env::connect_to(server_->addresses()[address], later()).value();
  }
  // Waits for what the server's own thread does a moment later.
  static bool eventually(const std::function<bool()>& condition) {
    for (const env::Nanos deadline = later(); env::monotonic_now() < deadline;) {
      if (condition()) return true;
      std::this_thread::yield();
    }
    return condition();
  }
  const ServerCounters& counters() const { return server_->counters(); }

  EchoService service_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, AnswersOverBothKindsOfSockets) {
  serve(options());
  EXPECT_NE(server_->addresses()[1].port, 0);
  for (const std::size_t address : {0U, 1U}) {
    const auto channel = Channel::connect(over(address)).value();
    TestCall call;
    run(*channel, call, Op::kInfo, "hello");
    EXPECT_EQ(call.code(), Code::kOk);
    EXPECT_EQ(call.text, "hello");
    EXPECT_EQ(call.ends, 1);
    EXPECT_EQ(channel->in_flight(), 0U);
  }
  EXPECT_EQ(counters().accepted, 2U);
  EXPECT_EQ(counters().requests, 2U);
}

TEST_F(ServerTest, TellsItsEpoch) {
  ServerOptions with = options();
  with.epoch = 77;
  serve(with);
  EXPECT_EQ(unix_channel()->epoch(), 77U);
}

TEST_F(ServerTest, LargePayloadBothWays) {
  serve(options());
  const std::vector<std::byte> data = pattern(20'000'003, 1);
  for (const std::size_t address : {0U, 1U}) {
    const auto channel = Channel::connect(over(address)).value();
    TestCall echo;
    run(*channel, echo, Op::kStat, "echo", data);
    EXPECT_TRUE(echo.payload == data);
    TestCall put;
    run(*channel, put, Op::kPut, "", data);
    EXPECT_EQ(put.text, std::to_string(checksum64(data)));
  }
}

TEST_F(ServerTest, RefusedPayloadIsPassedOverAndTheConnectionGoesOn) {
  serve(options());
  const auto channel = unix_channel();
  TestCall refused;
  run(*channel, refused, Op::kRemove, "this", pattern(3'000'000, 2));
  EXPECT_EQ(refused.header.code, Code::kPermissionDenied);
  EXPECT_EQ(refused.text, "refused: this");
  TestCall next;
  run(*channel, next, Op::kInfo, "next");
  EXPECT_EQ(next.text, "next");
}

TEST_F(ServerTest, SessionsEndWithTheirConnections) {
  serve(options());
  auto channel = unix_channel();
  EXPECT_TRUE(eventually([&] { return service_.sessions == 1; }));
  channel.reset();
  EXPECT_TRUE(eventually([&] { return service_.sessions == 0 && counters().open == 0; }));
}

TEST_F(ServerTest, NeedsAnAddress) {
  const auto server = Server::create({}, service_, env::system_clock());
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code(), Code::kInvalidArgument);
}

// ---- handshake ----

TEST_F(ServerTest, TokenIsAskedForAndProved) {
  ServerOptions with = options();
  with.token = kToken;
  serve(with);
  EXPECT_EQ(refused(over(0, kToken)), Code::kOk);
  EXPECT_EQ(refused(over(1, kToken)), Code::kOk);
  EXPECT_EQ(refused(over(0, "another token of some length")), Code::kPermissionDenied);
  EXPECT_EQ(counters().refused_token, 1U);
  EXPECT_EQ(refused(over(0)), Code::kPermissionDenied);
}

TEST_F(ServerTest, ClientWithATokenInsistsOnIt) {
  serve(options());
  EXPECT_EQ(refused(over(0, kToken)), Code::kPermissionDenied);
}

TEST_F(ServerTest, ProofOfOneConnectionOpensNoOther) {
  ServerOptions with = options();
  with.token = kToken;
  serve(with);
  std::array<std::byte, wire::kServerHelloBytes> answer{};
  const wire::ClientHello hello;
  Digest256 proof{};
  for (int i = 0; i < 2; ++i) {
    const env::Fd fd = raw_connection();
    ASSERT_TRUE(env::send_all(fd.get(), wire::encode(hello), later()));
    ASSERT_TRUE(env::receive_all(fd.get(), answer, later()));
    if (i == 0) {
      proof = wire::prove(kToken, wire::Role::kClient, hello,
                          wire::decode_server_hello(answer).value());
    }
    ASSERT_TRUE(env::send_all(fd.get(), proof, later()));
    std::array<std::byte, wire::kVerdictBytes> verdict{};
    ASSERT_TRUE(env::receive_all(fd.get(), verdict, later()));
    EXPECT_EQ(wire::decode_verdict(verdict)->code, i == 0 ? Code::kOk : Code::kPermissionDenied);
  }
}

TEST_F(ServerTest, OtherProtocolsAreTurnedAway) {
  serve(options());
  const env::Fd fd = raw_connection(1);
  const std::string http = "GET / HTTP/1.1\r\nHost: larder\r\nUser-Agent: something-or-other/1\r\n";
  ASSERT_GE(http.size(), wire::kClientHelloBytes);
  ASSERT_TRUE(env::send_all(fd.get(), as_bytes(http).first(wire::kClientHelloBytes), later()));
  EXPECT_TRUE(closes(fd.get()));
  EXPECT_EQ(counters().refused_protocol, 1U);
  EXPECT_EQ(counters().accepted, 0U);
}

TEST_F(ServerTest, OtherVersionsAreToldSo) {
  serve(options());
  for (const auto& [lowest, highest, code] : std::vector<std::tuple<int, int, Code>>{
           {2, 9, Code::kVersionMismatch}, {0, 0, Code::kVersionMismatch}, {0, 255, Code::kOk}}) {
    const env::Fd fd = raw_connection();
    wire::ClientHello hello;
    hello.version_min = static_cast<std::uint8_t>(lowest);
    hello.version_max = static_cast<std::uint8_t>(highest);
    ASSERT_TRUE(env::send_all(fd.get(), wire::encode(hello), later()));
    std::array<std::byte, wire::kServerHelloBytes> answer{};
    ASSERT_TRUE(env::receive_all(fd.get(), answer, later()));
    EXPECT_EQ(wire::decode_server_hello(answer)->version, wire::kProtocolVersion);
    std::array<std::byte, wire::kVerdictBytes> verdict{};
    ASSERT_TRUE(env::receive_all(fd.get(), verdict, later()));
    EXPECT_EQ(wire::decode_verdict(verdict)->code, code);
  }
}

TEST_F(ServerTest, HandshakeByteByByte) {
  serve(options());
  const env::Fd fd = raw_connection();
  const auto hello = wire::encode(wire::ClientHello{});
  for (const std::byte& byte : hello) {
    ASSERT_TRUE(env::send_all(fd.get(), std::span(&byte, 1), later()));
  }
  std::array<std::byte, wire::kServerHelloBytes + wire::kVerdictBytes> answer{};
  ASSERT_TRUE(env::receive_all(fd.get(), answer, later()));
}

TEST_F(ServerTest, SilentClientsAreDropped) {
  ServerOptions with = options();
  with.handshake_timeout = 30 * env::kMilli;
  with.token = kToken;
  serve(with);
  const env::Fd nothing = raw_connection();
  const env::Fd half = raw_connection(1);
  const auto hello = wire::encode(wire::ClientHello{});
  ASSERT_TRUE(env::send_all(half.get(), std::span(hello).first(40), later()));
  const env::Fd proofless = raw_connection();
  ASSERT_TRUE(env::send_all(proofless.get(), hello, later()));
  EXPECT_TRUE(closes(nothing.get()));
  EXPECT_TRUE(closes(half.get()));
  EXPECT_TRUE(closes(proofless.get()));
  EXPECT_EQ(counters().stalled, 3U);
}

// ---- shared memory handshakes ----

TEST_F(ServerTest, AttachPassesDescriptors) {
  serve(options());
  EXPECT_EQ(refused(over(0), wire::Purpose::kAttach), Code::kUnsupported);  // none offered
  const env::Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  service_.descriptors = {null.get(), null.get(), null.get()};
  const Handshaken attached = connect_and_shake(over(0), wire::Purpose::kAttach).value();
  EXPECT_EQ(attached.value, 3U);
  EXPECT_EQ(env::receive_fds(attached.fd.get(), 3, later())->size(), 3U);
  EXPECT_EQ(refused(over(1), wire::Purpose::kAttach), Code::kUnsupported);  // TCP
}

TEST_F(ServerTest, BufferIsAdopted) {
  serve(options());
  const env::Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto offer = [&](std::uint64_t bytes) {
    return connect_and_shake(over(0), wire::Purpose::kBuffer, bytes, null.get());
  };
  EXPECT_EQ(offer(41)->value, 42U);
  EXPECT_EQ(offer(0).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(refused(over(1), wire::Purpose::kBuffer), Code::kUnsupported);
}

// ---- limits ----

TEST_F(ServerTest, ConnectionsAreBounded) {
  ServerOptions with = options();
  with.connections_max = 3;
  serve(with);
  std::vector<std::shared_ptr<Channel>> channels;
  for (int i = 0; i < 3; ++i) channels.push_back(unix_channel());
  EXPECT_EQ(refused(over(0)), Code::kExhausted);
  EXPECT_EQ(counters().refused_limit, 1U);
  EXPECT_EQ(counters().open, 3U);
  channels.pop_back();
  EXPECT_TRUE(eventually([&] { return counters().open == 2; }));
  EXPECT_EQ(refused(over(0)), Code::kOk);
}

// The verdict is there before the client has proved anything, and still gets to it.
TEST_F(ServerTest, AFullNodeSaysSoToClientsWithATokenToo) {
  ServerOptions with = options();
  with.connections_max = 1;
  with.token = kToken;
  serve(with);
  const auto channel = Channel::connect(over(0, kToken)).value();
  EXPECT_EQ(refused(over(0, kToken)), Code::kExhausted);
  EXPECT_EQ(refused(over(1, kToken)), Code::kExhausted);
  EXPECT_EQ(counters().refused_limit, 2U);
  EXPECT_EQ(counters().refused_token, 0U);
}

TEST_F(ServerTest, RunsOutOfDescriptorsAndRecovers) {
  serve(options());
  const auto channel = unix_channel();
  const env::Fd waiting(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  const rlimit low{256, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<env::Fd> taken;
  while (true) {
    env::Fd fd(::fcntl(0, F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) break;
    taken.push_back(std::move(fd));
  }
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::memcpy(where.sun_path, unix_address().path.c_str(), unix_address().path.size());
  EXPECT_EQ(::connect(waiting.get(), reinterpret_cast<const sockaddr*>(&where), sizeof(where)), 0);
  EXPECT_TRUE(eventually([&] { return counters().refused_limit >= 1; }));
  TestCall call;
  run(*channel, call, Op::kInfo, "still here");  // those it has are served
  EXPECT_EQ(call.text, "still here");
  taken.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_TRUE(closes(waiting.get()));
  EXPECT_EQ(refused(over(0)), Code::kOk);
}

// Whatever is begun and not gone on with is given up: a payload, a body, a header.
TEST_F(ServerTest, StalledRequestsAreDropped) {
  ServerOptions with = options();
  with.stall_timeout = 30 * env::kMilli;
  serve(with);
  wire::FrameHeader header;
  header.op = Op::kPut;
  header.payload_bytes = 1000;
  const std::string frame = sealed(header, std::string(100'000, 'b'));
  const auto idle = unix_channel();  // a client between calls is none of these
  std::uint64_t stalled = 0;
  for (const std::size_t sent : {frame.size(), frame.size() - 5, std::size_t{47}}) {
    const env::Fd fd = raw_calls();
    ASSERT_TRUE(env::send_all(fd.get(), as_bytes(frame).first(sent), later()));
    EXPECT_TRUE(closes(fd.get())) << sent;
    EXPECT_EQ(counters().stalled, ++stalled);
  }
  TestCall call;
  run(*idle, call, Op::kInfo, "x");
  EXPECT_EQ(call.text, "x");
}

TEST_F(ServerTest, BrokenFramesEndTheConnection) {
  serve(options());
  wire::FrameHeader reply;
  reply.kind = wire::FrameKind::kReply;
  std::string flipped = sealed({}, "body");
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  std::uint64_t errors = 0;
  for (const std::string& bytes : {sealed(reply, ""), flipped, std::string(48, 'x')}) {
    const env::Fd fd = raw_calls();
    ASSERT_TRUE(env::send_all(fd.get(), as_bytes(bytes), later()));
    EXPECT_TRUE(closes(fd.get()));
    EXPECT_EQ(counters().protocol_errors, ++errors);
  }
  EXPECT_EQ(service_.requests, 0);
}

// A peer that asks and asks and never reads: what the node holds for it stays bounded, and when it
// reads at last, every answer comes.
TEST_F(ServerTest, AnswersThatNobodyReadsAreBounded) {
  serve(options());
  constexpr std::uint64_t kAsked = 3000;
  const env::Fd fd = raw_calls();
  std::string stream;
  for (std::uint64_t id = 1; id <= kAsked; ++id) {
    wire::FrameHeader header;
    header.op = Op::kGet;
    header.call_id = id;
    stream += sealed(header, "10000");
  }
  std::thread sending([&] { EXPECT_TRUE(env::send_all(fd.get(), as_bytes(stream), later())); });
  EXPECT_TRUE(eventually([&] { return service_.requests > 64; }));
  const auto other = unix_channel();  // the same reactor serves others meanwhile
  for (int i = 0; i < 20; ++i) {
    TestCall call;
    run(*other, call, Op::kInfo, "y");
    EXPECT_EQ(call.text, "y");
  }
  EXPECT_LT(service_.requests, 300);  // 64 held, some in the kernel's buffers, and the 20
  std::vector<std::byte> payload(10'000);
  const std::vector<std::byte> expected = pattern(10'000, 10'000);
  for (std::uint64_t id = 1; id <= kAsked; ++id) {
    ASSERT_EQ(next_frame(fd.get()).call_id, id);
    ASSERT_TRUE(env::receive_all(fd.get(), payload, later()));
    ASSERT_TRUE(payload == expected);
  }
  sending.join();
}

TEST_F(ServerTest, PeerThatNeverReadsIsDropped) {
  ServerOptions with = options();
  with.stall_timeout = 30 * env::kMilli;
  serve(with);
  const env::Fd fd = raw_calls();
  wire::FrameHeader header;
  header.op = Op::kGet;
  header.call_id = 1;
  ASSERT_TRUE(env::send_all(fd.get(), as_bytes(sealed(header, "50000000")), later()));
  EXPECT_TRUE(eventually([&] { return counters().stalled == 1; }));
}

// ---- the end ----

TEST_F(ServerTest, StopWithCallsInFlight) {
  serve(options());
  const auto channel = unix_channel();
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < 200; ++i) {
    calls.push_back(std::make_unique<TestCall>());
    start(*channel, *calls.back(), Op::kGet, "20000", {}, later(), false);
    if (i == 100) server_->stop(after(2 * env::kSecond));
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->wait_end());
    EXPECT_EQ(call->ends, 1);
    EXPECT_TRUE(call->code() == Code::kOk || call->code() == Code::kUnavailable);
    if (call->code() == Code::kOk) {
      EXPECT_TRUE(call->payload == pattern(20000, 20000));
    }
  }
  EXPECT_EQ(service_.sessions, 0);
  server_->stop(1);  // again
}

TEST_F(ServerTest, StopDoesNotWaitLongerThanItsDeadline) {
  serve(options());
  const env::Fd fd = raw_calls();
  wire::FrameHeader header;
  header.op = Op::kPut;
  header.payload_bytes = 1000;
  ASSERT_TRUE(env::send_all(fd.get(), as_bytes(sealed(header, "")), later()));
  EXPECT_TRUE(eventually([&] { return service_.requests == 1; }));
  const env::Nanos begin = env::monotonic_now();
  server_->stop(after(50 * env::kMilli));
  EXPECT_GE(env::monotonic_now() - begin, 50 * env::kMilli);
  EXPECT_LT(env::monotonic_now() - begin, 10 * env::kSecond);
  EXPECT_TRUE(closes(fd.get()));
}

TEST_F(ServerTest, ManyReactors) {
  ServerOptions with = options();
  with.reactors = 3;
  serve(with);
  std::vector<std::shared_ptr<Channel>> channels;
  for (int i = 0; i < 7; ++i) channels.push_back(unix_channel());
  for (const auto& channel : channels) {
    TestCall call;
    run(*channel, call, Op::kStat, "z", pattern(100'000, 3));
    EXPECT_EQ(call.payload.size(), 100'000U);
  }
}

}  // namespace
}  // namespace larder::rpc
