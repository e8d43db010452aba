// SPDX-License-Identifier: Apache-2.0
#include "extent/manifest.h"

#include <cstring>

#include "base/bytes.h"

namespace larder::extent {
namespace {

constexpr std::uint16_t kVersion = 1;

tl::unexpected<Error> corrupt(const char* what) {
  return fail(Code::kCorrupt, std::string("a record's manifest ") + what);
}

void append(std::byte*& to, std::string_view text) noexcept {
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  to += text.size();
}

std::string take(std::span<const std::byte>& rest, std::size_t bytes) {
  std::string out(as_text(rest.first(bytes)));
  rest = rest.subspan(bytes);
  return out;
}

}  // namespace

std::size_t encoded_bytes(const Manifest& m) noexcept {
  return kManifestFixedBytes + m.tenant.size() + m.domain.size() + m.object_set.size() +
         m.key.size();
}

Result<std::vector<std::byte>> encode(const Manifest& m) {
  if (m.key.empty() || m.key.size() > kManifestKeyMax) {
    return fail(Code::kInvalidArgument,
                "a manifest's key has 1 to 1024 bytes, not " + std::to_string(m.key.size()));
  }
  for (const std::string* name : {&m.tenant, &m.domain, &m.object_set}) {
    if (name->size() > kManifestNameMax) {
      return fail(Code::kInvalidArgument,
                  "a manifest's tenant, domain and object set have at most 255 bytes each");
    }
  }
  std::vector<std::byte> out(encoded_bytes(m));
  std::byte* at = out.data();
  store_le<std::uint16_t>(at, kVersion);
  store_le(at + 2, static_cast<std::uint8_t>(m.tenant.size()));
  store_le(at + 3, static_cast<std::uint8_t>(m.domain.size()));
  store_le(at + 4, static_cast<std::uint8_t>(m.object_set.size()));
  store_le(at + 6, static_cast<std::uint16_t>(m.key.size()));
  store_le(at + 8, m.version);
  store_le(at + 16, m.length);
  store_le(at + 24, m.checksum);
  std::memcpy(at + 32, m.device.bytes.data(), m.device.bytes.size());
  at += kManifestFixedBytes;
  for (const std::string* text : {&m.tenant, &m.domain, &m.object_set, &m.key}) append(at, *text);
  return out;
}

Result<Manifest> decode(std::span<const std::byte> bytes) {
  if (bytes.size() < 2) return corrupt("is cut short");
  const auto version = load_le<std::uint16_t>(bytes.data());
  if (version > kVersion) {
    return fail(Code::kVersionMismatch, "a record's manifest is of version " +
                                            std::to_string(version) +
                                            ", written by a newer program; use that one");
  }
  if (version == 0) return corrupt("has no version");
  if (bytes.size() < kManifestFixedBytes) return corrupt("is cut short");
  const std::byte* at = bytes.data();
  const std::size_t tenant = load_le<std::uint8_t>(at + 2);
  const std::size_t domain = load_le<std::uint8_t>(at + 3);
  const std::size_t set = load_le<std::uint8_t>(at + 4);
  const std::size_t key = load_le<std::uint16_t>(at + 6);
  if (at[5] != std::byte{0}) return corrupt("has reserved bytes that are not zero");
  if (key == 0 || key > kManifestKeyMax) return corrupt("has a key of no valid length");
  if (bytes.size() != kManifestFixedBytes + tenant + domain + set + key) {
    return corrupt("has lengths that do not add up");
  }
  Manifest out;
  out.version = load_le<std::uint64_t>(at + 8);
  out.length = load_le<std::uint64_t>(at + 16);
  out.checksum = load_le<std::uint64_t>(at + 24);
  std::memcpy(out.device.bytes.data(), at + 32, out.device.bytes.size());
  auto rest = bytes.subspan(kManifestFixedBytes);
  out.tenant = take(rest, tenant);
  out.domain = take(rest, domain);
  out.object_set = take(rest, set);
  out.key = take(rest, key);
  return out;
}

}  // namespace larder::extent
