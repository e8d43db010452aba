// SPDX-License-Identifier: Apache-2.0
#include "wire/frame.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "larder.pb.h"
#include "wire/message.h"

namespace larder::wire {
namespace {

using Raw = std::array<std::byte, kHeaderBytes>;

FrameHeader sample() {
  FrameHeader header;
  header.kind = FrameKind::kReply;
  header.op = Op::kMatchPrefix;
  header.code = Code::kUnsupported;
  header.intent = 0x21;
  header.traffic_class = 0x43;
  header.call_id = 0x0102030405060708;
  header.timeout_ms = 0x11223344;
  header.payload_bytes = 0x0908070605;
  header.trace_id = 0xa1a2a3a4a5a6a7a8;
  return header;
}

Raw encoded(const FrameHeader& header, std::string_view body) {
  Raw raw;
  encode_header(header, body, raw.data());
  return raw;
}

std::string hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::byte b : bytes) {
    out.push_back(kDigits[std::to_integer<unsigned>(b) >> 4]);
    out.push_back(kDigits[std::to_integer<unsigned>(b) & 15]);
  }
  return out;
}

// These bytes are the format: docs/formats/wire.md. They change with the protocol version only.
TEST(Frame, GoldenBytes) {
  EXPECT_EQ(hex(encoded(sample(), "body!")),
            "4c524431"          // magic "LRD1"
            "01"                // version
            "02"                // kind
            "0500"              // op
            "0807060504030201"  // call id
            "05000000"          // body bytes
            "0b00"              // code
            "21"                // intent
            "43"                // class
            "0506070809000000"  // payload bytes
            "a8a7a6a5a4a3a2a1"  // trace id
            "44332211"          // timeout
            "881c642f");        // check value
  EXPECT_EQ(hex(encoded(FrameHeader{}, "")),
            "4c5244310101010000000000000000000000000000000000"
            "000000000000000000000000000000000000000011a9b701");
}

TEST(Frame, EveryFieldComesBack) {
  const FrameHeader sent = sample();
  const std::string body = "body!";
  const Raw raw = encoded(sent, body);
  ASSERT_TRUE(check_frame(raw, body));
  const auto got = decode_header(raw);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->kind, sent.kind);
  EXPECT_EQ(got->op, sent.op);
  EXPECT_EQ(got->code, sent.code);
  EXPECT_EQ(got->intent, sent.intent);
  EXPECT_EQ(got->traffic_class, sent.traffic_class);
  EXPECT_EQ(got->call_id, sent.call_id);
  EXPECT_EQ(got->body_bytes, body.size());
  EXPECT_EQ(got->timeout_ms, sent.timeout_ms);
  EXPECT_EQ(got->payload_bytes, sent.payload_bytes);
  EXPECT_EQ(got->trace_id, sent.trace_id);
}

bool accepted(const Raw& raw, std::string_view body) {
  const auto header = decode_header(raw);
  return header && header->body_bytes == body.size() && check_frame(raw, body);
}

TEST(Frame, EveryFlippedBitIsFound) {
  const std::string body = "some body of a request, longer than one stripe of the hash's input";
  const Raw raw = encoded(sample(), body);
  ASSERT_TRUE(accepted(raw, body));
  for (std::size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
    Raw flipped = raw;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(accepted(flipped, body)) << "header bit " << bit;
    EXPECT_FALSE(check_frame(flipped, body)) << "header bit " << bit;
  }
  for (std::size_t bit = 0; bit < body.size() * 8; ++bit) {
    std::string flipped = body;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1U << (bit % 8)));
    EXPECT_FALSE(accepted(raw, flipped)) << "body bit " << bit;
  }
}

TEST(Frame, CutAndGrownBodiesAreFound) {
  const std::string body = "some body";
  const Raw raw = encoded(sample(), body);
  EXPECT_FALSE(check_frame(raw, "some bod"));
  EXPECT_FALSE(check_frame(raw, ""));
  EXPECT_FALSE(check_frame(raw, std::string("some body\0", 10)));
}

