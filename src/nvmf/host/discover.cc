// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/discover.h"

#include "nvmf/pdu/connect.h"

namespace larder::nvmf {
namespace {

constexpr int kReadings = 8;
constexpr std::size_t kEntriesAtOnce = 32;
constexpr std::uint16_t kQueuesAsked = 64;

Result<DiscoveryHeader> read_header(Admin& admin, env::Nanos deadline) {
  DiscoveryHeader header;
  LARDER_TRY(admin.read_log(LogPage::kDiscovery, 0, std::as_writable_bytes(std::span(&header, 1)),
                            deadline));
  if (header.recfmt != 0) {
    return fail(Code::kUnsupported, "the discovery log page has format " +
                                        std::to_string(header.recfmt) + ", only 0 is known");
  }
  if (header.numrec > kDiscoveryEntriesMax) {
    return fail(Code::kTooLarge, "the discovery log page has " + std::to_string(header.numrec) +
                                     " entries; at most " + std::to_string(kDiscoveryEntriesMax) +
                                     " are read");
  }
  return header;
}

Result<std::vector<DiscoveryEntry>> read_entries(Admin& admin, std::size_t count,
                                                 env::Nanos deadline) {
  std::vector<DiscoveryEntry> entries(count);
  for (std::size_t at = 0; at < count; at += kEntriesAtOnce) {
    const auto part = std::span(entries).subspan(at, std::min(kEntriesAtOnce, count - at));
    LARDER_TRY(admin.read_log(LogPage::kDiscovery,
                              sizeof(DiscoveryHeader) + at * sizeof(DiscoveryEntry),
                              std::as_writable_bytes(part), deadline));
  }
  return entries;
}

// Closes as one should; what the target answers to that does not matter any more.
void leave(Attachment& attachment, env::Nanos deadline) {
  static_cast<void>(attachment.admin->shut_down(deadline));
}

}  // namespace

Result<std::vector<DiscoveredSubsystem>> discover(const ToolOptions& options) {
  const env::Nanos deadline = env::monotonic_now() + options.timeout;
  HostIdentityOptions host_options = options.host;
  if (!options.url.host_nqn.empty()) host_options.nqn = options.url.host_nqn;
  LARDER_ASSIGN(const HostIdentity host, host_identity(host_options));
  LARDER_ASSIGN(Attachment attachment,
                attach(options.url, std::string(kDiscoveryNqn), host, 0, deadline));
  for (int reading = 0; reading < kReadings; ++reading) {
    LARDER_ASSIGN(const DiscoveryHeader before, read_header(*attachment.admin, deadline));
    LARDER_ASSIGN(const auto entries, read_entries(*attachment.admin, before.numrec, deadline));
    LARDER_ASSIGN(const DiscoveryHeader after, read_header(*attachment.admin, deadline));
    if (before.genctr != after.genctr || before.numrec != after.numrec) continue;
    std::vector<DiscoveredSubsystem> out;
    for (const DiscoveryEntry& entry : entries) {
      LARDER_ASSIGN(DiscoveredSubsystem found, decode_entry(entry));
      out.push_back(std::move(found));
    }
    leave(attachment, deadline);
    return out;
  }
  return fail(Code::kConflict, "the discovery log page of " + options.url.address().to_string() +
                                   " changes faster than it can be read; try again");
}

Result<Identified> identify(const ToolOptions& options) {
  if (options.url.nqn.empty()) {
    return fail(Code::kInvalidArgument,
                "the URL names no subsystem: nvme-tcp://HOST:PORT/NQN; larder nvme discover shows "
                "which there are");
  }
  const env::Nanos deadline = env::monotonic_now() + options.timeout;
  HostIdentityOptions host_options = options.host;
  if (!options.url.host_nqn.empty()) host_options.nqn = options.url.host_nqn;
  LARDER_ASSIGN(const HostIdentity host, host_identity(host_options));
  LARDER_ASSIGN(Attachment attachment, attach(options.url, options.url.nqn, host, 0, deadline));
  Identified out;
  out.controller = attachment.controller;
  LARDER_ASSIGN(out.io_queues, attachment.admin->set_queues(kQueuesAsked, deadline));
  std::vector<std::uint32_t> wanted;
  if (options.url.nsid) {
    wanted.push_back(*options.url.nsid);
  } else {
    LARDER_ASSIGN(wanted, attachment.admin->active_namespaces(deadline));
  }
  for (const std::uint32_t nsid : wanted) {
    auto facts = find_namespace(*attachment.admin, nsid, deadline);
    if (facts) {
      out.namespaces.push_back(std::move(*facts));
    } else if (options.url.nsid || !attachment.admin->pair().open()) {
      return fail(facts.error());
    } else {
      out.others.push_back("namespace " + std::to_string(nsid) + ": " + facts.error().message());
    }
  }
  leave(attachment, deadline);
  return out;
}

}  // namespace larder::nvmf
