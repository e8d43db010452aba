// SPDX-License-Identifier: Apache-2.0
// For the tests of this folder: a small service over real sockets, calls that record what happened,
// and a peer that does whatever a test scripts.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"
#include "env/clock.h"
#include "env/random.h"
#include "env/socket.h"
#include "larder.pb.h"
#include "rpc/channel.h"
#include "rpc/server.h"
#include "wire/message.h"

namespace larder::rpc {

inline env::Nanos after(env::Nanos duration) {
  return env::monotonic_now() + duration;
}
inline env::Nanos later() {
  return after(30 * env::kSecond);
}

inline std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> out(bytes);
  for (std::byte& b : out) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    b = static_cast<std::byte>(seed >> 56);
  }
  return out;
}

inline std::string body_frame(std::string_view text) {
  pb::ErrorReply body;
  body.set_text(std::string(text));
  return wire::frame_with(body);
}
inline std::string body_text(std::string_view body) {
  pb::ErrorReply message;
  return message.ParseFromArray(body.data(), static_cast<int>(body.size())) ? message.text()
                                                                            : "(malformed)";
}
inline std::string sealed(wire::FrameHeader header, std::string_view text) {
  std::string frame = body_frame(text);
  wire::seal_frame(header, frame);
  return frame;
}

// A place of fixed size; what does not fit is turned away.
class FlatSink final : public PayloadSink {
 public:
  void set(std::span<std::byte> room) { room_ = room; }
  std::size_t next(std::span<iovec> into) override {
    if (room_.empty()) return 0;
    into[0] = {room_.data(), room_.size()};
    return 1;
  }
  void advance(std::size_t bytes) override { room_ = room_.subspan(bytes); }

 private:
  std::span<std::byte> room_;
};

// Outgoing bytes in pieces of at most `piece` bytes.
class BytesSource final : public PayloadSource {
 public:
  explicit BytesSource(std::vector<std::byte> bytes, std::size_t piece = 100'000)
      : bytes_(std::move(bytes)), piece_(piece) {}
  std::size_t next(std::span<iovec> into) override {
    std::size_t count = 0;
    while (count < into.size() && at_ < bytes_.size()) {
      const std::size_t n = std::min(piece_, bytes_.size() - at_);
      into[count++] = {bytes_.data() + at_, n};
      at_ += n;
    }
    return count;
  }

 private:
  std::vector<std::byte> bytes_;
  std::size_t piece_;
  std::size_t at_ = 0;
};

// info: says the body again. put: takes the payload and says its checksum. get: the body is a size;
// answers pattern(size, size). stat: sends the payload back. remove: refuses whatever comes.
class EchoService final : public Service {
 public:
  std::unique_ptr<Session> open_session(const Peer& peer) override;
  std::vector<int> shared_descriptors() override { return descriptors; }
  Result<std::pair<std::uint64_t, std::shared_ptr<void>>> adopt_buffer(
      env::Fd fd, std::uint64_t bytes) override {
    if (bytes == 0) return fail(Code::kInvalidArgument, "an empty buffer");
    return std::pair<std::uint64_t, std::shared_ptr<void>>(
        bytes + 1, std::make_shared<env::Fd>(std::move(fd)));
  }

  std::vector<int> descriptors;
  std::atomic<int> sessions{0};
  std::atomic<int> requests{0};
};

class EchoSession final : public Session {
 public:
  explicit EchoSession(EchoService& service) : service_(service) { ++service_.sessions; }
  ~EchoSession() override { --service_.sessions; }

  Intake on_request(const wire::FrameHeader& header, std::string_view body) override {
    ++service_.requests;
    text_ = body_text(body);
    Intake intake;
    if (header.op == wire::Op::kRemove) {
      intake.reply = error_reply(Error(Code::kPermissionDenied, "refused: " + text_));
    } else {
      received_.assign(header.payload_bytes, std::byte{0});
      sink_.set(received_);
      intake.sink = &sink_;
    }
    return intake;
  }
  Intake on_payload_end(const wire::FrameHeader& header) override {
    Reply reply;
    if (header.op == wire::Op::kPut) text_ = std::to_string(checksum64(received_));
    if (header.op == wire::Op::kGet) {
      const std::size_t size = std::stoull(text_);
      received_ = pattern(size, size);
    }
    if (header.op == wire::Op::kGet || header.op == wire::Op::kStat) {
      reply.payload_bytes = received_.size();
      reply.payload = std::make_unique<BytesSource>(std::move(received_));
    }
    reply.frame = body_frame(text_);
    return reply;
  }

