// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes in arbitrary cuts, and well-formed frames with or without damage: nothing that
// was not sent ever reaches the observer, and what was sent whole reaches it exactly.
#include <string>
#include <vector>

#include "rpc/frame_receiver.h"
#include "tests/fuzz/fuzz_input.h"

using larder::Result;
using larder::fuzz::bytes_of;
using larder::fuzz::FuzzInput;
using larder::fuzz::require;

namespace {

constexpr std::size_t kPayloadKept = 1 << 16;

class Sink final : public larder::rpc::PayloadSink {
 public:
  void reset(std::size_t room, std::size_t place) {
    data.assign(room, '\0');
    at = 0;
    place_ = std::max<std::size_t>(1, place);
  }
  std::size_t next(std::span<iovec> into) override {
    std::size_t count = 0;
    offered_ = 0;
    while (count < into.size() && at + offered_ < data.size()) {
      const std::size_t n = std::min(place_, data.size() - at - offered_);
      into[count++] = {data.data() + at + offered_, n};
      offered_ += n;
    }
    return count;
  }
  void advance(std::size_t bytes) override {
    require(bytes <= offered_, "no more bytes arrive than were asked for");
    at += bytes;
    offered_ -= bytes;
  }
  std::string data;
  std::size_t at = 0;

 private:
  std::size_t place_ = 1;
  std::size_t offered_ = 0;
};

struct Frame {
  std::uint64_t id = 0;
  std::string body;
  std::string payload;
};

class Observer final : public larder::rpc::FrameObserver {
 public:
  Result<larder::rpc::PayloadSink*> on_frame(const larder::wire::FrameHeader& header,
                                             std::string_view body) override {
    require(!open_, "a frame begins after the last one's payload only");
    require(body.size() == header.body_bytes, "the body has the size that its header says");
    require(header.payload_bytes <= larder::wire::kPayloadBytesMax, "the payload is bounded");
    seen.push_back({header.call_id, std::string(body), ""});
    if (header.payload_bytes == 0) return nullptr;
    open_ = true;
    if (header.trace_id % 4 == 3) return nullptr;
    sink.reset(std::min<std::size_t>(header.payload_bytes, kPayloadKept) >>
                   (header.trace_id % 4 == 2 ? 1 : 0),
               header.trace_id >> 2);
    wanted_ = true;
    return &sink;
  }
  Result<void> on_payload_end() override {
    require(open_, "a payload ends once");
    open_ = false;
    if (wanted_) seen.back().payload = sink.data.substr(0, sink.at);
    wanted_ = false;
    return {};
  }
  std::vector<Frame> seen;
  Sink sink;

 private:
  bool open_ = false;
  bool wanted_ = false;
};

// Frames that are valid in themselves, from the fuzzer's choices.
std::string build_frames(FuzzInput& input, std::vector<Frame>& sent) {
  std::string stream;
  while (!input.empty() && sent.size() < 6) {
    const std::uint8_t shape = input.byte();
    const std::size_t body_bytes = (shape & 1) != 0 ? input.below_or(40'000) : input.byte();
    const std::size_t payload_bytes = (shape & 2) != 0 ? input.below_or(40'000) : input.byte();
    Frame frame;
    frame.id = sent.size() + 1;
    frame.body = std::string(input.take(body_bytes / 8));
    frame.body.resize(body_bytes, 'b');
    frame.payload = std::string(input.take(payload_bytes / 8));
    frame.payload.resize(payload_bytes, 'p');
    larder::wire::FrameHeader header;
    header.call_id = frame.id;
    header.payload_bytes = payload_bytes;
    header.trace_id = shape >> 2;
    std::string raw(larder::wire::kHeaderBytes, '\0');
    larder::wire::encode_header(header, frame.body, reinterpret_cast<std::byte*>(raw.data()));
    stream += raw + frame.body + frame.payload;
    sent.push_back(std::move(frame));
  }
  return stream;
}

Result<void> feed(std::string_view stream, std::size_t step, bool discards, Observer& observer) {
  larder::rpc::FrameReceiver receiver;
  for (std::size_t at = 0; at < stream.size(); at += step) {
    LARDER_TRY(receiver.feed(bytes_of(stream.substr(at, step)), observer));
    if (discards && (at / step) % 5 == 4) {
      receiver.discard_payload();
      observer.sink.reset(0, 1);  // its places are gone
    }
  }
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  const std::uint8_t mode = input.byte();
  const std::size_t step = 1 + input.below_or(20'000);
  Observer observer;
  if ((mode & 1) == 0) {
    static_cast<void>(feed(input.rest(), step, (mode & 4) != 0, observer).has_value());
    return 0;
  }
  const std::size_t damage = input.below_or(1 << 20);
  std::vector<Frame> sent;
  std::string stream = build_frames(input, sent);
  const bool damaged = (mode & 2) != 0 && !stream.empty();
  if (damaged) {
    char& victim = stream[damage % stream.size()];
    victim = static_cast<char>(victim ^ (1 << (mode >> 5)));
  }
  const Result<void> fed =
      feed(stream, std::max<std::size_t>(step, stream.size() / 4096), (mode & 4) != 0, observer);
  if (damaged || (mode & 4) != 0) return 0;
  require(fed.has_value(), "valid frames are accepted");
  require(observer.seen.size() == sent.size(), "every frame arrives");
  for (std::size_t i = 0; i < sent.size(); ++i) {
    require(observer.seen[i].id == sent[i].id && observer.seen[i].body == sent[i].body,
            "frames arrive unchanged and in order");
    require(sent[i].payload.starts_with(observer.seen[i].payload), "and so does their payload");
  }
  return 0;
}
