// SPDX-License-Identifier: Apache-2.0
#include "extent/uuid.h"

#include "env/random.h"

namespace larder::extent {
namespace {

int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool has_dash_before(std::size_t byte) noexcept {
  return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

}  // namespace

Uuid Uuid::random() noexcept {
  Uuid out;
  env::random_bytes(out.bytes);
  // Version 4, variant 1 (RFC 4122), so that other tools take it for what it is. Never nil.
  out.bytes[6] = (out.bytes[6] & std::byte{0x0F}) | std::byte{0x40};
  out.bytes[8] = (out.bytes[8] & std::byte{0x3F}) | std::byte{0x80};
  return out;
}

Result<Uuid> Uuid::parse(std::string_view text) {
  const auto bad = [] { return fail(Code::kInvalidArgument, "a uuid has 32 hex digits"); };
  const bool dashes = text.size() == 36;
  if (!dashes && text.size() != 32) return bad();
  Uuid out;
  for (std::size_t i = 0, at = 0; i < out.bytes.size(); ++i, at += 2) {
    if (dashes && has_dash_before(i) && text[at++] != '-') return bad();
    const int high = digit_of(text[at]);
    const int low = digit_of(text[at + 1]);
    if (high < 0 || low < 0) return bad();
    out.bytes[i] = static_cast<std::byte>(high << 4 | low);
  }
  return out;
}

std::string Uuid::to_string() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (has_dash_before(i)) out += '-';
    const auto value = std::to_integer<unsigned>(bytes[i]);
    out += kDigits[value >> 4U];
    out += kDigits[value & 15U];
  }
  return out;
}

}  // namespace larder::extent