 private:
  EchoService& service_;
  std::string text_;
  std::vector<std::byte> received_;
  FlatSink sink_;
};

inline std::unique_ptr<Session> EchoService::open_session(const Peer& /*peer*/) {
  return std::make_unique<EchoSession>(*this);
}

// One call and everything that happened to it.
class TestCall final : public Call {
 public:
  // The reply's payload goes to `room`, if given, else to as much memory as it needs.
  explicit TestCall(std::span<std::byte> room = {}) : room_(room) {}

  PayloadSink* on_reply(const wire::FrameHeader& reply, std::string_view body) override {
    header = reply;
    text = body_text(body);
    if (room_.empty()) {
      payload.assign(reply.payload_bytes, std::byte{0});
      sink_.set(payload);
    } else {
      sink_.set(room_);
    }
    return &sink_;
  }
  void on_done(const Error* failure) override {
    const std::lock_guard lock(mutex_);
    if (failure != nullptr) error = *failure;
    ++ends;
    changed_.notify_all();
  }
  bool wait_end() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [this] { return ends > 0; });
  }
  Code code() const { return error ? error->code() : header.code; }

  wire::FrameHeader header;
  std::string text;
  std::vector<std::byte> payload;
  std::optional<Error> error;
  int ends = 0;  // must end up at 1

 private:
  std::span<std::byte> room_;
  FlatSink sink_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

inline void start(Channel& channel, TestCall& call, wire::Op op, std::string_view text,
                  std::vector<std::byte> payload, env::Nanos deadline, bool waited) {
  wire::FrameHeader header;
  header.op = op;
  header.payload_bytes = payload.size();
  BytesSource source(std::move(payload));
  channel.send(call, header, body_frame(text), header.payload_bytes > 0 ? &source : nullptr,
               deadline, waited ? Attendance::kWaited : Attendance::kPumped);
}
// Sends and waits.
inline void run(Channel& channel, TestCall& call, wire::Op op, std::string_view text,
                std::vector<std::byte> payload = {}, env::Nanos deadline = later()) {
  start(channel, call, op, text, std::move(payload), deadline, true);
  channel.wait(call);
}

// A directory of its own for each test's sockets.
class RpcTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "larder-rpc-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  env::SocketAddress unix_address() const {
    return env::SocketAddress::parse("unix:" + dir_ + "/node.sock").value();
  }

  std::string dir_;
};

// A node that shakes hands and then does what the script says with the connection.
class ScriptedNode {
 public:
  using Script = std::function<void(int fd)>;
  ScriptedNode(const env::SocketAddress& address, Script script,
               const wire::ServerHello& hello = {})
      : listener_(env::listen_on(address, 8).value()),
        thread_([this, script = std::move(script), hello] { serve(script, hello); }) {}
  ~ScriptedNode() { thread_.join(); }

 private:
  void serve(const Script& script, const wire::ServerHello& hello) {
    env::Fd fd;
    while (env::accept_from(listener_.get(), fd).status != env::IoStatus::kOk) {
      if (env::wait_ready(listener_.get(), env::kReadable, later()) == 0) return;
    }
    std::array<std::byte, wire::kClientHelloBytes> client{};
    if (!env::receive_all(fd.get(), client, later())) return;
    if (!env::send_all(fd.get(), wire::encode(hello), later())) return;
    if (hello.version != wire::kProtocolVersion) return;
    std::array<std::byte, wire::kProofBytes> proof{};
    if (hello.token_required && !env::receive_all(fd.get(), proof, later())) return;
    if (!env::send_all(fd.get(), wire::encode(wire::Verdict{}), later())) return;
    script(fd.get());
  }

  env::Fd listener_;
  std::thread thread_;
};

// The next frame that comes in, without its payload. A call id of 0 means that none came.
inline wire::FrameHeader next_frame(int fd, std::string* text = nullptr) {
  std::array<std::byte, wire::kHeaderBytes> raw{};
  if (!env::receive_all(fd, raw, later())) return {};
  const wire::FrameHeader header = wire::decode_header(raw).value();
  std::string body(header.body_bytes, '\0');
  if (!env::receive_all(fd, std::as_writable_bytes(std::span(body)), later())) return {};
  if (text != nullptr) *text = body_text(body);
  return header;
}
// True when the peer closes the connection, whatever it sends before.
inline bool closes(int fd) {
  std::array<std::byte, 4096> bytes{};
  const env::Nanos deadline = later();
  while (true) {
    const env::IoResult got = env::receive(fd, bytes.data(), bytes.size());
    if (got.status == env::IoStatus::kClosed) return true;
    if (got.status == env::IoStatus::kError) return false;
    if (got.status == env::IoStatus::kWouldBlock &&
        env::wait_ready(fd, env::kReadable, deadline) == 0) {
      return false;
    }
  }
}

}  // namespace larder::rpc
