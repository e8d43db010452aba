// SPDX-License-Identifier: Apache-2.0
#include "nvmf/target/subsystem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/checksum.h"

namespace larder::nvmf {
namespace {

constexpr std::uint16_t kCntlidMax = 0xFFEF;  // above are values with a meaning
constexpr std::uint16_t kPortId = 1;
constexpr std::uint32_t kAdminEntriesMin = 32;

ConnectOutcome refuse(Sc code, const char* why) {
  return {refused(code), {}, why, nullptr};
}

ConnectOutcome refuse_data(std::size_t offset, const char* why) {
  return {refused(Sc::kConnectInvalidParameters),
          {static_cast<std::uint16_t>(offset), true},
          why,
          nullptr};
}

ConnectOutcome refuse_command(std::size_t offset, const char* why) {
  return {refused(Sc::kConnectInvalidParameters),
          {static_cast<std::uint16_t>(offset), false},
          why,
          nullptr};
}

tl::unexpected<Error> no_namespace(std::uint32_t nsid) {
  return fail(Code::kNotFound, fmt::format("there is no namespace {}", nsid));
}

}  // namespace

Subsystem::Subsystem(const TargetOptions& options, std::function<void()> sweep)
    : options_(options), sweep_(std::move(sweep)), table_(std::make_shared<NamespaceTable>()) {
  put_field(serial_, fmt::format("{:016x}", checksum64(as_bytes(options.nqn))), ' ');
}

std::shared_ptr<const NamespaceTable> Subsystem::table() const {
  const std::lock_guard lock(mutex_);
  return table_;
}

Result<std::uint32_t> Subsystem::add(const NamespaceOptions& options) {
  const std::uint32_t nsid = options.nsid != 0 ? options.nsid : table()->lowest_free();
  if (nsid == 0 || nsid > kNamespaceIdMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("namespace ids are 1 to {}, and one must be free", kNamespaceIdMax));
  }
  if (table()->find(nsid) != nullptr) {
    return fail(Code::kAlreadyExists, fmt::format("there is a namespace {} already", nsid));
  }
  LARDER_ASSIGN(auto space, make_namespace(options, nsid, options_.transfer_max));
  put(nsid, std::move(space));
  return nsid;
}

Result<void> Subsystem::remove(std::uint32_t nsid) {
  if (table()->find(nsid) == nullptr) return no_namespace(nsid);
  put(nsid, nullptr);
  return {};
}

Result<void> Subsystem::replace(const NamespaceOptions& options) {
  if (table()->find(options.nsid) == nullptr) return no_namespace(options.nsid);
  LARDER_ASSIGN(auto space, make_namespace(options, options.nsid, options_.transfer_max));
  put(options.nsid, std::move(space));
  return {};
}

Result<void> Subsystem::resize(std::uint32_t nsid, std::uint64_t bytes) {
  const auto old = table();
  const auto* found = old->find(nsid);
  if (found == nullptr) return no_namespace(nsid);
  LARDER_ASSIGN(auto space, resized(**found, bytes));
  put(nsid, std::move(space));
  return {};
}

void Subsystem::put(std::uint32_t nsid, std::shared_ptr<const Namespace> space) {
  {
    const std::lock_guard lock(mutex_);
    auto table = std::make_shared<NamespaceTable>(*table_);
    table->set(nsid, std::move(space));
    table_ = std::move(table);
    generation_.fetch_add(1, std::memory_order_acq_rel);
    for (auto& [cntlid, controller] : controllers_) {
      if (!controller->discovery()) controller->note_changed(nsid);
    }
  }
  sweep_();
}

ConnectOutcome Subsystem::connect(const ConnectCommand& command, const ConnectData& data,
                                  env::Nanos now) {
  if (command.recfmt != 0) return refuse(Sc::kConnectFormat, "a record format that is not 0");
  // MQES is of I/O queues; an admin queue may always have 32 entries (Fabrics 1.1 section 5.4).
  const std::uint32_t entries_max = command.qid == 0
                                        ? std::max(options_.queue_entries_max, kAdminEntriesMin)
                                        : options_.queue_entries_max;
  if (command.sqsize == 0 || command.sqsize >= entries_max) {
    return refuse_command(offsetof(ConnectCommand, sqsize), "SQSIZE is not 1 to MQES");
  }
  const auto subsystem = decode_nqn(data.subnqn);
  if (!subsystem) return refuse_data(offsetof(ConnectData, subnqn), "SUBNQN is no NQN");
  const bool discovery = *subsystem == kDiscoveryNqn;
  if (!discovery && *subsystem != options_.nqn) {
    return refuse_data(offsetof(ConnectData, subnqn), "SUBNQN is another subsystem's");
  }
  const auto host = decode_nqn(data.hostnqn);
  if (!host) return refuse_data(offsetof(ConnectData, hostnqn), "HOSTNQN is no NQN");
  if (!discovery && !allows(*host)) {
    return refuse(Sc::kConnectInvalidHost, "this host is not among those allowed");
  }
  return command.qid == 0 ? connect_admin(command, data, *host, discovery, now)
                          : connect_io(command, data, *host);
}

