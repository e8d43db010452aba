// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/facts.h"

#include <algorithm>
#include <bit>

#include "nvmf/pdu/connect.h"

namespace larder::nvmf {
namespace {

constexpr std::uint16_t kAdminEntries = 32;
constexpr std::uint64_t kTransferMax = 256ULL << 20U;  // of one operation
constexpr std::uint64_t kZeroesMax = 1ULL << 30U;      // so
constexpr std::uint32_t kOptimalBytes = 128U << 10U;   // what half the bar of 1 MiB needs
constexpr std::uint32_t kSectorBytes = 512;
constexpr std::size_t kListedMax = 8;                       // namespaces in an error
constexpr std::uint8_t kNsfeatAtomic = 1U << 1U;            // NAWUPF is valid
constexpr std::uint8_t kWriteZeroesDeallocates = 1U << 3U;  // DLFEAT

std::string hex(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : bytes) {
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
  return out;
}

// What a loss of power cannot tear. A controller that says nothing says 0, which means one block
// (NVM Command Set 1.0 section 2.1.4.2); but targets over files say 0, too, whatever is below. So
// only a word that was put there on purpose counts.
std::uint32_t sector_of(const ControllerFacts& controller, const NamespaceFacts& facts) {
  const std::uint32_t block = facts.shape.block_bytes;
  const bool own = (facts.raw.nsfeat & kNsfeatAtomic) != 0 && facts.raw.nawupf > 0;
  const bool told = own || controller.raw.awupf > 0;
  return told ? block : std::min(block, kSectorBytes);
}

std::uint32_t optimal_of(const NamespaceFacts& facts) {
  const std::uint64_t said =
      std::uint64_t{facts.shape.optimal_write_blocks} * facts.shape.block_bytes;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(said, kOptimalBytes, 8U << 20U));
}

}  // namespace

Result<Attachment> attach(const NvmeUrl& url, const std::string& subnqn, const HostIdentity& host,
                          env::Nanos keep_alive, env::Nanos deadline) {
  Attachment out;
  out.pair.address = url.address();
  out.pair.subnqn = subnqn;
  out.pair.host = host;
  out.pair.header_digest = url.header_digest;
  out.pair.data_digest = url.data_digest;
  out.pair.entries = kAdminEntries;
  out.pair.keep_alive_ms = static_cast<std::uint32_t>(keep_alive / env::kMilli);
  LARDER_ASSIGN(auto pair, QueuePair::connect(out.pair, deadline));
  out.admin = std::make_unique<Admin>(std::move(pair));
  LARDER_ASSIGN(out.controller.cap, out.admin->enable(deadline));
  LARDER_ASSIGN(out.controller.raw, out.admin->identify_controller(deadline));
  LARDER_ASSIGN(out.controller.limits,
                limits_of(out.controller.raw, out.controller.cap.page_shift_min()));
  return out;
}

Result<NamespaceFacts> find_namespace(Admin& admin, std::optional<std::uint32_t> wanted,
                                      env::Nanos deadline) {
  LARDER_ASSIGN(const auto active, admin.active_namespaces(deadline));
  NamespaceFacts out;
  out.nsid = wanted.value_or(active.size() == 1 ? active.front() : 1);
  const bool there = std::find(active.begin(), active.end(), out.nsid) != active.end();
  if (!there && active.size() < kIdentifyBytes / 4) {
    std::string text = "the subsystem has no namespace " + std::to_string(out.nsid) + "; it has ";
    for (std::size_t i = 0; i < std::min(active.size(), kListedMax); ++i) {
      text += (i > 0 ? ", " : "") + std::to_string(active[i]);
    }
    if (active.empty()) text += "none";
    if (active.size() > kListedMax) text += " and more";
    return fail(Code::kNotFound, text + ": name one as #NSID at the end of the URL");
  }
  LARDER_ASSIGN(out.raw, admin.identify_namespace(out.nsid, deadline));
  LARDER_ASSIGN(out.shape, shape_of(out.raw));
  LARDER_ASSIGN(out.ids, admin.namespace_ids(out.nsid, deadline));
  if (out.ids.command_set != 0) {
    return fail(Code::kUnsupported, "namespace " + std::to_string(out.nsid) +
                                        " is not of the NVM command set (CSI " +
                                        std::to_string(out.ids.command_set) + ")");
  }
  return out;
}

