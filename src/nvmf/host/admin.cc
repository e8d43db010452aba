// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/admin.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace larder::nvmf {
namespace {

constexpr env::Nanos kLook = 2 * env::kMilli;  // between two looks at CSTS

Command admin_command(AdminOpcode opcode) {
  Command command;
  command.opcode = static_cast<std::uint8_t>(opcode);
  return command;
}

template <class T>
std::span<std::byte> bytes_of(T& object) {
  return std::as_writable_bytes(std::span(&object, 1));
}

}  // namespace

Result<Completion> Admin::run(const Request& request, const std::string& what,
                              env::Nanos deadline) {
  LARDER_ASSIGN(const Completion completion, pair_->execute(request, deadline, others_));
  const Status status = completion.result();
  if (status.ok()) return completion;
  return fail(code_of(status), what + ": " + to_string(status));
}

Result<std::uint64_t> Admin::get_property(PropertyOffset offset, env::Nanos deadline) {
  PropertyCommand command;
  command.fctype = static_cast<std::uint8_t>(FabricsType::kPropertyGet);
  command.offset = static_cast<std::uint32_t>(offset);
  command.attrib = property_bytes(command.offset) == 8 ? 1 : 0;
  Request request;
  request.command = std::bit_cast<Command>(command);
  LARDER_ASSIGN(const Completion completion, run(request, "Property Get", deadline));
  return command.attrib == 1 ? completion.value() : completion.dw0;
}

Result<void> Admin::set_property(PropertyOffset offset, std::uint64_t value, env::Nanos deadline) {
  PropertyCommand command;
  command.fctype = static_cast<std::uint8_t>(FabricsType::kPropertySet);
  command.offset = static_cast<std::uint32_t>(offset);
  command.value = value;
  Request request;
  request.command = std::bit_cast<Command>(command);
  LARDER_TRY(run(request, "Property Set", deadline));
  return {};
}

Result<Cap> Admin::enable(env::Nanos deadline) {
  LARDER_ASSIGN(const std::uint64_t bits, get_property(PropertyOffset::kCap, deadline));
  const Cap cap{bits};
  if (cap.queue_entries_max() < 2) {
    return fail(Code::kUnsupported,
                "the controller has queues of less than two entries (CAP.MQES)");
  }
  LARDER_TRY(set_property(PropertyOffset::kCc, Cc::enabled(cap.page_shift_min()).bits, deadline));
  const env::Nanos until =
      std::min(deadline, env::monotonic_now() + std::max(1U, cap.ready_timeout_ms()) * env::kMilli);
  for (;;) {
    LARDER_ASSIGN(const std::uint64_t status, get_property(PropertyOffset::kCsts, deadline));
    const Csts csts{static_cast<std::uint32_t>(status)};
    if (csts.fatal())
      return fail(Code::kUnavailable, "the controller reports a fatal error (CSTS)");
    if (csts.ready()) return cap;
    if (env::monotonic_now() >= until) {
      return fail(Code::kUnavailable, "the controller was enabled and does not become ready");
    }
    env::system_clock().sleep(kLook);
  }
}

Result<void> Admin::shut_down(env::Nanos deadline) {
  LARDER_ASSIGN(const std::uint64_t cc, get_property(PropertyOffset::kCc, deadline));
  const Cc now{static_cast<std::uint32_t>(cc)};
  LARDER_TRY(set_property(PropertyOffset::kCc, now.with_shutdown().bits, deadline));
  for (;;) {
    LARDER_ASSIGN(const std::uint64_t status, get_property(PropertyOffset::kCsts, deadline));
    if (Csts{static_cast<std::uint32_t>(status)}.shutdown() == kShutdownComplete) return {};
    if (env::monotonic_now() >= deadline) {
      return fail(Code::kDeadlineExceeded, "the controller does not end its shutdown");
    }
    env::system_clock().sleep(kLook);
  }
}

