// SPDX-License-Identifier: Apache-2.0
#include "rpc/frame_receiver.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "rpc/rpc_testing.h"

namespace larder::rpc {
namespace {

struct Seen {
  std::uint64_t call_id = 0;
  std::string body;
  std::string payload;
  bool ended = false;
};

// Many small places over one buffer; knows that the receiver keeps within them.
class SmallPlaces final : public PayloadSink {
 public:
  SmallPlaces(std::size_t bytes, std::size_t place) : data_(bytes, '.'), place_(place) {}
  std::size_t next(std::span<iovec> into) override {
    std::size_t count = 0;
    offered_ = 0;
    while (count < into.size() && at_ + offered_ < data_.size()) {
      const std::size_t n = std::min(place_, data_.size() - at_ - offered_);
      into[count++] = {data_.data() + at_ + offered_, n};
      offered_ += n;
    }
    return count;
  }
  void advance(std::size_t bytes) override {
    ASSERT_LE(bytes, offered_);
    ASSERT_GT(bytes, 0U);
    at_ += bytes;
    offered_ = 0;
  }
  const std::string& data() const { return data_; }
  std::size_t filled() const { return at_; }

 private:
  std::string data_;
  std::size_t place_;
  std::size_t at_ = 0;
  std::size_t offered_ = 0;
};

class Recorder final : public FrameObserver {
 public:
  explicit Recorder(std::size_t place = 1 << 20) : place_(place) {}

  Result<PayloadSink*> on_frame(const wire::FrameHeader& header, std::string_view body) override {
    EXPECT_TRUE(seen.empty() || seen.back().ended);
    seen.push_back({header.call_id, std::string(body), "", header.payload_bytes == 0});
    if (refuse) return fail(Code::kUnsupported, "refused");
    if (discard) return nullptr;
    sink = std::make_unique<SmallPlaces>(room ? *room : header.payload_bytes, place_);
    return sink.get();
  }
  Result<void> on_payload_end() override {
    EXPECT_FALSE(seen.back().ended);
    seen.back().ended = true;
    if (sink) seen.back().payload = sink->data();
    return {};
  }
  bool accepts_frames() const noexcept override { return accepting; }

  std::vector<Seen> seen;
  std::unique_ptr<SmallPlaces> sink;
  std::optional<std::size_t> room;  // of the sink, when it is not the payload's size
  bool discard = false;
  bool refuse = false;
  bool accepting = true;