// Write Zeroes that deallocates is the better discard: what was discarded reads as zeros for
// certain, where Dataset Management may do nothing at all.
Result<block::Geometry> geometry_of(const ControllerFacts& controller,
                                    const NamespaceFacts& facts) {
  block::Geometry out;
  out.block_bytes = facts.shape.block_bytes;
  out.memory_alignment = 1;  // data goes through a socket, and no address of ours to the controller
  out.sector_bytes = sector_of(controller, facts);
  out.blocks = facts.shape.blocks;
  out.transfer_max = kTransferMax;
  out.optimal_bytes = optimal_of(facts);
  const bool zeroes = controller.limits.write_zeroes && facts.shape.deallocate_zeroes &&
                      (facts.raw.dlfeat & kWriteZeroesDeallocates) != 0;
  out.discard_zeroes = zeroes;
  if (zeroes || controller.limits.deallocate) {
    const std::uint64_t said =
        std::uint64_t{std::max(1U, facts.shape.deallocate_blocks)} * out.block_bytes;
    out.discard_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(said, 1U << 30U));
  }
  if (controller.limits.write_zeroes) out.zeroes_max = kZeroesMax;
  out.volatile_cache = controller.limits.volatile_cache;
  const auto sound = block::check(out);
  if (!sound) {
    return fail(Code::kUnsupported, "namespace " + std::to_string(facts.nsid) + " has " +
                                        std::to_string(out.blocks) + " blocks of " +
                                        std::to_string(out.block_bytes) +
                                        " bytes: " + sound.error().message());
  }
  return out;
}

block::Identity identity_of(const NvmeUrl& url, const ControllerFacts& controller,
                            const NamespaceFacts& facts) {
  const Id16& nguid = facts.ids.has_nguid ? facts.ids.nguid : facts.shape.nguid;
  const Id8& eui64 = facts.ids.has_eui64 ? facts.ids.eui64 : facts.shape.eui64;
  block::Identity out{"nvme-tcp", url.to_string(), {}};
  if (facts.ids.has_uuid && !is_zero(facts.ids.uuid)) {
    out.id = "uuid." + uuid_text(facts.ids.uuid);
  } else if (!is_zero(nguid)) {
    out.id = "nguid." + hex(nguid);
  } else if (eui64 != Id8()) {
    out.id = "eui64." + hex(eui64);
  } else {
    out.id = url.nqn + "/" + controller.limits.serial + "/" + std::to_string(facts.nsid);
  }
  return out;
}

std::uint32_t command_bytes_max(const ControllerFacts& controller, const NamespaceFacts& facts,
                                std::uint32_t limit) {
  const std::uint64_t block = facts.shape.block_bytes;
  std::uint64_t most = std::min<std::uint64_t>(limit, kRangeBlocksMax * block);
  if (controller.limits.transfer_max > 0) most = std::min(most, controller.limits.transfer_max);
  return static_cast<std::uint32_t>(std::max(most / block, std::uint64_t{1}) * block);
}

std::uint64_t zeroes_bytes_max(const ControllerFacts& controller, const NamespaceFacts& facts) {
  const std::uint64_t block = facts.shape.block_bytes;
  std::uint64_t most = kRangeBlocksMax * block;
  if (controller.limits.transfer_max > 0) most = std::min(most, controller.limits.transfer_max);
  return std::max(most / block, std::uint64_t{1}) * block;
}

std::string what_changed(const block::Geometry& before, const block::Identity& known,
                         const block::Geometry& now, const block::Identity& found) {
  if (known.id != found.id) {
    return "another namespace is there: it was " + known.id + ", it is " + found.id;
  }
  if (before.block_bytes != now.block_bytes) {
    return "the block size was " + std::to_string(before.block_bytes) + ", it is " +
           std::to_string(now.block_bytes);
  }
  if (now.blocks < before.blocks) {
    return "the namespace has shrunk from " + std::to_string(before.blocks) + " blocks to " +
           std::to_string(now.blocks);
  }
  if (now.volatile_cache && !before.volatile_cache) {
    return "the target has a volatile write cache now, and had none";
  }
  if (now.sector_bytes < before.sector_bytes) {
    return "what a loss of power cannot tear was " + std::to_string(before.sector_bytes) +
           " bytes, it is " + std::to_string(now.sector_bytes);
  }
  if (before.discard_zeroes && !now.discard_zeroes) {
    return "discarded blocks do not read as zeros any more";
  }
  if (before.discard_bytes > 0 && now.discard_bytes == 0) return "it cannot discard any more";
  if (before.zeroes_max > 0 && now.zeroes_max == 0) return "it cannot write zeroes any more";
  return {};
}

}  // namespace larder::nvmf
