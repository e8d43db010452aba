// SPDX-License-Identifier: Apache-2.0
#include "wire/handshake.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bytes.h"

namespace larder::wire {
namespace {

constexpr std::string_view kToken = "a cluster token of this test";

Nonce nonce(unsigned seed) {
  Nonce out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(seed + i);
  return out;
}

ClientHello client() {
  ClientHello hello;
  hello.purpose = Purpose::kBuffer;
  hello.version_min = 1;
  hello.version_max = 9;
  hello.buffer_bytes = 0x0102030405060708;
  hello.nonce = nonce(10);
  return hello;
}

ServerHello server() {
  ServerHello hello;
  hello.version = 1;
  hello.token_required = true;
  hello.epoch = 0x1112131415161718;
  hello.nonce = nonce(90);
  return hello;
}

TEST(Handshake, ClientHelloComesBack) {
  for (const Purpose purpose : {Purpose::kCalls, Purpose::kAttach, Purpose::kBuffer}) {
    ClientHello sent = client();
    sent.purpose = purpose;
    const auto got = decode_client_hello(encode(sent));
    ASSERT_TRUE(got);
    EXPECT_EQ(got->purpose, purpose);
    EXPECT_EQ(got->version_min, 1);
    EXPECT_EQ(got->version_max, 9);
    EXPECT_EQ(got->buffer_bytes, sent.buffer_bytes);
    EXPECT_EQ(got->nonce, sent.nonce);
  }
}

TEST(Handshake, ServerHelloComesBack) {
  const auto got = decode_server_hello(encode(server()));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->version, 1);
  EXPECT_TRUE(got->token_required);
  EXPECT_EQ(got->epoch, server().epoch);
  EXPECT_EQ(got->nonce, server().nonce);
}

TEST(Handshake, VerdictComesBack) {
  Verdict sent;
  sent.code = Code::kPermissionDenied;
  sent.value = 0x2122232425262728;
  sent.proof = prove(kToken, Role::kServer, client(), server());
  sent.text = "no";
  const auto got = decode_verdict(encode(sent));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->code, sent.code);
  EXPECT_EQ(got->value, sent.value);
  EXPECT_EQ(got->proof, sent.proof);
  EXPECT_EQ(got->text, "no");
}

TEST(Handshake, LongVerdictTextIsCut) {
  Verdict sent;
  sent.text = std::string(1000, 'x');
  EXPECT_EQ(decode_verdict(encode(sent))->text, std::string(kVerdictBytes - 52, 'x'));
}

// The first bytes of each message as docs/formats/wire.md has them.
TEST(Handshake, GoldenBytes) {
  const auto hello = encode(client());
  EXPECT_EQ(as_text(std::span(hello).first(16)),
            std::string_view("LRDH\x01\x09\x03\x00\x08\x07\x06\x05\x04\x03\x02\x01", 16));
  EXPECT_EQ(as_text(std::span(hello).subspan(16, 16)), std::string(16, '\0'));
  EXPECT_EQ(as_text(std::span(hello).subspan(32)), as_text(client().nonce));
  const auto answer = encode(server());
  EXPECT_EQ(as_text(std::span(answer).first(16)),
            std::string_view("LRDS\x01\x01\x00\x00\x18\x17\x16\x15\x14\x13\x12\x11", 16));
  EXPECT_EQ(as_text(std::span(answer).subspan(32)), as_text(server().nonce));
  Verdict verdict;
  verdict.code = Code::kVersionMismatch;
  verdict.value = 5;
  verdict.text = "why";
  const auto last = encode(verdict);
  EXPECT_EQ(as_text(std::span(last).first(16)),
            std::string_view("LRDV\x0d\x00\x03\x00\x05\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(as_text(std::span(last).subspan(52, 4)), std::string_view("why\0", 4));
}

// Computed with an independent HMAC: the proof is a format too.
TEST(Handshake, GoldenProof) {
  const Digest256 proof = prove(kToken, Role::kClient, client(), server());
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::byte b : proof) {
    hex.push_back(kDigits[std::to_integer<unsigned>(b) >> 4]);
    hex.push_back(kDigits[std::to_integer<unsigned>(b) & 15]);
  }
  EXPECT_EQ(hex, "cb31f45646413670c3d8307867ffb19c3c5f1e1159836ab87a1fe8769c88856f");
}

TEST(Handshake, RefusesOtherProtocols) {
  auto hello = encode(client());
  hello[0] = std::byte{'G'};  // "GET / HTTP/1.1..." and the like
  EXPECT_EQ(decode_client_hello(hello).error().code(), Code::kCorrupt);
  for (const unsigned purpose : {0U, 4U, 255U}) {
    hello = encode(client());
    hello[6] = static_cast<std::byte>(purpose);
    EXPECT_EQ(decode_client_hello(hello).error().code(), Code::kCorrupt) << purpose;
  }
  for (std::size_t at = 16; at < 32; ++at) {  // reserved
    hello = encode(client());
    hello[at] = std::byte{1};
    EXPECT_FALSE(decode_client_hello(hello)) << at;
  }
  auto answer = encode(server());
  answer[3] = std::byte{'H'};
  EXPECT_EQ(decode_server_hello(answer).error().code(), Code::kCorrupt);
  auto verdict = encode(Verdict{});
  verdict[0] = std::byte{0};
  EXPECT_EQ(decode_verdict(verdict).error().code(), Code::kCorrupt);
  verdict = encode(Verdict{});
  store_le<std::uint16_t>(verdict.data() + 6, kVerdictBytes - 52 + 1);
  EXPECT_EQ(decode_verdict(verdict).error().code(), Code::kCorrupt);
}

// A proof that was overheard fits no other connection, and not the other direction.
TEST(Handshake, ProofDependsOnEverything) {
  const Digest256 proof = prove(kToken, Role::kClient, client(), server());
  EXPECT_EQ(prove(kToken, Role::kClient, client(), server()), proof);
  EXPECT_NE(prove(kToken, Role::kServer, client(), server()), proof);
  EXPECT_NE(prove("another cluster token here", Role::kClient, client(), server()), proof);
  for (std::size_t bit = 0; bit < 256; ++bit) {
    ClientHello other_client = client();
    other_client.nonce[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_NE(prove(kToken, Role::kClient, other_client, server()), proof);
    ServerHello other_server = server();
    other_server.nonce[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_NE(prove(kToken, Role::kClient, client(), other_server), proof);
  }
  ServerHello other_version = server();
  other_version.version = 2;
  EXPECT_NE(prove(kToken, Role::kClient, client(), other_version), proof);
  ClientHello other_purpose = client();
  other_purpose.purpose = Purpose::kCalls;
  EXPECT_NE(prove(kToken, Role::kClient, other_purpose, server()), proof);
}

// Bytes that move from one nonce to the other make another message.
TEST(Handshake, NoncesAreNotInterchangeable) {
  ClientHello swapped_client = client();
  ServerHello swapped_server = server();
  std::swap(swapped_client.nonce, swapped_server.nonce);
  EXPECT_NE(prove(kToken, Role::kClient, swapped_client, swapped_server),
            prove(kToken, Role::kClient, client(), server()));
}

}  // namespace
}  // namespace larder::wire
