// SPDX-License-Identifier: Apache-2.0
#include "nvmf/pdu/identify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace larder::nvmf {
namespace {

constexpr std::uint8_t kIdEui64 = 1;
constexpr std::uint8_t kIdNguid = 2;
constexpr std::uint8_t kIdUuid = 3;
constexpr std::uint8_t kIdCommandSet = 4;
constexpr std::size_t kIdHeaderBytes = 4;
constexpr std::uint32_t kBlockShiftMin = 9;
constexpr std::uint32_t kBlockShiftMax = 16;
constexpr std::uint32_t kShiftMax = 40;  // of transfer_max; more is as good as no limit

std::size_t id_bytes(std::uint8_t type) noexcept {
  switch (type) {
    case kIdEui64:
      return sizeof(Id8);
    case kIdNguid:
    case kIdUuid:
      return sizeof(Id16);
    case kIdCommandSet:
      return 1;
    default:
      return 0;
  }
}

void take_id(std::uint8_t type, const std::byte* value, NamespaceIds& out) noexcept {
  switch (type) {
    case kIdEui64:
      out.eui64 = load_le<Id8>(value);
      out.has_eui64 = true;
      break;
    case kIdNguid:
      out.nguid = load_le<Id16>(value);
      out.has_nguid = true;
      break;
    case kIdUuid:
      out.uuid = load_le<Id16>(value);
      out.has_uuid = true;
      break;
    case kIdCommandSet:
      out.command_set = load_le<std::uint8_t>(value);
      break;
    default:
      break;
  }
}

void add_id(std::span<std::byte, kIdentifyBytes> into, std::size_t& at, std::uint8_t type,
            std::span<const std::uint8_t> value) noexcept {
  store_le(into.data() + at, type);
  store_le(into.data() + at + 1, static_cast<std::uint8_t>(value.size()));
  std::memcpy(into.data() + at + kIdHeaderBytes, value.data(), value.size());
  at += kIdHeaderBytes + value.size();
}

}  // namespace

Result<ControllerLimits> limits_of(const IdentifyController& id, std::uint32_t page_shift) {
  ControllerLimits out;
  out.serial = field_text(id.serial);
  out.model = field_text(id.model);
  out.firmware = field_text(id.firmware);
  out.subnqn = field_text(id.subnqn);
  out.cntlid = id.cntlid;
  if ((id.sgls & 3U) == 0) {
    return fail(Code::kUnsupported, "the controller takes no SGLs, which fabrics demand (SGLS " +
                                        fmt::format("{:08x}h)", id.sgls));
  }
  if (id.mdts > 0 && page_shift + id.mdts <= kShiftMax) {
    out.transfer_max = 1ULL << (page_shift + id.mdts);
  }
  out.in_capsule_max = id.in_capsule_bytes();
  out.in_capsule_offset = static_cast<std::uint64_t>(id.icdoff) * 16;
  out.keep_alive_step_ms = id.kas * 100U;
  out.max_outstanding = id.maxcmd;
  out.volatile_cache = (id.vwc & 1U) != 0;
  out.write_zeroes = (id.oncs & kOncsWriteZeroes) != 0;
  out.deallocate = (id.oncs & kOncsDsm) != 0;
  out.discovery = id.cntrltype == 2;
  out.in_capsule_sgl = (id.sgls & kSglsOffset) != 0;
  out.namespace_id_max = id.nn;
  return out;
}

