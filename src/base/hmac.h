// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace larder {

using Digest256 = std::array<std::byte, 32>;

// HMAC-SHA-256 (RFC 2104) of the parts, one after the other. OpenSSL.
Digest256 hmac_sha256(std::string_view key, std::span<const std::span<const std::byte>> parts);
// Compares in time that does not depend on the contents.
bool equal_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) noexcept;

}  // namespace larder
