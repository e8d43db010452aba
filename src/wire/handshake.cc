// SPDX-License-Identifier: Apache-2.0
#include "wire/handshake.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace larder::wire {
namespace {

constexpr std::uint32_t kClientMagic = 0x4844524c;   // "LRDH"
constexpr std::uint32_t kServerMagic = 0x5344524c;   // "LRDS"
constexpr std::uint32_t kVerdictMagic = 0x5644524c;  // "LRDV"
constexpr std::string_view kLabel = "larder-handshake-v1";
constexpr std::size_t kVerdictTextAt = 52;
constexpr std::size_t kVerdictTextMax = kVerdictBytes - kVerdictTextAt;

bool all_zero(const std::byte* from, std::size_t bytes) noexcept {
  return std::all_of(from, from + bytes, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

std::array<std::byte, kClientHelloBytes> encode(const ClientHello& hello) noexcept {
  std::array<std::byte, kClientHelloBytes> out{};
  store_le(out.data(), kClientMagic);
  store_le(out.data() + 4, hello.version_min);
  store_le(out.data() + 5, hello.version_max);
  store_le(out.data() + 6, static_cast<std::uint8_t>(hello.purpose));
  store_le(out.data() + 8, hello.buffer_bytes);
  std::memcpy(out.data() + 32, hello.nonce.data(), hello.nonce.size());
  return out;
}

std::array<std::byte, kServerHelloBytes> encode(const ServerHello& hello) noexcept {
  std::array<std::byte, kServerHelloBytes> out{};
  store_le(out.data(), kServerMagic);
  store_le(out.data() + 4, hello.version);
  store_le(out.data() + 5, static_cast<std::uint8_t>(hello.token_required ? 1 : 0));
  store_le(out.data() + 8, hello.epoch);
  std::memcpy(out.data() + 32, hello.nonce.data(), hello.nonce.size());
  return out;
}

std::array<std::byte, kVerdictBytes> encode(const Verdict& verdict) noexcept {
  std::array<std::byte, kVerdictBytes> out{};
  const std::size_t length = std::min(verdict.text.size(), kVerdictTextMax);
  store_le(out.data(), kVerdictMagic);
  store_le(out.data() + 4, static_cast<std::uint16_t>(verdict.code));
  store_le(out.data() + 6, static_cast<std::uint16_t>(length));
  store_le(out.data() + 8, verdict.value);
  std::memcpy(out.data() + 16, verdict.proof.data(), verdict.proof.size());
  std::memcpy(out.data() + kVerdictTextAt, verdict.text.data(), length);
  return out;
}

Result<ClientHello> decode_client_hello(std::span<const std::byte, kClientHelloBytes> bytes) {
  const std::byte* from = bytes.data();
  if (load_le<std::uint32_t>(from) != kClientMagic || !all_zero(from + 16, 16) ||
      from[7] != std::byte{0}) {
    return fail(Code::kCorrupt, "not a Larder client");
  }
  ClientHello hello;
  hello.version_min = load_le<std::uint8_t>(from + 4);
  hello.version_max = load_le<std::uint8_t>(from + 5);
  const auto purpose = load_le<std::uint8_t>(from + 6);
  if (purpose < 1 || purpose > 3) return fail(Code::kCorrupt, "unknown connection purpose");
  hello.purpose = static_cast<Purpose>(purpose);
  hello.buffer_bytes = load_le<std::uint64_t>(from + 8);
  std::memcpy(hello.nonce.data(), from + 32, hello.nonce.size());
  return hello;
}

Result<ServerHello> decode_server_hello(std::span<const std::byte, kServerHelloBytes> bytes) {
  const std::byte* from = bytes.data();
  if (load_le<std::uint32_t>(from) != kServerMagic) {
    return fail(Code::kCorrupt, "what answers at this address is not a Larder node");
  }
  ServerHello hello;
  hello.version = load_le<std::uint8_t>(from + 4);
  hello.token_required = from[5] != std::byte{0};
  hello.epoch = load_le<std::uint64_t>(from + 8);
  std::memcpy(hello.nonce.data(), from + 32, hello.nonce.size());
  return hello;
}

Result<Verdict> decode_verdict(std::span<const std::byte, kVerdictBytes> bytes) {
  const std::byte* from = bytes.data();
  const auto length = load_le<std::uint16_t>(from + 6);
  if (load_le<std::uint32_t>(from) != kVerdictMagic || length > kVerdictTextMax) {
    return fail(Code::kCorrupt, "the node's handshake is malformed");
  }
  Verdict verdict;
  verdict.code = static_cast<Code>(load_le<std::uint16_t>(from + 4));
  verdict.value = load_le<std::uint64_t>(from + 8);
  std::memcpy(verdict.proof.data(), from + 16, verdict.proof.size());
  verdict.text.assign(reinterpret_cast<const char*>(from + kVerdictTextAt), length);
  return verdict;
}

Digest256 prove(std::string_view token, Role role, const ClientHello& client,
                const ServerHello& server) {
  const std::array<std::byte, 3> facts = {static_cast<std::byte>(role), std::byte{server.version},
                                          static_cast<std::byte>(client.purpose)};
  const std::array<std::span<const std::byte>, 4> parts = {as_bytes(kLabel), facts, client.nonce,
                                                           server.nonce};
  return hmac_sha256(token, parts);
}

}  // namespace larder::wire