Result<NamespaceShape> shape_of(const IdentifyNamespace& id) {
  if (id.nsze == 0) return fail(Code::kNotFound, "the namespace is not active");
  const std::size_t index = id.format_index();
  if (index > id.nlbaf || index >= id.formats.size()) {
    return fail(Code::kCorrupt, fmt::format("identify namespace: format {} is in use, but there "
                                            "are {}",
                                            index, id.nlbaf + 1));
  }
  const LbaFormat& format = id.format();
  if (format.ms != 0 || (id.dps & 7U) != 0) {
    return fail(Code::kUnsupported,
                fmt::format("the namespace has {} bytes of metadata a block{}; format it without",
                            format.ms, (id.dps & 7U) != 0 ? " and protection information" : ""));
  }
  if (format.lbads < kBlockShiftMin || format.lbads > kBlockShiftMax) {
    return fail(Code::kUnsupported,
                fmt::format("the namespace has blocks of 2^{} bytes; 512 bytes to 64 KiB work",
                            format.lbads));
  }
  if (id.nsze > UINT64_MAX >> format.lbads) {
    return fail(Code::kCorrupt, "identify namespace: its size in bytes is above 2^64");
  }
  NamespaceShape out;
  out.blocks = id.nsze;
  out.block_bytes = 1U << format.lbads;
  out.write_protected = (id.nsattr & 1U) != 0;
  out.deallocate_zeroes = (id.dlfeat & 7U) == 1;
  if ((id.nsfeat & kNsfeatOptimal) != 0) {
    out.optimal_write_blocks = id.npwg + 1U;
    out.deallocate_blocks = id.npdg + 1U;
  }
  out.nguid = id.nguid;
  out.eui64 = id.eui64;
  return out;
}

Result<NamespaceIds> decode_ids(std::span<const std::byte, kIdentifyBytes> list) {
  NamespaceIds out;
  std::size_t at = 0;
  while (at + kIdHeaderBytes <= list.size()) {
    const auto type = load_le<std::uint8_t>(list.data() + at);
    const auto bytes = load_le<std::uint8_t>(list.data() + at + 1);
    if (bytes == 0) break;  // the list ends so
    if (at + kIdHeaderBytes + bytes > list.size()) {
      return fail(Code::kCorrupt, "namespace descriptors: one goes beyond the end of the list");
    }
    const std::size_t proper = id_bytes(type);
    if (proper != 0 && proper != bytes) {
      return fail(Code::kCorrupt, fmt::format("namespace descriptors: type {} has {} bytes, not {}",
                                              type, bytes, proper));
    }
    take_id(type, list.data() + at + kIdHeaderBytes, out);
    at += kIdHeaderBytes + bytes;
  }
  return out;
}

void encode_ids(const NamespaceIds& ids, std::span<std::byte, kIdentifyBytes> into) noexcept {
  std::memset(into.data(), 0, into.size());
  std::size_t at = 0;
  if (ids.has_eui64) add_id(into, at, kIdEui64, ids.eui64);
  if (ids.has_nguid) add_id(into, at, kIdNguid, ids.nguid);
  if (ids.has_uuid) add_id(into, at, kIdUuid, ids.uuid);
  add_id(into, at, kIdCommandSet, {&ids.command_set, 1});
}

Result<std::vector<std::uint32_t>> decode_active(std::span<const std::byte, kIdentifyBytes> list,
                                                 std::uint32_t after) {
  std::vector<std::uint32_t> out;
  for (std::size_t at = 0; at < list.size(); at += sizeof(std::uint32_t)) {
    const auto id = load_le<std::uint32_t>(list.data() + at);
    if (id == 0) break;
    if (id <= after) {
      return fail(Code::kCorrupt, "active namespaces: the ids do not ascend");
    }
    out.push_back(id);
    after = id;
  }
  return out;
}

std::string field_text(std::span<const char> field) {
  const auto end = std::find(field.begin(), field.end(), '\0');
  std::string out(field.begin(), end);
  out.erase(out.find_last_not_of(' ') + 1);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

void put_field(std::span<char> field, std::string_view text, char pad) noexcept {
  const std::size_t kept = std::min(field.size(), text.size());
  std::copy_n(text.begin(), kept, field.begin());
  std::fill(field.begin() + static_cast<std::ptrdiff_t>(kept), field.end(), pad);
}

}  // namespace larder::nvmf
