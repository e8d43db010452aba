// SPDX-License-Identifier: Apache-2.0
#include "env/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"

namespace larder::env {
namespace {

Nanos soon() {
  return monotonic_now() + 20 * kMilli;
}
Nanos later() {
  return monotonic_now() + 20 * kSecond;
}

// ---- addresses ----

TEST(SocketAddress, ParsesWhatItPrints) {
  for (const char* text :
       {"unix:/run/larder/node.sock", "unix:relative.sock", "tcp:localhost:7411", "tcp:127.0.0.1:0",
        "tcp:[::1]:65535", "tcp:node-3.rack_2.example:80", "tcp:[fe80::1%eth0]:1"}) {
    const auto address = SocketAddress::parse(text);
    ASSERT_TRUE(address) << text << ": " << address.error().to_string();
    EXPECT_EQ(address->to_string(), text);
  }
}

TEST(SocketAddress, ShortForms) {
  EXPECT_EQ(SocketAddress::parse("/a.sock")->to_string(), "unix:/a.sock");
  EXPECT_EQ(SocketAddress::parse("host:1")->to_string(), "tcp:host:1");
  EXPECT_EQ(SocketAddress::parse("[::]:1")->to_string(), "tcp:[::]:1");
}

TEST(SocketAddress, RefusesWhatIsNoAddress) {
  const std::vector<std::string> bad = {"",
                                        ":",
                                        "unix:",
                                        "tcp:",
                                        "tcp::",
                                        "host",
                                        "host:",
                                        ":80",
                                        "tcp::80",
                                        "host:65536",
                                        "host:99999999999999999999",
                                        "host:-1",
                                        "host:+1",
                                        "host: 1",
                                        "host:1 ",
                                        "host:0x10",
                                        "host:1:",
                                        "::1:80",
                                        "tcp:::1:80",
                                        "[]:80",
                                        "[::1]",
                                        "[host]:80",
                                        "[fg1%eth0]:80",
                                        "fe80%eth0:80",
                                        "[::1:80",
                                        "::1]:80",
                                        "[[::1]]:80",
                                        "ho st:80",
                                        "ho\nst:80",
                                        "host\n:80",
                                        "host:80\n",
                                        "http://host:80",
                                        "user@host:80",
                                        std::string("host\0evil:80", 12),
                                        std::string("unix:/a\0b", 9),
                                        std::string("unix:\0x", 7),
                                        std::string(300, 'h') + ":80",
                                        "unix:/" + std::string(107, 'x'),
                                        std::string(100'000, ':')};
  for (const std::string& text : bad) {
    const auto address = SocketAddress::parse(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().code(), Code::kInvalidArgument) << text;
    // Hostile text neither floods nor forges a log.
    EXPECT_LT(address.error().message().size(), 400U);
    EXPECT_EQ(address.error().message().find('\n'), std::string::npos);
    EXPECT_EQ(address.error().message().find('\0'), std::string::npos);
  }
  EXPECT_TRUE(SocketAddress::parse("unix:/" + std::string(106, 'x')));
}

TEST(SocketAddress, OnlyNumbersAndLocalhostAreLoopback) {
  const auto loopback = [](const char* text) { return SocketAddress::parse(text)->is_loopback(); };
  EXPECT_TRUE(loopback("unix:/a"));
  EXPECT_TRUE(loopback("localhost:1"));
  EXPECT_TRUE(loopback("127.0.0.1:1"));
  EXPECT_TRUE(loopback("127.9.8.7:1"));
  EXPECT_TRUE(loopback("[::1]:1"));
  EXPECT_FALSE(loopback("0.0.0.0:1"));
  EXPECT_FALSE(loopback("[::]:1"));
  EXPECT_FALSE(loopback("10.0.0.1:1"));
  EXPECT_FALSE(loopback("127.0.0.1.example.org:1"));
  EXPECT_FALSE(loopback("127.example.org:1"));
}

// ---- sockets ----

class SocketTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "larder-socket-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  SocketAddress unix_at(const std::string& name) const {
    return SocketAddress::parse("unix:" + dir_ + "/" + name).value();
  }

  // Both ends of a new connection.
  struct Pair {
    Fd client;
    Fd server;
  };
  static Pair connect_pair(int listener, const SocketAddress& address) {
    Pair pair;
    pair.client = connect_to(address, later()).value();
    EXPECT_NE(wait_ready(listener, kReadable, later()), 0);
    EXPECT_EQ(accept_from(listener, pair.server).status, IoStatus::kOk);
    return pair;
  }
  Pair unix_pair() {
    const SocketAddress address = unix_at("pair.sock");
    const Fd listener = listen_on(address, 8).value();
    return connect_pair(listener.get(), address);
  }

  std::string dir_;
};

void expect_talks(int a, int b) {
  const std::string text = "a few bytes";
  ASSERT_TRUE(send_all(a, as_bytes(text), later()));
  std::string got(text.size(), '\0');
  ASSERT_TRUE(receive_all(b, std::as_writable_bytes(std::span(got)), later()));
  EXPECT_EQ(got, text);
}

TEST_F(SocketTest, Tcp) {
  SocketAddress address = SocketAddress::parse("tcp:127.0.0.1:0").value();
  const Fd listener = listen_on(address, 8).value();
  Fd none;
  EXPECT_EQ(accept_from(listener.get(), none).status, IoStatus::kWouldBlock);
  address.port = local_port(listener.get()).value();
  EXPECT_NE(address.port, 0);
  const Pair pair = connect_pair(listener.get(), address);
  expect_talks(pair.client.get(), pair.server.get());
  expect_talks(pair.server.get(), pair.client.get());
  EXPECT_EQ(local_address(pair.server.get()).value().to_string(), address.to_string());
  for (const int fd : {listener.get(), pair.client.get(), pair.server.get()}) {
    EXPECT_NE(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST_F(SocketTest, Unix) {
  const Pair pair = unix_pair();
  expect_talks(pair.client.get(), pair.server.get());
  expect_talks(pair.server.get(), pair.client.get());
  const PeerUser user = peer_user(pair.server.get()).value();
  EXPECT_EQ(user.uid, ::geteuid());
  EXPECT_EQ(user.pid, ::getpid());
}

TEST_F(SocketTest, UnixSocketsAreForTheUserOnly) {
  const mode_t old_mask = ::umask(0);
  const SocketAddress address = unix_at("mode.sock");
  const auto listener = listen_on(address, 8);
  ::umask(old_mask);
  ASSERT_TRUE(listener);
  struct stat info {};
  ASSERT_EQ(::stat(address.path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0600U);
}

TEST_F(SocketTest, ListenReplacesASocketButNoFile) {
  const SocketAddress address = unix_at("old.sock");
  { const Fd old = listen_on(address, 8).value(); }
  EXPECT_TRUE(listen_on(address, 8));
  const SocketAddress file = unix_at("precious");
  std::ofstream(file.path) << "data";
  const auto refused = listen_on(file, 8);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::exists(file.path));
}

TEST_F(SocketTest, NobodyThere) {
  const auto unix_end = connect_to(unix_at("nobody.sock"), later());
  ASSERT_FALSE(unix_end);
  EXPECT_EQ(unix_end.error().code(), Code::kUnavailable);
  // A port that was just given up: nobody listens on it.
  SocketAddress address = SocketAddress::parse("tcp:127.0.0.1:0").value();
  {
    const Fd listener = listen_on(address, 1).value();
    address.port = local_port(listener.get()).value();
  }
  const auto tcp_end = connect_to(address, later());
  ASSERT_FALSE(tcp_end);
  EXPECT_EQ(tcp_end.error().code(), Code::kUnavailable);
  EXPECT_NE(tcp_end.error().message().find(address.to_string()), std::string::npos);
}

TEST_F(SocketTest, ListenErrorsNameTheAddress) {
  const SocketAddress missing = unix_at("no/such/dir.sock");
  const auto refused = listen_on(missing, 8);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kUnavailable);
  EXPECT_NE(refused.error().message().find(missing.path), std::string::npos);
}

// A peer that never answers costs the deadline and no more.
TEST_F(SocketTest, DeadlinesHold) {
  const Pair pair = unix_pair();
  std::array<std::byte, 4> four{};
  const Nanos start = monotonic_now();
  const auto answer = receive_all(pair.client.get(), four, soon());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::kDeadlineExceeded);
  EXPECT_GE(monotonic_now() - start, 19 * kMilli);
  const std::vector<std::byte> much(32 << 20);
  const auto sent = send_all(pair.client.get(), much, soon());
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code(), Code::kDeadlineExceeded);
  const auto fds = receive_fds(pair.client.get(), 1, soon());
  ASSERT_FALSE(fds);
  EXPECT_EQ(fds.error().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(wait_ready(pair.client.get(), kReadable, soon()), 0);
  EXPECT_EQ(wait_ready(pair.client.get(), kReadable, 0), 0);  // long past
}

TEST_F(SocketTest, TcpConnectGivesUpAtTheDeadline) {
  // A listener whose backlog is full does not answer further connects.
  SocketAddress address = SocketAddress::parse("tcp:127.0.0.1:0").value();
  const Fd listener = listen_on(address, 0).value();
  address.port = local_port(listener.get()).value();
  std::vector<Fd> waiting;
  for (int i = 0; i < 64; ++i) {
    auto fd = connect_to(address, soon());
    if (!fd) {
      EXPECT_EQ(fd.error().code(), Code::kDeadlineExceeded) << fd.error().to_string();
      return;
    }
    waiting.push_back(std::move(*fd));
  }
  FAIL() << "64 connects fit a backlog of 0";
}

TEST_F(SocketTest, PeerThatWentAway) {
  Pair pair = unix_pair();
  pair.server.reset();
  std::array<std::byte, 4> four{};
  const auto answer = receive_all(pair.client.get(), four, later());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::kUnavailable);
  const auto sent = send_all(pair.client.get(), four, later());  // and no SIGPIPE
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code(), Code::kUnavailable);
  EXPECT_EQ(receive(pair.client.get(), four.data(), 4).status, IoStatus::kClosed);
  EXPECT_FALSE(receive_fds(pair.client.get(), 1, later()));
}

TEST_F(SocketTest, ScatterAndGather) {
  const Pair pair = unix_pair();
  std::string a = "one";
  std::string b = "three";
  const std::array<iovec, 2> out = {iovec{a.data(), a.size()}, iovec{b.data(), b.size()}};
  EXPECT_EQ(send(pair.client.get(), out).bytes, 8U);
  std::array<char, 2> first{};
  std::array<char, 10> second{};
  std::array<iovec, 2> in = {iovec{first.data(), 2}, iovec{second.data(), 10}};
  EXPECT_EQ(receive(pair.server.get(), in).bytes, 8U);
  EXPECT_EQ(std::string(first.data(), 2) + second.data(), "onethree");
  EXPECT_EQ(receive(pair.server.get(), in).status, IoStatus::kWouldBlock);
}

// ---- descriptors ----

TEST_F(SocketTest, PassesDescriptors) {
  const Pair pair = unix_pair();
  const std::string path = dir_ + "/file";
  std::ofstream(path) << "contents";
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::array<int, 2> fds = {file.get(), file.get()};
  ASSERT_TRUE(send_fds(pair.client.get(), fds, later()));
  const auto got = receive_fds(pair.server.get(), 2, later());
  ASSERT_TRUE(got) << got.error().to_string();
  for (const Fd& fd : *got) {
    EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
    std::array<char, 8> text{};
    EXPECT_EQ(::pread(fd.get(), text.data(), 8, 0), 8);
    EXPECT_EQ(std::string(text.data(), 8), "contents");
  }
}

int open_descriptors() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

TEST_F(SocketTest, WrongNumberOfDescriptorsIsRefusedAndNoneLeaks) {
  const Pair pair = unix_pair();
  const std::vector<int> many(16, pair.client.get());
  const int before = open_descriptors();
  ASSERT_TRUE(send_fds(pair.client.get(), many, later()));
  auto got = receive_fds(pair.server.get(), 3, later());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kCorrupt);
  ASSERT_TRUE(send_fds(pair.client.get(), std::span(many).first(1), later()));
  EXPECT_FALSE(receive_fds(pair.server.get(), 2, later()));
  ASSERT_TRUE(send_all(pair.client.get(), as_bytes("F"), later()));  // a byte and no descriptor
  got = receive_fds(pair.server.get(), 1, later());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kCorrupt);
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(SocketTest, DescriptorCountsOutOfBounds) {
  const Pair pair = unix_pair();
  const std::vector<int> many(129, pair.client.get());
  EXPECT_EQ(send_fds(pair.client.get(), many, later()).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(send_fds(pair.client.get(), {}, later()).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(receive_fds(pair.client.get(), 0, later()).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(receive_fds(pair.client.get(), 129, later()).error().code(), Code::kInvalidArgument);
}

TEST(Fd, OwnsItsDescriptor) {
  Fd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = fd.get();
  Fd moved = std::move(fd);
  EXPECT_FALSE(fd.valid());
  EXPECT_EQ(moved.get(), number);
  Fd& self = moved;
  moved = std::move(self);
  EXPECT_EQ(moved.get(), number);
  const int released = moved.release();
  EXPECT_EQ(released, number);
  EXPECT_NE(::fcntl(number, F_GETFD), -1);
  moved.reset(number);
  moved.reset();
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

TEST(ErrnoText, NamesTheError) {
  EXPECT_NE(errno_text(ENOENT).find("No such file"), std::string::npos);
  EXPECT_NE(errno_text(ENOENT).find("errno 2"), std::string::npos);
}

}  // namespace
}  // namespace larder::env
