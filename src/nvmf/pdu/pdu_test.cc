// SPDX-License-Identifier: Apache-2.0
#include "nvmf/pdu/pdu.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/checksum.h"

namespace larder::nvmf {
namespace {

using Head = std::array<std::byte, kHeadBytesMax>;

PduHeader header_in(const Head& head) {
  return load_le<PduHeader>(head.data());
}

TEST(Pdu, CommandCapsuleHasItsGoldenBytes) {
  CapsuleCmd pdu;
  pdu.command.opcode = static_cast<std::uint8_t>(IoOpcode::kRead);
  pdu.command.cid = 0x1234;
  pdu.command.nsid = 1;
  pdu.command.sgl = Sgl::transport(4096);
  pdu.command.set_range(0x1'0000'0002, 8);
  Head head{};
  ASSERT_EQ(encode_head(pdu, 0, 0, {}, head), 72U);
  const auto at = [&](std::size_t i) { return static_cast<unsigned>(head[i]); };
  EXPECT_EQ(at(0), 4U);
  EXPECT_EQ(at(1), 0U);
  EXPECT_EQ(at(2), 72U);
  EXPECT_EQ(at(3), 0U);
  EXPECT_EQ(at(4), 72U);
  EXPECT_EQ(at(8), 2U);          // opcode
  EXPECT_EQ(at(9), 0x40U);       // PSDT
  EXPECT_EQ(at(10), 0x34U);      // CID
  EXPECT_EQ(at(12), 1U);         // NSID
  EXPECT_EQ(at(8 + 33), 0x10U);  // SGL length 4096
  EXPECT_EQ(at(8 + 39), 0x5AU);
  EXPECT_EQ(at(8 + 40), 2U);
  EXPECT_EQ(at(8 + 44), 1U);
  EXPECT_EQ(at(8 + 48), 7U);  // NLB is one less
}

// Whatever two ends may agree on, what one lays out the other finds.
TEST(Pdu, LayoutOfWhatWasEncoded) {
  for (const bool header_digest : {false, true}) {
    for (const bool data_digest : {false, true}) {
      for (unsigned pda = 0; pda < 32; ++pda) {
        const Framing framing{header_digest, data_digest,
                              alignment_of(static_cast<std::uint8_t>(pda))};
        for (const std::uint32_t data : {0U, 4U, 4096U}) {
          Head head{};
          const std::size_t before = encode_head(CapsuleCmd{}, 0, data, framing, head);
          const auto layout = layout_of(header_in(head), Direction::kToController, framing, 4096);
          ASSERT_TRUE(layout) << to_error(layout.error()).message();
          EXPECT_EQ(layout->head_bytes, before);
          EXPECT_EQ(layout->data_bytes, data);
          EXPECT_EQ(layout->data_digest_bytes, data_digest && data > 0 ? 4U : 0U);
          EXPECT_EQ(layout->total(), header_in(head).plen);
          EXPECT_TRUE(check_header_digest(std::span(head).first(before), *layout));
        }
      }
    }
  }
}

TEST(Pdu, DigestIsCrc32cOfTheHeader) {
  const Framing framing{true, false, 4};
  Head head{};
  ASSERT_EQ(encode_head(CapsuleResp{}, 0, 0, framing, head), 28U);
  EXPECT_EQ(load_le<std::uint32_t>(head.data() + 24), crc32c(std::span(head).first(24)));
  const auto layout = layout_of(header_in(head), Direction::kToHost, framing, 0);
  ASSERT_TRUE(layout);
  head[9] ^= std::byte{1};
  const auto checked = check_header_digest(std::span(head).first(28), *layout);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().status, FatalStatus::kHeaderDigest);
  EXPECT_EQ(checked.error().info, load_le<std::uint32_t>(head.data() + 24));
}

struct Bad {
  const char* what;
  PduHeader header;
  Direction direction;
  Framing framing;
  FatalStatus status;
  std::uint32_t info;
};

TEST(Pdu, EveryRuleOfFramingIsChecked) {
  const auto in = Direction::kToController;
  const auto out = Direction::kToHost;
  const auto invalid = FatalStatus::kInvalidHeader;
  const std::vector<Bad> all = {
      {"no such type", {static_cast<PduType>(8), 0, 24, 0, 24}, in, {}, invalid, 0},
      {"far beyond", {static_cast<PduType>(255), 0, 24, 0, 24}, in, {}, invalid, 0},
      {"direction", {PduType::kCapsuleResp, 0, 24, 0, 24}, in, {}, invalid, 0},
      {"direction", {PduType::kCapsuleCmd, 0, 72, 0, 72}, out, {}, invalid, 0},
      {"hlen", {PduType::kCapsuleCmd, 0, 71, 0, 72}, in, {}, invalid, 2},
      {"flag", {PduType::kCapsuleCmd, 4, 72, 0, 72}, in, {}, invalid, 1},
      {"flag", {PduType::kIcReq, 1, 128, 0, 128}, in, {true, true, 4}, invalid, 1},
      {"high flag", {PduType::kH2cData, 0x10, 24, 24, 28}, in, {}, invalid, 1},
      {"success of a host", {PduType::kH2cData, 0x0C, 24, 24, 28}, in, {}, invalid, 1},
      {"success without last", {PduType::kC2hData, 8, 24, 24, 28}, out, {}, invalid, 1},
      {"hdgst not agreed", {PduType::kCapsuleCmd, 1, 72, 0, 76}, in, {}, invalid, 1},
      {"hdgst missing", {PduType::kCapsuleCmd, 0, 72, 0, 72}, in, {true, false, 4}, invalid, 1},
      {"ddgst not agreed", {PduType::kH2cData, 2, 24, 24, 32}, in, {}, invalid, 1},
      {"ddgst missing", {PduType::kH2cData, 0, 24, 24, 28}, in, {false, true, 4}, invalid, 1},
      {"ddgst without data",
       {PduType::kCapsuleCmd, 2, 72, 0, 72},
       in,
       {false, true, 4},
       invalid,
       1},
      {"plen", {PduType::kCapsuleCmd, 0, 72, 0, 71}, in, {}, invalid, 4},
      {"plen of hdgst", {PduType::kCapsuleCmd, 1, 72, 0, 72}, in, {true, false, 4}, invalid, 4},
      {"no data here", {PduType::kR2t, 0, 24, 24, 28}, out, {}, invalid, 4},
      {"plen of ICReq", {PduType::kIcReq, 0, 128, 0, 132}, in, {}, invalid, 4},
      {"pdo in header", {PduType::kH2cData, 0, 24, 20, 28}, in, {}, invalid, 3},
      {"pdo in digest", {PduType::kH2cData, 1, 24, 24, 36}, in, {true, false, 4}, invalid, 3},
      {"pdo alignment", {PduType::kH2cData, 0, 24, 28, 64}, in, {false, false, 8}, invalid, 3},
      {"pdo too far", {PduType::kH2cData, 0, 24, 148, 256}, in, {}, invalid, 3},
      {"only a digest", {PduType::kH2cData, 2, 24, 24, 28}, in, {false, true, 4}, invalid, 4},
      {"term too long", {PduType::kH2cTermReq, 0, 24, 0, 153}, in, {}, invalid, 4},
      {"too much",
       {PduType::kH2cData, 0, 24, 24, 24 + 4100},
       in,
       {},
       FatalStatus::kLimitExceeded,
       4},
      {"too much",
       {PduType::kCapsuleCmd, 0, 72, 72, UINT32_MAX},
       in,
       {},
       FatalStatus::kLimitExceeded,
       4},
  };
  for (const Bad& bad : all) {
    const auto layout = layout_of(bad.header, bad.direction, bad.framing, 4096);
    ASSERT_FALSE(layout) << bad.what;
    EXPECT_EQ(layout.error().status, bad.status) << bad.what << ": " << layout.error().rule;
    EXPECT_EQ(layout.error().info, bad.info) << bad.what << ": " << layout.error().rule;
    EXPECT_EQ(to_error(layout.error()).code(), Code::kCorrupt);
  }
}

TEST(Pdu, FieldsOfDataAreChecked) {
  const PduLayout layout{PduType::kH2cData, 0, 24, 0, 24, 4096, 0};
  H2cData pdu;
  pdu.datal = 4096;
  EXPECT_TRUE(check(pdu, layout));
  pdu.datao = 0xFFFFF000U;
  EXPECT_EQ(check(pdu, layout).error().status, FatalStatus::kOutOfRange);
  pdu.datao = 2;
  EXPECT_EQ(check(pdu, layout).error().info, 12U);
  pdu.datao = 0;
  pdu.datal = 4092;
  EXPECT_EQ(check(pdu, layout).error().info, 16U);
  pdu.datal = 0;
  EXPECT_FALSE(check(pdu, {PduType::kH2cData, 0, 24, 0, 24, 0, 0}));
  R2t r2t;
  EXPECT_FALSE(check(r2t));
  r2t.r2tl = 8;
  EXPECT_TRUE(check(r2t));
  r2t.r2to = 0xFFFFFFFCU;
  EXPECT_EQ(check(r2t).error().status, FatalStatus::kOutOfRange);
  r2t.r2to = 1;
  EXPECT_EQ(check(r2t).error().info, 12U);
}

TEST(Pdu, NegotiationIsChecked) {
  IcReq request;
  EXPECT_TRUE(check(request));
  request.hpda = 32;
  EXPECT_EQ(check(request).error().info, 10U);
  request.pfv = 1;
  EXPECT_EQ(check(request).error().status, FatalStatus::kUnsupported);
  IcResp response;
  response.maxh2cdata = 4096;
  EXPECT_TRUE(check(response));
  response.maxh2cdata = 4098;
  EXPECT_FALSE(check(response));
  response.maxh2cdata = 4092;
  EXPECT_EQ(check(response).error().info, 12U);
  response.cpda = 200;
  EXPECT_EQ(check(response).error().info, 10U);
}

TEST(Pdu, TerminationCarriesTheReason) {
  std::array<std::byte, kTermBytesMax> bytes{};
  Head head{};
  const std::size_t shown = encode_head(R2t{}, 0, 0, {}, head);
  const PduFault fault{FatalStatus::kHeaderDigest, 0xA1B2C3D4U, PduType::kR2t, ""};
  const std::size_t all =
      encode_term(Direction::kToController, fault, std::span(head).first(shown), bytes);
  ASSERT_EQ(all, 48U);
  const auto layout =
      layout_of(load_le<PduHeader>(bytes.data()), Direction::kToController, {true, true, 64}, 0);
  ASSERT_TRUE(layout) << layout.error().rule;
  EXPECT_EQ(layout->data_bytes, 24U);
  EXPECT_EQ(load_le<TermReq>(bytes.data()).fei(), 0xA1B2C3D4U);
  const std::string words = describe_term(std::span(bytes).first(all));
  EXPECT_NE(words.find("header digest error"), std::string::npos) << words;
  EXPECT_NE(words.find("R2T"), std::string::npos) << words;
  EXPECT_FALSE(describe_term({}).empty());
}

TEST(Pdu, TerminationIsCutToItsLimit) {
  std::array<std::byte, kTermBytesMax> bytes{};
  const std::vector<std::byte> long_one(4000);
  EXPECT_EQ(encode_term(Direction::kToHost, {}, long_one, bytes), 152U);
}

}  // namespace
}  // namespace larder::nvmf
