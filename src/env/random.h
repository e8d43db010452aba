// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace larder::env {

// Fills with the kernel's random bytes; fit for nonces and keys.
void random_bytes(std::span<std::byte> into) noexcept;
std::uint64_t random_u64() noexcept;

}  // namespace larder::env
