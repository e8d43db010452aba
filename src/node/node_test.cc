// SPDX-License-Identifier: Apache-2.0
// A node as its owner sees it, and as strangers do.
#include "node/node.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <thread>

#include "env/socket.h"
#include "env/temp_directory.h"
#include "larder.pb.h"
#include "node/node_testing.h"
#include "obs/log.h"
#include "rpc/channel.h"
#include "tier/hot/fence.h"
#include "wire/handshake.h"
#include "wire/keys.h"
#include "wire/message.h"

namespace larder::node {
namespace {

env::Nanos later() {
  return env::monotonic_now() + 10 * env::kSecond;
}

bool soon(const std::function<bool()>& holds) {
  const env::Nanos deadline = later();
  while (!holds()) {
    if (env::monotonic_now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

class NodeTest : public testing::Test {
 protected:
  void SetUp() override {
    obs::LogOptions log;
    log.level = obs::Level::kError;
    obs::configure_log(std::move(log));
    options_ = default_node_options().value();
    options_.socket = dir_ + "/node.sock";
    options_.listen = {"127.0.0.1:0"};
    options_.http.clear();
    options_.hot_capacity = 4 << 20;
    options_.hot_pages = "4k";
    options_.hot_populate = false;
    options_.reactors = 1;
  }
  void TearDown() override {
    node_.reset();
    tier::forget_fence(options_.socket);
  }
  void start() {
    auto made = Node::create(options_);
    ASSERT_TRUE(made) << made.error().to_string();
    node_ = std::move(*made);
  }
  env::SocketAddress address() const {
    return env::SocketAddress::parse(node_->unix_address()).value();
  }
  env::Fd connect() const { return env::connect_to(address(), later()).value(); }
  // A connection that may send frames.
  env::Fd admitted() const {
    rpc::ChannelOptions channel;
    channel.address = address();
    auto shaken = rpc::connect_and_shake(channel, wire::Purpose::kCalls);
    EXPECT_TRUE(shaken);
    return std::move(shaken->fd);
  }
  static void send(const env::Fd& fd, std::string_view bytes) {
    EXPECT_TRUE(env::send_all(fd.get(), std::as_bytes(std::span(bytes)), later()));
  }
  // The frame of a put of one value; the payload is left to the test.
  static std::string put_frame(std::string_view key, std::uint64_t bytes) {
    pb::PutRequest request;
    wire::pack_keys(KeySpace{}, std::span(&key, 1), *request.mutable_keys());
    request.add_lengths(bytes);
    std::string frame = wire::frame_with(request);
    wire::FrameHeader header;
    header.op = wire::Op::kPut;
    header.call_id = 1;
    header.payload_bytes = bytes + sizeof(std::uint64_t);
    wire::seal_frame(header, frame);
    return frame;
  }
  static bool closed_by_node(const env::Fd& fd) {
    std::array<std::byte, 256> bytes{};
    return soon([&] {
      const auto status = env::receive(fd.get(), bytes.data(), bytes.size()).status;
      return status == env::IoStatus::kClosed;
    });
  }
  bool serves() const {
    rpc::ChannelOptions channel;
    channel.address = address();
    return rpc::connect_and_shake(channel, wire::Purpose::kCalls).has_value();
  }
  void expect_clean() const {
    EXPECT_TRUE(soon([this] { return node_->connections() == 0; }));
    EXPECT_EQ(node_->reserved_bytes(), 0U);
    EXPECT_EQ(node_->pins(), 0U);
    EXPECT_EQ(node_->used_bytes() + node_->free_bytes(), node_->capacity_bytes());
  }

  const env::TempDirectory home_ = env::TempDirectory::create("larder-node").value();
  const std::string& dir_ = home_.path();
  NodeOptions options_;
  std::unique_ptr<Node> node_;
};

// ---- configuration ----

TEST_F(NodeTest, WhoMayListenWhere) {
  EXPECT_TRUE(validate(options_));
  for (const char* open : {"0.0.0.0:7411", "192.168.1.5:7411", "[::]:7411", "example.org:7411"}) {
    options_.listen = {open};
    const auto refused = validate(options_);
    ASSERT_FALSE(refused) << open;
    EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
    EXPECT_NE(refused.error().message().find(open), std::string::npos);
    EXPECT_NE(refused.error().message().find("node.token_file"), std::string::npos);
    options_.insecure = true;
    EXPECT_TRUE(validate(options_));
    options_.insecure = false;
    options_.token_file = "/some/file";
    EXPECT_TRUE(validate(options_));
    options_.token_file.clear();
  }
  options_.listen = {"127.0.0.1:1", "[::1]:1", "localhost:1"};
  EXPECT_TRUE(validate(options_));
  for (const char* bad : {"unix:/x", "nonsense", ":1", "127.0.0.1:99999"}) {
    options_.listen = {bad};
    EXPECT_FALSE(validate(options_)) << bad;
    EXPECT_FALSE(Node::create(options_)) << bad;
  }
}

TEST_F(NodeTest, WatermarksMustBeInOrder) {
  options_.hot_low_watermark = 0.95;
  const auto refused = validate(options_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("hot.low_watermark"), std::string::npos);
}

TEST_F(NodeTest, MistakesOfTheOwnerAreNamed) {
  const auto refused = [this] {
    auto made = Node::create(options_);
    return made ? std::string() : made.error().to_string();
  };
  options_.token_file = dir_ + "/absent";
  EXPECT_NE(refused().find("absent"), std::string::npos) << refused();
  options_.token_file.clear();
  options_.meta = "pigeon://";
  EXPECT_NE(refused().find("metadata"), std::string::npos) << refused();
  options_.meta = "memory://";
  options_.hot_capacity = 1ULL << 60;
  EXPECT_NE(refused(), "");
  options_.hot_capacity = 4 << 20;
  options_.socket = dir_ + "/" + std::string(200, 's');
  EXPECT_NE(refused(), "");
  options_.socket = dir_;
  EXPECT_NE(refused(), "");
}

TEST_F(NodeTest, OneNodeToASocketAndItIsPrivate) {
  start();
  ASSERT_TRUE(node_);
  auto second = Node::create(options_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kConflict) << second.error().to_string();
  EXPECT_TRUE(serves());
  struct stat info {};
  ASSERT_EQ(::stat(options_.socket.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  const std::string id = node_->id();
  node_->stop(std::chrono::seconds(1));
  node_->stop(std::chrono::seconds(1));
  node_.reset();
  start();
  EXPECT_NE(node_->id(), id);  // another incarnation
}

// ---- strangers ----

TEST_F(NodeTest, GarbageInsteadOfAHello) {
  start();
  std::vector<env::Fd> others;
  others.push_back(admitted());
  for (const std::string& bytes :
       {std::string(64, '\0'), std::string(64, 'x'),
        "GET / HTTP/1.1\r\nHost: here\r\n\r\n" + std::string(200, ' ')}) {
    const std::uint64_t refused = node_->refused();
    const env::Fd fd = connect();
    send(fd, bytes);
    EXPECT_TRUE(closed_by_node(fd));
    EXPECT_EQ(node_->refused(), refused + 1);
  }
  EXPECT_TRUE(serves());
  others.clear();
  expect_clean();
}

TEST_F(NodeTest, HalfAHelloIsNotWaitedForLong) {
  options_.handshake_timeout = std::chrono::milliseconds(50);
  start();
  const env::Fd silent = connect();
  const env::Fd half = connect();
  send(half, std::string(20, 'L'));
  EXPECT_TRUE(closed_by_node(silent));
  EXPECT_TRUE(closed_by_node(half));
  EXPECT_TRUE(serves());
  expect_clean();
}

TEST_F(NodeTest, BrokenFramesEndTheirConnectionOnly) {
  start();
  const env::Fd good = admitted();
  std::string broken = put_frame("a", 100);
  broken.back() = static_cast<char>(broken.back() ^ 1);  // the check value fits no more
  wire::FrameHeader header;
  std::string oversize(wire::kHeaderBytes, '\0');
  wire::encode_header(header, {}, reinterpret_cast<std::byte*>(oversize.data()));
  const std::uint32_t too_large = wire::kBodyBytesMax + 1;
  std::memcpy(oversize.data() + 16, &too_large, sizeof(too_large));  // the body's length
  header.kind = wire::FrameKind::kReply;
  std::string reply(wire::kHeaderBytes, '\0');
  wire::encode_header(header, {}, reinterpret_cast<std::byte*>(reply.data()));
  for (const std::string& bytes : {broken, oversize, reply, std::string(4096, 'z')}) {
    const env::Fd fd = admitted();
    send(fd, bytes);
    EXPECT_TRUE(closed_by_node(fd));
  }
  send(good, put_frame("a", 8));
  std::string payload(16, 'p');
  const std::uint64_t sum = checksum64(std::as_bytes(std::span(payload).first(8)));
  std::memcpy(payload.data() + 8, &sum, sizeof(sum));
  send(good, payload);
  EXPECT_TRUE(soon([this] { return node_->objects() == 1; }));
}

TEST_F(NodeTest, AHalfSentPutGivesItsSpaceBack) {
  options_.stall_timeout = std::chrono::milliseconds(100);
  start();
  for (const bool hang_up : {true, false}) {
    env::Fd fd = admitted();
    send(fd, put_frame("a", 1 << 20));
    send(fd, std::string(500'000, 'v'));
    EXPECT_TRUE(soon([this] { return node_->reserved_bytes() == 1 << 20; }));
    EXPECT_EQ(node_->used_bytes() + node_->free_bytes(), node_->capacity_bytes());
    const env::Nanos before = env::monotonic_now();
    if (hang_up) {
      fd.reset();
    } else {
      EXPECT_TRUE(closed_by_node(fd));
    }
    EXPECT_TRUE(soon([this] { return node_->reserved_bytes() == 0; }));
    EXPECT_LT(env::monotonic_now() - before, 2 * env::kSecond);
    EXPECT_EQ(node_->used_bytes(), 0U);
  }
  expect_clean();
}

TEST_F(NodeTest, AnIdleConnectionIsNoStalledOne) {
  options_.stall_timeout = std::chrono::milliseconds(20);
  start();
  const env::Fd fd = admitted();
  const env::Nanos then = env::monotonic_now() + 300 * env::kMilli;
  EXPECT_TRUE(soon([then] { return env::monotonic_now() > then; }));
  EXPECT_EQ(node_->connections(), 1U);
}

}  // namespace
}  // namespace larder::node
