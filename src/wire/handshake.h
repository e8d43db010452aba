// SPDX-License-Identifier: Apache-2.0
// The first bytes on every connection: who may speak, which version, and what the connection is
// for. Byte tables: docs/formats/wire.md. Mutual challenge-response with HMAC-SHA-256; the token
// itself never travels, and each side's proof covers both nonces and its role, so neither can be
// replayed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/hmac.h"
#include "larder/status.h"

namespace larder::wire {

inline constexpr std::size_t kClientHelloBytes = 64;
inline constexpr std::size_t kServerHelloBytes = 64;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kVerdictBytes = 128;

using Nonce = std::array<std::byte, 32>;

enum class Purpose : std::uint8_t {
  kCalls = 1,   // frames, both ways
  kAttach = 2,  // the node passes its segments; Unix sockets only
  kBuffer = 3,  // the client passes a buffer; Unix sockets only
};

struct ClientHello {
  Purpose purpose = Purpose::kCalls;
  std::uint8_t version_min = 1;
  std::uint8_t version_max = 1;
  std::uint64_t buffer_bytes = 0;  // kBuffer
  Nonce nonce{};
};
struct ServerHello {
  std::uint8_t version = 1;
  bool token_required = false;
  std::uint64_t epoch = 0;
  Nonce nonce{};
};
// The server's last word. After kOk the connection serves its purpose.
struct Verdict {
  Code code = Code::kOk;
  std::uint64_t value = 0;  // kBuffer: the buffer's id; kAttach: how many segments follow
  Digest256 proof{};        // of the server, when a token is in use
  std::string text;         // at most kVerdictBytes - 52 bytes travel
};

std::array<std::byte, kClientHelloBytes> encode(const ClientHello& hello) noexcept;
std::array<std::byte, kServerHelloBytes> encode(const ServerHello& hello) noexcept;
std::array<std::byte, kVerdictBytes> encode(const Verdict& verdict) noexcept;
Result<ClientHello> decode_client_hello(std::span<const std::byte, kClientHelloBytes> bytes);
Result<ServerHello> decode_server_hello(std::span<const std::byte, kServerHelloBytes> bytes);
Result<Verdict> decode_verdict(std::span<const std::byte, kVerdictBytes> bytes);

enum class Role : std::uint8_t { kClient = 1, kServer = 2 };
// What `role` proves: HMAC(token, label | role | version | purpose | client nonce | server nonce).
Digest256 prove(std::string_view token, Role role, const ClientHello& client,
                const ServerHello& server);

}  // namespace larder::wire