Result<void> Admin::identify(IdentifyCns cns, std::uint32_t nsid, std::span<std::byte> into,
                             env::Nanos deadline) {
  const OneBlock block(into.data(), into.size());
  Request request;
  request.command = admin_command(AdminOpcode::kIdentify);
  request.command.nsid = nsid;
  request.command.cdw10 = static_cast<std::uint8_t>(cns);
  request.flow = DataFlow::kToHost;
  request.data = block.window();
  LARDER_TRY(run(request,
                 "Identify " + std::to_string(static_cast<unsigned>(cns)) + " of namespace " +
                     std::to_string(nsid),
                 deadline));
  return {};
}

Result<IdentifyController> Admin::identify_controller(env::Nanos deadline) {
  IdentifyController out;
  LARDER_TRY(identify(IdentifyCns::kController, 0, bytes_of(out), deadline));
  return out;
}

Result<IdentifyNamespace> Admin::identify_namespace(std::uint32_t nsid, env::Nanos deadline) {
  IdentifyNamespace out;
  LARDER_TRY(identify(IdentifyCns::kNamespace, nsid, bytes_of(out), deadline));
  return out;
}

Result<NamespaceIds> Admin::namespace_ids(std::uint32_t nsid, env::Nanos deadline) {
  std::array<std::byte, kIdentifyBytes> list{};
  const auto got = identify(IdentifyCns::kDescriptors, nsid, list, deadline);
  if (!got && pair_->open() && got.error().code() == Code::kInvalidArgument) return NamespaceIds();
  if (!got) return fail(got.error());
  return decode_ids(list);
}

Result<std::vector<std::uint32_t>> Admin::active_namespaces(env::Nanos deadline) {
  std::array<std::byte, kIdentifyBytes> list{};
  LARDER_TRY(identify(IdentifyCns::kActiveNamespaces, 0, list, deadline));
  return decode_active(list, 0);
}

Result<std::uint16_t> Admin::set_queues(std::uint16_t wanted, env::Nanos deadline) {
  Request request;
  request.command = admin_command(AdminOpcode::kSetFeatures);
  request.command.cdw10 = static_cast<std::uint8_t>(FeatureId::kQueues);
  request.command.cdw11 = (wanted - 1U) << 16U | (wanted - 1U);
  LARDER_ASSIGN(const Completion completion, run(request, "Set Features (queues)", deadline));
  const std::uint32_t least = std::min(completion.dw0 & 0xFFFFU, completion.dw0 >> 16U) + 1;
  // A number that may not be asked for (Base 2.0 section 5.27.1.5): there is no I/O queue.
  if (least > 0xFFFF) return fail(Code::kExhausted, "the controller grants no I/O queue");
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(least, wanted));
}

Result<void> Admin::set_events(std::uint32_t events, env::Nanos deadline) {
  Request request;
  request.command = admin_command(AdminOpcode::kSetFeatures);
  request.command.cdw10 = static_cast<std::uint8_t>(FeatureId::kAsyncEvents);
  request.command.cdw11 = events;
  LARDER_TRY(run(request, "Set Features (events)", deadline));
  return {};
}

Result<void> Admin::read_log(LogPage page, std::uint64_t offset, std::span<std::byte> into,
                             env::Nanos deadline) {
  const OneBlock block(into.data(), into.size());
  Request request;
  request.command = admin_command(AdminOpcode::kGetLogPage);
  request.command.nsid = page == LogPage::kDiscovery ? 0 : kAllNamespaces;
  LogRequest log;
  log.page = static_cast<std::uint8_t>(page);
  log.bytes = into.size();
  log.offset = offset;
  log.put_into(request.command);
  request.flow = DataFlow::kToHost;
  request.data = block.window();
  LARDER_TRY(run(request, "Get Log Page", deadline));
  return {};
}

void Admin::begin(AdminOpcode opcode, std::uint64_t owner) {
  Request request;
  request.command = admin_command(opcode);
  request.owner = owner;
  pair_->session().submit(request, env::monotonic_now());
}

}  // namespace larder::nvmf