bool Subsystem::allows(const std::string& host) const {
  const auto& allowed = options_.allow_hosts;
  return allowed.empty() || std::find(allowed.begin(), allowed.end(), host) != allowed.end();
}

ConnectOutcome Subsystem::connect_admin(const ConnectCommand& command, const ConnectData& data,
                                        const std::string& host, bool discovery, env::Nanos now) {
  if (data.cntlid != kAnyController) {
    return refuse_data(offsetof(ConnectData, cntlid), "controllers are dynamic: CNTLID is FFFFh");
  }
  const std::lock_guard lock(mutex_);
  if (controllers_.size() >= options_.controllers_max) {
    return {failed(Sc::kControllerBusy), {}, "as many controllers as there may be", nullptr};
  }
  while (controllers_.contains(next_cntlid_)) {
    next_cntlid_ = next_cntlid_ == kCntlidMax ? 1 : next_cntlid_ + 1;
  }
  Controller::Options made;
  made.cntlid = next_cntlid_;
  made.host_nqn = host;
  made.host_id = data.host_id;
  made.discovery = discovery;
  made.queue_entries_max = options_.queue_entries_max;
  made.io_queues_max = options_.io_queues_max;
  made.keep_alive_ms = command.kato_ms;
  made.now = now;
  auto controller = std::make_shared<Controller>(made);
  controllers_.emplace(made.cntlid, controller);
  next_cntlid_ = next_cntlid_ == kCntlidMax ? 1 : next_cntlid_ + 1;
  return {{}, {}, "", std::move(controller)};
}

ConnectOutcome Subsystem::connect_io(const ConnectCommand& command, const ConnectData& data,
                                     const std::string& host) {
  std::shared_ptr<Controller> controller;
  {
    const std::lock_guard lock(mutex_);
    const auto found = controllers_.find(data.cntlid);
    if (found != controllers_.end()) controller = found->second;
  }
  if (controller == nullptr || controller->ended() || controller->discovery()) {
    return refuse_data(offsetof(ConnectData, cntlid), "there is no such controller");
  }
  if (controller->host_nqn() != host) {
    return refuse_data(offsetof(ConnectData, hostnqn), "the controller is another host's");
  }
  if (controller->host_id() != data.host_id) {
    return refuse_data(offsetof(ConnectData, host_id), "the controller has another host id");
  }
  switch (controller->take_queue(command.qid)) {
    case Controller::QueueTaken::kYes:
      return {{}, {}, "", std::move(controller)};
    case Controller::QueueTaken::kNotReady:
      return refuse(Sc::kSequenceError, "the controller is not enabled");
    case Controller::QueueTaken::kInUse:
      return refuse(Sc::kSequenceError, "the queue is connected already");
    case Controller::QueueTaken::kBadId:
      break;
  }
  return refuse_command(offsetof(ConnectCommand, qid), "QID is above the number of queues");
}

void Subsystem::end(Controller& controller) {
  {
    const std::lock_guard lock(mutex_);
    controller.end();
    const auto found = controllers_.find(controller.cntlid());
    if (found != controllers_.end() && found->second.get() == &controller) {
      controllers_.erase(found);
    }
  }
  sweep_();
}

std::size_t Subsystem::controllers() const {
  const std::lock_guard lock(mutex_);
  return controllers_.size();
}

std::vector<std::byte> Subsystem::discovery_log(const env::SocketAddress& local) const {
  const AddressFamily family =
      local.host.find(':') == std::string::npos ? AddressFamily::kIpv4 : AddressFamily::kIpv6;
  const std::string port = std::to_string(local.port);
  const std::array entries = {
      make_entry(SubsystemType::kCurrentDiscovery, family, local.host, port, kDiscoveryNqn,
                 kPortId),
      make_entry(SubsystemType::kNvm, family, local.host, port, options_.nqn, kPortId)};
  DiscoveryHeader header;
  header.genctr = 1;
  header.numrec = entries.size();
  std::vector<std::byte> out(sizeof(header) + sizeof(entries));
  std::memcpy(out.data(), &header, sizeof(header));
  std::memcpy(out.data() + sizeof(header), entries.data(), sizeof(entries));
  return out;
}

}  // namespace larder::nvmf
