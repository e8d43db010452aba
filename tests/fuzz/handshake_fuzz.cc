// SPDX-License-Identifier: Apache-2.0
// The three handshake decoders: what they accept encodes to what they understood.
#include <array>

#include "tests/fuzz/fuzz_input.h"
#include "wire/handshake.h"

using larder::fuzz::FuzzInput;
using larder::fuzz::require;
namespace wire = larder::wire;

namespace {

template <std::size_t kBytes>
std::array<std::byte, kBytes> block(std::string_view text) {
  std::array<std::byte, kBytes> out{};
  if (!text.empty()) std::memcpy(out.data(), text.data(), std::min(text.size(), kBytes));
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = FuzzInput(data, size).rest();
  if (const auto hello = wire::decode_client_hello(block<wire::kClientHelloBytes>(text))) {
    require(wire::encode(*hello) == block<wire::kClientHelloBytes>(text),
            "a client hello has one form");
  }
  if (const auto hello = wire::decode_server_hello(block<wire::kServerHelloBytes>(text))) {
    const auto again = wire::decode_server_hello(wire::encode(*hello));
    require(again && again->nonce == hello->nonce && again->epoch == hello->epoch &&
                again->version == hello->version && again->token_required == hello->token_required,
            "a server hello comes back");
  }
  if (const auto verdict = wire::decode_verdict(block<wire::kVerdictBytes>(text))) {
    const auto again = wire::decode_verdict(wire::encode(*verdict));
    require(again && again->code == verdict->code && again->value == verdict->value &&
                again->proof == verdict->proof && again->text == verdict->text,
            "a verdict comes back");
  }
  return 0;
}
