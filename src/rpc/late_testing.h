// SPDX-License-Identifier: Apache-2.0
// A service that passes calls on, for the tests of late replies.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "rpc/rpc_testing.h"

namespace larder::rpc {

struct LateCall {
  std::string text;
  Responder responder;
};

// Passes on every call but info, which is answered at once by saying the body again.
class LateService final : public Service {
 public:
  std::unique_ptr<Session> open_session(const Peer& peer) override;
  std::vector<int> shared_descriptors() override { return {}; }
  Result<std::pair<std::uint64_t, std::shared_ptr<void>>> adopt_buffer(env::Fd,
                                                                       std::uint64_t) override {
    return fail(Code::kUnsupported, "no buffers here");
  }

  void add(LateCall call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
    changed_.notify_all();
  }
  // Waits until `count` calls are here, and takes all that are. Fewer: time is up.
  std::vector<LateCall> take(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return calls_.size() >= count; });
    return std::exchange(calls_, {});
  }
  std::vector<LateCall> poll() { return take(0); }
  std::size_t waiting() {
    const std::lock_guard lock(mutex_);
    return calls_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<LateCall> calls_;
};

class LateSession final : public Session {
 public:
  explicit LateSession(LateService& service) : service_(service) {}
  Intake on_request(const wire::FrameHeader& header, std::string_view body) override {
    Intake intake;
    if (header.op == wire::Op::kInfo) {
      intake.reply.emplace();
      intake.reply->frame = body_frame(body_text(body));
      return intake;
    }
    intake.later = [this, text = body_text(body)](Responder responder) {
      service_.add({text, std::move(responder)});
    };
    return intake;
  }
  Intake on_payload_end(const wire::FrameHeader& /*header*/) override { return Reply(); }

 private:
  LateService& service_;
};

inline std::unique_ptr<Session> LateService::open_session(const Peer& /*peer*/) {
  return std::make_unique<LateSession>(*this);
}

inline Reply text_reply(const std::string& text) {
  Reply reply;
  reply.frame = body_frame(text);
  return reply;
}

// `bytes` of payload; counts the sources that still exist.
class CountedSource final : public PayloadSource {
 public:
  CountedSource(std::size_t bytes, std::atomic<int>& alive)
      : bytes_(pattern(bytes, bytes)), alive_(alive) {
    ++alive_;
  }
  ~CountedSource() override { --alive_; }
  std::size_t next(std::span<iovec> into) override { return bytes_.next(into); }

 private:
  BytesSource bytes_;
  std::atomic<int>& alive_;
};

inline Reply payload_reply(std::size_t bytes, std::atomic<int>& alive) {
  Reply reply = text_reply("payload");
  reply.payload = std::make_unique<CountedSource>(bytes, alive);
  reply.payload_bytes = bytes;
  return reply;
}

}  // namespace larder::rpc
