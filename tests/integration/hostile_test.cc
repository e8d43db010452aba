// SPDX-License-Identifier: Apache-2.0
// Strangers and broken peers: each is counted and turned away, and a client at work notices
// nothing.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "node_process.h"
#include "rpc/channel.h"
#include "wire/frame.h"
#include "wire/handshake.h"

namespace larder::integration {
namespace {

env::Nanos later() {
  return env::monotonic_now() + 10 * env::kSecond;
}

class HostileTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(node_.start()) << node_.log();
    client_ = node_.connect(Path::kTcp);
    ASSERT_TRUE(client_);
    worker_ = std::thread([this] {
      for (std::uint64_t i = 0; !stop_; ++i) {
        const Bytes value = make_value(i % 5, 10'000 + i % 5);
        const auto stored = client_->put(std::to_string(i % 5), value);
        EXPECT_TRUE(stored) << words(stored);
        const auto got = client_->get(std::to_string(i % 5));
        EXPECT_TRUE(got && same(got->bytes(), value)) << words(got);
        ++rounds_;
      }
    });
  }
  void TearDown() override {
    const std::uint64_t before = rounds_;
    EXPECT_TRUE(within(10 * env::kSecond, [&] { return rounds_ > before + 5; }));
    stop_ = true;
    worker_.join();
    EXPECT_TRUE(node_.running());
    EXPECT_EQ(node_.metric("larder_hot_reserved_bytes"), 0);
  }
  env::Fd connect() {
    return env::connect_to(env::SocketAddress::parse(node_.options(Path::kTcp).address).value(),
                           later())
        .value();
  }
  env::Fd admitted() {
    rpc::ChannelOptions channel;
    channel.address = env::SocketAddress::parse(node_.options(Path::kTcp).address).value();
    return std::move(rpc::connect_and_shake(channel, wire::Purpose::kCalls).value().fd);
  }
  static void send(const env::Fd& fd, std::string_view bytes) {
    static_cast<void>(
        env::send_all(fd.get(), std::as_bytes(std::span(bytes)), later()).has_value());
  }
  static bool closed(const env::Fd& fd) {
    std::array<std::byte, 4096> bytes{};
    const env::Nanos deadline = later();
    while (env::wait_ready(fd.get(), env::kReadable, deadline) != 0) {
      const auto status = env::receive(fd.get(), bytes.data(), bytes.size()).status;
      if (status == env::IoStatus::kClosed || status == env::IoStatus::kError) return true;
    }
    return false;
  }
  static std::string frame(wire::FrameHeader header, std::string body) {
    header.body_bytes = static_cast<std::uint32_t>(body.size());
    std::string bytes(wire::kHeaderBytes, '\0');
    wire::encode_header(header, body, reinterpret_cast<std::byte*>(bytes.data()));
    return bytes + body;
  }

  NodeProcess node_{"node.handshake_timeout: 300ms\nnode.stall_timeout: 300ms\n"};
  std::unique_ptr<Client> client_;
  std::thread worker_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> rounds_{0};
};

TEST_F(HostileTest, GarbageInsteadOfAHelloIsCounted) {
  const double before = node_.metric("larder_refused_protocol_total");
  ASSERT_GE(before, 0);
  for (const char fill : {'\0', 'x', '\xff'}) {
    const env::Fd fd = connect();
    send(fd, std::string(3000, fill));
    EXPECT_TRUE(closed(fd));
  }
  EXPECT_EQ(node_.metric("larder_refused_protocol_total"), before + 3);
}

TEST_F(HostileTest, HalfAHelloTimesOut) {
  const double before = node_.metric("larder_stalled_total");
  std::vector<env::Fd> half;
  for (int i = 0; i < 50; ++i) {
    half.push_back(connect());
    wire::ClientHello hello;
    const auto bytes = wire::encode(hello);
    send(half.back(),
         std::string(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(i)));
  }
  for (const env::Fd& fd : half) EXPECT_TRUE(closed(fd));
  EXPECT_EQ(node_.metric("larder_stalled_total"), before + 50);
}

TEST_F(HostileTest, BrokenFramesAreCounted) {
  const double before = node_.metric("larder_protocol_errors_total");
  wire::FrameHeader header;
  header.op = wire::Op::kInfo;
  std::string damaged = frame(header, "some body");
  damaged.back() = static_cast<char>(damaged.back() ^ 0x10);
  std::string oversize = frame(header, "");
  const std::uint32_t huge = wire::kBodyBytesMax + 1;
  std::memcpy(oversize.data() + 16, &huge, sizeof(huge));  // the body's length
  header.kind = wire::FrameKind::kReply;
  const std::string reply = frame(header, "");
  for (const std::string& bytes : {damaged, oversize, reply, std::string(1000, 'z')}) {
    const env::Fd fd = admitted();
    send(fd, bytes);
    EXPECT_TRUE(closed(fd));
  }
  EXPECT_EQ(node_.metric("larder_protocol_errors_total"), before + 4);
}

TEST_F(HostileTest, AHalfSentFrameStalls) {
  const double before = node_.metric("larder_stalled_total");
  wire::FrameHeader header;
  header.op = wire::Op::kStat;
  const std::string whole = frame(header, std::string(1000, 'b'));
  const env::Fd fd = admitted();
  send(fd, whole.substr(0, 500));
  EXPECT_TRUE(closed(fd));
  EXPECT_EQ(node_.metric("larder_stalled_total"), before + 1);
}

TEST_F(HostileTest, BodiesThatMakeNoSenseAreAnsweredAndTheConnectionGoesOn) {
  const env::Fd fd = admitted();
  for (std::uint16_t op = 1; op <= wire::kOpMax + 3; ++op) {
    wire::FrameHeader header;
    header.op = static_cast<wire::Op>(op);
    header.call_id = op;
    send(fd, frame(header, "\xff\xff\xff\xff\x0f nonsense"));
    std::array<std::byte, wire::kHeaderBytes> raw{};
    if (!env::receive_all(fd.get(), raw, later())) {
      EXPECT_GT(op, wire::kOpMax) << "operation " << op << " ended the connection";
      return;
    }
    const auto reply = wire::decode_header(raw).value();
    EXPECT_EQ(reply.call_id, op);
    EXPECT_NE(reply.code, Code::kOk) << op;
    std::string body(reply.body_bytes, '\0');
    ASSERT_TRUE(env::receive_all(fd.get(), std::as_writable_bytes(std::span(body)), later()));
  }
}

}  // namespace
}  // namespace larder::integration
