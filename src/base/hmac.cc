// SPDX-License-Identifier: Apache-2.0
#include "base/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstdlib>
#include <vector>

namespace larder {

Digest256 hmac_sha256(std::string_view key, std::span<const std::span<const std::byte>> parts) {
  std::vector<unsigned char> message;
  for (const auto& part : parts) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(part.data());
    message.insert(message.end(), bytes, bytes + part.size());
  }
  Digest256 digest{};
  unsigned length = 0;
  const auto* done = ::HMAC(::EVP_sha256(), key.empty() ? "" : key.data(),
                            static_cast<int>(key.size()), message.data(), message.size(),
                            reinterpret_cast<unsigned char*>(digest.data()), &length);
  // A digest that anybody can foresee would be worse than stopping.
  if (done == nullptr || length != digest.size()) std::abort();
  return digest;
}

bool equal_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace larder
