// SPDX-License-Identifier: Apache-2.0
#include "nvmf/pdu/log_page.h"

namespace larder::nvmf {
namespace {

constexpr std::uint8_t kTreqNotSpecified = 0;
constexpr std::uint16_t kAdminQueueEntries = 32;

}  // namespace

Result<DiscoveredSubsystem> decode_entry(const DiscoveryEntry& entry) {
  DiscoveredSubsystem out;
  out.transport = entry.trtype;
  out.family = entry.adrfam;
  out.type = entry.subtype;
  out.address = field_text(entry.traddr);
  out.port = field_text(entry.trsvcid);
  out.cntlid = entry.cntlid;
  const auto tcp = static_cast<std::uint8_t>(TransportType::kTcp);
  out.secure = entry.trtype == tcp && entry.tsas[0] != 0;
  LARDER_ASSIGN(out.nqn, decode_nqn(entry.subnqn));
  return out;
}

DiscoveryEntry make_entry(SubsystemType type, AddressFamily family, std::string_view address,
                          std::string_view port, std::string_view nqn, std::uint16_t port_id) {
  DiscoveryEntry out;
  out.trtype = static_cast<std::uint8_t>(TransportType::kTcp);
  out.adrfam = static_cast<std::uint8_t>(family);
  out.subtype = static_cast<std::uint8_t>(type);
  out.treq = kTreqNotSpecified;
  out.portid = port_id;
  out.cntlid = kAnyController;
  out.asqsz = kAdminQueueEntries;
  put_field(out.trsvcid, port, ' ');
  encode_nqn(nqn, out.subnqn);
  put_field(out.traddr, address, ' ');
  return out;
}

}  // namespace larder::nvmf
