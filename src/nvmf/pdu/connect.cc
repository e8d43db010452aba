// SPDX-License-Identifier: Apache-2.0
#include "nvmf/pdu/connect.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder::nvmf {
namespace {

// The length of the UTF-8 character that begins at `at`; 0: there is none, or it is overlong, a
// surrogate or beyond U+10FFFF.
std::size_t utf8_bytes(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return bytes;
}

int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_dash_at(std::size_t at) noexcept {
  return at == 8 || at == 13 || at == 18 || at == 23;
}

}  // namespace

Result<void> check_nqn(std::string_view nqn) {
  if (!nqn.starts_with("nqn.") || nqn.size() == 4) {
    return fail(Code::kInvalidArgument,
                "an NQN begins with \"nqn.\", as in nqn.2014-08.org.nvmexpress:uuid:...");
  }
  if (nqn.size() > kNqnBytesMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("an NQN has at most {} bytes, this one {}", kNqnBytesMax, nqn.size()));
  }
  for (std::size_t at = 0; at < nqn.size();) {
    const std::size_t bytes = utf8_bytes(nqn, at);
    if (bytes == 0) {
      return fail(Code::kInvalidArgument, fmt::format("an NQN is UTF-8; byte {} is not", at));
    }
    if (bytes == 1 && (nqn[at] <= ' ' || nqn[at] == 0x7F)) {
      return fail(Code::kInvalidArgument,
                  fmt::format("an NQN has no spaces and control characters; byte {} is one", at));
    }
    at += bytes;
  }
  return {};
}

Result<std::string> decode_nqn(const std::array<char, 256>& field) {
  const auto* end = std::find(field.begin(), field.end(), '\0');
  if (end == field.end()) return fail(Code::kCorrupt, "an NQN that no NUL ends");
  std::string nqn(field.begin(), end);
  if (auto checked = check_nqn(nqn); !checked) {
    return fail(Code::kCorrupt, checked.error().message());
  }
  return nqn;
}

void encode_nqn(std::string_view nqn, std::array<char, 256>& field) noexcept {
  put_field(field, nqn.substr(0, kNqnBytesMax), '\0');
}

Result<Id16> parse_uuid(std::string_view text) {
  constexpr std::size_t kTextBytes = 36;
  const auto wrong = [] {
    return fail(Code::kInvalidArgument, "a UUID is written as 8-4-4-4-12 hexadecimal digits");
  };
  if (text.size() != kTextBytes) return wrong();
  Id16 out{};
  std::size_t digits = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (is_dash_at(at)) {
      if (text[at] != '-') return wrong();
      continue;
    }
    const int digit = digit_of(text[at]);
    if (digit < 0) return wrong();
    std::uint8_t& byte = out[digits / 2];
    byte = static_cast<std::uint8_t>(byte << 4U | static_cast<unsigned>(digit));
    ++digits;
  }
  return out;
}

std::string uuid_text(const Id16& id) {
  std::string out;
  for (std::size_t i = 0; i < id.size(); ++i) {
    if (is_dash_at(out.size())) out += '-';
    out += fmt::format("{:02x}", id[i]);
  }
  return out;
}

bool is_zero(const Id16& id) noexcept {
  return std::all_of(id.begin(), id.end(), [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace larder::nvmf
