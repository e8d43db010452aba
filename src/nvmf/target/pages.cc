// SPDX-License-Identifier: Apache-2.0
#include "nvmf/target/pages.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/bytes.h"
#include "nvmf/target/disk_worker.h"

namespace larder::nvmf {
namespace {

constexpr std::string_view kModel = "Larder NVMe/TCP target";
constexpr std::string_view kFirmware = "1";
constexpr std::uint16_t kKeepAliveStep = 10;            // 100 ms each
constexpr std::uint32_t kTrafficKeepsAlive = 1U << 6U;  // CTRATT: traffic based keep alive
constexpr std::uint8_t kLogEffects = 1U << 1U;          // LPA
constexpr std::uint8_t kLogOffsets = 1U << 2U;
constexpr std::uint8_t kCacheIsThere = 1U;  // VWC
constexpr std::uint8_t kFlushOfAllRefused = 2U << 1U;
constexpr std::uint16_t kDisconnects = 1U;  // OFCS
constexpr std::uint16_t kKelvin = 300;

constexpr std::uint8_t kSupported = 1;  // effects: CSUPP
constexpr std::uint8_t kChanges = 2;    // LBCC

}  // namespace

IdentifyController identify_controller(const Subsystem& subsystem, const Controller& controller,
                                       const NamespaceTable& table) {
  const TargetOptions& options = subsystem.options();
  IdentifyController id;
  id.serial = subsystem.serial();
  put_field(id.model, kModel, ' ');
  put_field(id.firmware, kFirmware, ' ');
  id.cmic = 1U << 1U;  // several controllers
  id.mdts = static_cast<std::uint8_t>(std::countr_zero(options.transfer_max) - 12);
  id.cntlid = controller.cntlid();
  id.ver = version(1, 4);
  id.oaes = controller.discovery() ? kEventDiscoveryChanged : kEventNamespaceChanged;
  id.ctratt = 1U | kTrafficKeepsAlive;  // and a host id of 128 bits
  id.cntrltype = controller.discovery() ? 2 : 1;
  id.acl = 3;
  id.aerl = kAsyncEventsMax - 1;
  id.frmw = 1U << 1U | 1U;  // one slot, read only
  id.lpa = kLogEffects | kLogOffsets;
  id.kas = kKeepAliveStep;
  id.sqes = 6U << 4U | 6U;
  id.cqes = 4U << 4U | 4U;
  id.maxcmd = static_cast<std::uint16_t>(options.queue_entries_max);
  id.sgls = kSglsAny | kSglsOffset | kSglsTransport;
  id.ioccsz = static_cast<std::uint32_t>((sizeof(Command) + options.in_capsule_bytes) / 16);
  id.iorcsz = 1;
  id.msdbd = 1;
  id.ofcs = kDisconnects;
  if (controller.discovery()) {
    encode_nqn(kDiscoveryNqn, id.subnqn);
    return id;
  }
  encode_nqn(options.nqn, id.subnqn);
  id.nn = kNamespaceIdMax;
  id.mnan = kNamespaceIdMax;
  id.oncs = kOncsDsm | kOncsWriteZeroes;
  id.vwc = kFlushOfAllRefused | (table.volatile_cache() ? kCacheIsThere : 0);
  return id;
}

IdentifyNamespace identify_namespace(const Namespace& space) {
  IdentifyNamespace id;
  id.nsze = space.blocks;
  id.ncap = space.blocks;
  id.nuse = space.blocks;
  id.nmic = 1;  // shared by all controllers
  id.dlfeat = space.discard_zeroes ? 1 : 0;
  id.nsattr = space.read_only ? 1 : 0;
  store_le(id.nvmcap.data(), space.bytes());
  id.nguid = space.nguid;
  id.formats[0].lbads = static_cast<std::uint8_t>(space.block_shift);
  if (space.disk != nullptr) {
    const block::Geometry& geometry = space.disk->device().geometry();
    const std::uint32_t unit = std::max(geometry.optimal_bytes, geometry.block_bytes);
    id.nsfeat |= kNsfeatOptimal;
    id.npwg = static_cast<std::uint16_t>((unit >> space.block_shift) - 1);
    id.npwa = 0;
    const std::uint32_t discard = std::max(geometry.discard_bytes, geometry.block_bytes);
    id.npdg = static_cast<std::uint16_t>((discard >> space.block_shift) - 1);
    id.npda = id.npdg;
  }
  return id;
}

std::vector<std::byte> active_namespaces(const NamespaceTable& table, std::uint32_t after) {
  std::vector<std::byte> out(kIdentifyBytes);
  std::size_t at = 0;
  for (std::uint64_t nsid = std::uint64_t{after} + 1; nsid <= kNamespaceIdMax; ++nsid) {
    if (at == out.size() || table.find(static_cast<std::uint32_t>(nsid)) == nullptr) continue;
    store_le(out.data() + at, static_cast<std::uint32_t>(nsid));
    at += sizeof(std::uint32_t);
  }
  return out;
}

std::vector<std::byte> namespace_ids(const Namespace& space) {
  NamespaceIds ids;
  ids.nguid = space.nguid;
  ids.has_nguid = true;
  ids.uuid = space.uuid;
  ids.has_uuid = true;
  std::array<std::byte, kIdentifyBytes> page{};
  encode_ids(ids, page);
  return {page.begin(), page.end()};
}

std::vector<std::byte> smart_page(const TargetStats& stats, bool read_only) {
  constexpr std::uint64_t kUnit = 512'000;
  SmartLog log;
  log.critical_warning = read_only ? kSmartReadOnly : 0;
  store_le(log.temperature.data(), kKelvin);
  log.spare = 100;
  log.spare_threshold = 10;
  log.units_read[0] = (stats.bytes_read + kUnit - 1) / kUnit;
  log.units_written[0] = (stats.bytes_written + kUnit - 1) / kUnit;
  log.reads[0] = stats.reads;
  log.writes[0] = stats.writes;
  return page_of(log);
}

std::vector<std::byte> firmware_page() {
  FirmwareLog log;
  log.afi = 1;
  put_field(log.slots[0], kFirmware, ' ');
  return page_of(log);
}

std::vector<std::byte> effects_page() {
  std::vector<std::byte> out(kIdentifyBytes);
  const auto admin = [&](AdminOpcode opcode) {
    out[static_cast<std::size_t>(opcode) * 4] = std::byte{kSupported};
  };
  const auto io = [&](IoOpcode opcode, std::uint8_t effects) {
    out[1024 + static_cast<std::size_t>(opcode) * 4] = std::byte{effects};
  };
  admin(AdminOpcode::kGetLogPage);
  admin(AdminOpcode::kIdentify);
  admin(AdminOpcode::kAbort);
  admin(AdminOpcode::kSetFeatures);
  admin(AdminOpcode::kGetFeatures);
  admin(AdminOpcode::kAsyncEvent);
  admin(AdminOpcode::kKeepAlive);
  io(IoOpcode::kFlush, kSupported);
  io(IoOpcode::kRead, kSupported);
  io(IoOpcode::kWrite, kSupported | kChanges);
  io(IoOpcode::kWriteZeroes, kSupported | kChanges);
  io(IoOpcode::kDatasetManagement, kSupported | kChanges);
  return out;
}

}  // namespace larder::nvmf