Code refused(const Raw& raw) {
  const auto header = decode_header(raw);
  return header ? Code::kOk : header.error().code();
}

TEST(Frame, RefusesWhatItDoesNotKnow) {
  const Raw good = encoded(sample(), "");
  EXPECT_EQ(refused(good), Code::kOk);
  Raw raw = good;
  raw[0] = std::byte{'X'};
  EXPECT_EQ(refused(raw), Code::kCorrupt);
  for (const unsigned version : {0U, 2U, 255U}) {
    raw = good;
    raw[4] = static_cast<std::byte>(version);
    EXPECT_EQ(refused(raw), Code::kVersionMismatch) << version;
  }
  for (const unsigned kind : {0U, 3U, 255U}) {
    raw = good;
    raw[5] = static_cast<std::byte>(kind);
    EXPECT_EQ(refused(raw), Code::kCorrupt) << kind;
  }
  // An op of a later revision is for the server to answer.
  raw = good;
  store_le<std::uint16_t>(raw.data() + 6, 999);
  EXPECT_EQ(refused(raw), Code::kOk);
}

TEST(Frame, LengthsAreBounded) {
  Raw raw = encoded(sample(), "");
  store_le<std::uint32_t>(raw.data() + 16, kBodyBytesMax);
  EXPECT_EQ(refused(raw), Code::kOk);
  store_le<std::uint32_t>(raw.data() + 16, kBodyBytesMax + 1);
  EXPECT_EQ(refused(raw), Code::kCorrupt);
  raw = encoded(sample(), "");
  store_le<std::uint64_t>(raw.data() + 24, kPayloadBytesMax);
  EXPECT_EQ(refused(raw), Code::kOk);
  store_le<std::uint64_t>(raw.data() + 24, kPayloadBytesMax + 1);
  EXPECT_EQ(refused(raw), Code::kCorrupt);
  store_le<std::uint64_t>(raw.data() + 24, ~0ULL);
  EXPECT_EQ(refused(raw), Code::kCorrupt);
}

TEST(Frame, OpsHaveDistinctNames) {
  std::set<std::string_view> names;
  for (std::uint16_t op = 1; op <= kOpMax; ++op) names.insert(op_name(static_cast<Op>(op)));
  EXPECT_EQ(names.size(), kOpMax);
  EXPECT_EQ(names.count("unknown"), 0U);
  EXPECT_EQ(op_name(static_cast<Op>(0)), "unknown");
  EXPECT_EQ(op_name(static_cast<Op>(kOpMax + 1)), "unknown");
  EXPECT_EQ(op_name(static_cast<Op>(65535)), "unknown");
}

TEST(Message, FrameHoldsHeaderRoomAndBody) {
  pb::ErrorReply reply;
  reply.set_text("why");
  std::string frame = frame_with(reply);
  EXPECT_EQ(frame_body(frame), reply.SerializeAsString());
  FrameHeader header;
  header.call_id = 7;
  seal_frame(header, frame);
  const auto raw = std::span<const std::byte, kHeaderBytes>(as_bytes(frame).data(), kHeaderBytes);
  EXPECT_TRUE(check_frame(raw, frame_body(frame)));
  EXPECT_EQ(decode_header(raw)->body_bytes, frame.size() - kHeaderBytes);
  pb::ErrorReply got;
  ASSERT_TRUE(parse_body(frame_body(frame), Op::kGet, got));
  EXPECT_EQ(got.text(), "why");
}

TEST(Message, MalformedBodyNamesTheOperation) {
  pb::PutRequest request;
  const auto parsed = parse_body("\xff\xff\xff", Op::kPut, request);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code(), Code::kCorrupt);
  EXPECT_NE(parsed.error().message().find("put"), std::string::npos);
  EXPECT_TRUE(parse_body("", Op::kPut, request));  // proto3: every field has a default
}

}  // namespace
}  // namespace larder::wire