 private:
  std::size_t place_;
};

std::string text_of(std::size_t bytes, std::uint64_t seed) {
  return std::string(as_text(pattern(bytes, seed)));
}

std::string frame(std::uint64_t call_id, const std::string& body, const std::string& payload) {
  wire::FrameHeader header;
  header.call_id = call_id;
  header.payload_bytes = payload.size();
  std::string out(wire::kHeaderBytes, '\0');
  wire::encode_header(header, body, reinterpret_cast<std::byte*>(out.data()));
  return out + body + payload;
}

void expect_three(const Recorder& got, const std::string& body, const std::string& payload) {
  ASSERT_EQ(got.seen.size(), 3U);
  EXPECT_EQ(got.seen[0].call_id, 1U);
  EXPECT_EQ(got.seen[0].body, body);
  EXPECT_EQ(got.seen[1].payload, payload);
  EXPECT_EQ(got.seen[2].call_id, 3U);
  for (const Seen& seen : got.seen) EXPECT_TRUE(seen.ended);
}

TEST(FrameReceiver, FramesCutAtEveryByte) {
  const std::string body = text_of(37, 1);
  const std::string payload = text_of(61, 2);
  const std::string stream = frame(1, body, "") + frame(2, "", payload) + frame(3, "", "");
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    FrameReceiver receiver;
    Recorder got;
    ASSERT_TRUE(receiver.feed(as_bytes(stream).first(cut), got));
    ASSERT_TRUE(receiver.feed(as_bytes(stream).subspan(cut), got));
    expect_three(got, body, payload);
    EXPECT_FALSE(receiver.in_frame());
  }
}

TEST(FrameReceiver, FramesByteByByte) {
  const std::string body = text_of(20'000, 3);  // larger than the buffer
  const std::string payload = text_of(40'000, 4);
  const std::string stream = frame(1, body, "") + frame(2, body, payload) + frame(3, "", "");
  FrameReceiver receiver;
  Recorder got(7);
  for (const std::byte& byte : as_bytes(stream)) {
    ASSERT_TRUE(receiver.feed(std::span(&byte, 1), got));
  }
  expect_three(got, body, payload);
}

// Bodies around the buffer's size, and far above it.
TEST(FrameReceiver, BodiesOfEverySize) {
  constexpr std::size_t kBuffer = 16 << 10;
  for (const std::size_t bytes :
       {kBuffer - wire::kHeaderBytes - 1, kBuffer - wire::kHeaderBytes,
        kBuffer - wire::kHeaderBytes + 1, kBuffer, kBuffer * 2, std::size_t{1'500'000}}) {
    const std::string body = text_of(bytes, bytes);
    const std::string stream = frame(1, body, "") + frame(2, "x", "yz") + frame(3, "", "");
    for (const std::size_t step : {stream.size(), std::size_t{1000}, kBuffer + 1}) {
      FrameReceiver receiver;
      Recorder got;
      for (std::size_t at = 0; at < stream.size(); at += step) {
        ASSERT_TRUE(
            receiver.feed(as_bytes(stream).subspan(at, std::min(step, stream.size() - at)), got));
      }
      expect_three(got, body, "yz");
    }
  }
}

TEST(FrameReceiver, PayloadOfManySmallPlaces) {
  const std::string payload = text_of(100'003, 5);
  for (const std::size_t place : {1U, 3U, 4096U, 200'000U}) {
    FrameReceiver receiver;
    Recorder got(place);
    ASSERT_TRUE(receiver.feed(as_bytes(frame(2, "b", payload)), got));
    ASSERT_EQ(got.seen.size(), 1U);
    EXPECT_EQ(got.seen[0].payload, payload) << place;
  }
}

TEST(FrameReceiver, SinkThatRunsOutLosesTheRestOnly) {
  const std::string payload = text_of(50'000, 6);
  for (const std::size_t room : {std::size_t{0}, std::size_t{1}, std::size_t{49'999}}) {
    FrameReceiver receiver;
    Recorder got(1000);
    got.room = room;
    ASSERT_TRUE(receiver.feed(as_bytes(frame(1, "", payload) + frame(2, "next", "")), got));
    ASSERT_EQ(got.seen.size(), 2U);
    EXPECT_EQ(got.seen[0].payload, payload.substr(0, room));
    EXPECT_EQ(got.seen[1].body, "next");
  }
}

TEST(FrameReceiver, SinkWithEmptyPlacesIsTakenAsFull) {
  class Empty final : public PayloadSink {
   public:
    std::size_t next(std::span<iovec> into) override {
      into[0] = {nullptr, 0};
      return 1;
    }
    void advance(std::size_t bytes) override { FAIL() << bytes << " bytes into an empty place"; }
  };
  class Observer final : public FrameObserver {
   public:
    Result<PayloadSink*> on_frame(const wire::FrameHeader&, std::string_view) override {
      return &sink;
    }
    Result<void> on_payload_end() override {
      ++ends;
      return {};
    }
    Empty sink;
    int ends = 0;
  };
  FrameReceiver receiver;
  Observer observer;
  ASSERT_TRUE(receiver.feed(as_bytes(frame(1, "", text_of(1000, 7))), observer));
  EXPECT_EQ(observer.ends, 1);
}

TEST(FrameReceiver, UnwantedPayloadIsPassedOver) {
  FrameReceiver receiver;
  Recorder got;
  got.discard = true;
  ASSERT_TRUE(
      receiver.feed(as_bytes(frame(1, "", text_of(300'000, 8)) + frame(2, "next", "")), got));
  ASSERT_EQ(got.seen.size(), 2U);
  EXPECT_TRUE(got.seen[0].ended);
  EXPECT_EQ(got.seen[1].body, "next");
}

TEST(FrameReceiver, DiscardInMidPayloadLeavesTheSinkAlone) {
  const std::string stream = frame(1, "", text_of(10'000, 9)) + frame(2, "next", "");
  FrameReceiver receiver;
  Recorder got;
  receiver.discard_payload();  // nothing comes in: harmless
  ASSERT_TRUE(receiver.feed(as_bytes(stream).first(5000), got));
  EXPECT_TRUE(receiver.in_payload());
  const std::size_t filled = got.sink->filled();
  receiver.discard_payload();
  got.sink.reset();  // whoever touches it now is found by the sanitizers
  ASSERT_TRUE(receiver.feed(as_bytes(stream).subspan(5000), got));
  EXPECT_GT(filled, 4000U);
  ASSERT_EQ(got.seen.size(), 2U);
  EXPECT_EQ(got.seen[1].body, "next");
}

// ---- broken streams ----

Code feed_code(const std::string& stream, Recorder& got) {
  FrameReceiver receiver;
  const auto fed = receiver.feed(as_bytes(stream), got);
  return fed ? Code::kOk : fed.error().code();
}

TEST(FrameReceiver, OversizeAnnouncementsAreRefusedAtOnce) {
  std::string stream = frame(1, "", "");
  store_le<std::uint32_t>(stream.data() + 16, wire::kBodyBytesMax + 1);
  Recorder got;
  EXPECT_EQ(feed_code(stream, got), Code::kCorrupt);
  stream = frame(1, "", "");
  store_le<std::uint64_t>(stream.data() + 24, wire::kPayloadBytesMax + 1);
  EXPECT_EQ(feed_code(stream, got), Code::kCorrupt);
  EXPECT_TRUE(got.seen.empty());
}

TEST(FrameReceiver, CorruptFramesReachNobody) {
  const std::string good = frame(1, text_of(100, 10), "");
  for (std::size_t at = 0; at < good.size(); at += 5) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    Recorder got;
    FrameReceiver receiver;
    const auto fed = receiver.feed(as_bytes(bad), got);
    EXPECT_TRUE(!fed || receiver.in_frame()) << at;  // a larger length waits for more
    EXPECT_TRUE(got.seen.empty()) << at;
  }
}

TEST(FrameReceiver, CorruptLargeBodyReachesNobody) {
  std::string stream = frame(1, text_of(100'000, 11), "");
  stream[70'000] = static_cast<char>(stream[70'000] ^ 1);
  Recorder got;
  EXPECT_EQ(feed_code(stream, got), Code::kCorrupt);
  EXPECT_TRUE(got.seen.empty());
}

TEST(FrameReceiver, RefusalOfTheObserverEndsTheStream) {
  Recorder got;
  got.refuse = true;
  EXPECT_EQ(feed_code(frame(1, "", "") + frame(2, "", ""), got), Code::kUnsupported);
  EXPECT_EQ(got.seen.size(), 1U);
}

TEST(FrameReceiver, FramesWaitForAnObserverThatAcceptsNone) {
  FrameReceiver receiver;
  Recorder got;
  got.accepting = false;
  ASSERT_TRUE(receiver.feed(as_bytes(frame(1, "a", "") + frame(2, "b", "payload")), got));
  EXPECT_TRUE(got.seen.empty());
  EXPECT_TRUE(receiver.in_frame());
  ASSERT_TRUE(receiver.resume(got));
  EXPECT_TRUE(got.seen.empty());
  got.accepting = true;
  ASSERT_TRUE(receiver.resume(got));
  ASSERT_EQ(got.seen.size(), 2U);
  EXPECT_EQ(got.seen[1].payload, "payload");
}

// ---- over a socket ----

class ReceiverSocketTest : public RpcTest {
 protected:
  void SetUp() override {
    RpcTest::SetUp();
    listener_ = env::listen_on(unix_address(), 4).value();
    sender_ = env::connect_to(unix_address(), later()).value();
    ASSERT_EQ(env::accept_from(listener_.get(), end_).status, env::IoStatus::kOk);
  }
  // Receives until `done`, with a budget that cuts anywhere.
  void receive_until(FrameReceiver& receiver, Recorder& got, std::size_t budget,
                     const std::function<bool()>& done) {
    while (!done()) {
      const auto progress = receiver.receive(end_.get(), got, budget);
      ASSERT_TRUE(progress) << progress.error().to_string();
      ASSERT_NE(*progress, Progress::kClosed);
      if (*progress == Progress::kNothing) {
        ASSERT_NE(env::wait_ready(end_.get(), env::kReadable, later()), 0);
      }
    }
  }

  env::Fd listener_;
  env::Fd sender_;
  env::Fd end_;
};

TEST_F(ReceiverSocketTest, LargeAndSmallFrames) {
  const std::string body = text_of(200'000, 12);
  const std::string payload = text_of(3'000'000, 13);
  const std::string stream = frame(1, body, "") + frame(2, "", payload) + frame(3, "", "");
  for (const std::size_t budget : {std::size_t{1}, std::size_t{10'000}, std::size_t{64} << 20}) {
    std::thread sending(
        [&] { ASSERT_TRUE(env::send_all(sender_.get(), as_bytes(stream), later())); });
    FrameReceiver receiver;
    Recorder got(5000);
    receive_until(receiver, got, budget, [&] { return got.seen.size() == 3; });
    sending.join();
    expect_three(got, body, payload);
  }
}

TEST_F(ReceiverSocketTest, TellsNothingFromClosed) {
  FrameReceiver receiver;
  Recorder got;
  EXPECT_EQ(receiver.receive(end_.get(), got, 1000).value(), Progress::kNothing);
  ASSERT_TRUE(env::send_all(sender_.get(), as_bytes(frame(1, "", "")), later()));
  EXPECT_EQ(receiver.receive(end_.get(), got, 1000).value(), Progress::kSome);
  sender_.reset();
  EXPECT_EQ(receiver.receive(end_.get(), got, 1000).value(), Progress::kClosed);
  EXPECT_EQ(got.seen.size(), 1U);
}

// A full buffer of frames that nobody accepts yet is neither lost nor taken for the end.
TEST_F(ReceiverSocketTest, PausedReceiverKeepsWhatItHas) {
  std::string stream;
  for (std::uint64_t id = 1; id <= 2000; ++id) stream += frame(id, "some body", "");
  std::thread sending(
      [&] { ASSERT_TRUE(env::send_all(sender_.get(), as_bytes(stream), later())); });
  FrameReceiver receiver;
  Recorder got;
  receive_until(receiver, got, 1, [&] { return !got.seen.empty(); });
  const std::size_t before = got.seen.size();
  got.accepting = false;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(receiver.receive(end_.get(), got, 1 << 20).value(), Progress::kNothing);
  }
  EXPECT_EQ(got.seen.size(), before);
  got.accepting = true;
  receive_until(receiver, got, 1 << 20, [&] { return got.seen.size() == 2000; });
  sending.join();
  for (std::size_t i = 0; i < got.seen.size(); ++i) EXPECT_EQ(got.seen[i].call_id, i + 1);
}

}  // namespace
}  // namespace larder::rpc
