// SPDX-License-Identifier: Apache-2.0
#include "nvmf/spdk/controller.h"

#include <spdk/env.h>
#include <spdk/nvme.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "env/socket.h"

namespace larder::nvmf {
namespace {

static_assert(sizeof(spdk_nvme_ctrlr_data) == sizeof(IdentifyController));
static_assert(sizeof(spdk_nvme_ns_data) == sizeof(IdentifyNamespace));
static_assert(sizeof(spdk_uuid) == sizeof(Id16));

// The driver has one controller of a name in a process (its list is static, too).
struct Attached {
  std::mutex mutex;             // guards what follows
  std::set<std::string> names;  // transport id and host NQN
};

Attached& attached() {
  static Attached it;
  return it;
}

// In the form that spdk_nvme_transport_id_parse() takes.
Result<std::string> transport_id(const SpdkDeviceOptions& options) {
  const NvmeUrl& url = options.remote.url;
  const bool spaces = (url.host + url.nqn).find_first_of(" \t\n") != std::string::npos;
  if (spaces) {
    return fail(Code::kInvalidArgument, "SPDK takes no spaces in the name of a host or subsystem");
  }
  const bool v6 = url.host.find(':') != std::string::npos;
  return std::string("trtype:") + (options.transport == SpdkTransport::kTcp ? "TCP" : "RDMA") +
         " adrfam:" + (v6 ? "IPv6" : "IPv4") + " traddr:" + url.host +
         " trsvcid:" + std::to_string(url.port) + " subnqn:" + url.nqn;
}

spdk_nvme_ctrlr_opts controller_options(const NvmeDeviceOptions& options,
                                        const HostIdentity& host) {
  spdk_nvme_ctrlr_opts out = {};
  spdk_nvme_ctrlr_get_default_ctrlr_opts(&out, sizeof(out));
  out.num_io_queues = options.queues;
  out.io_queue_size = options.queue_entries;
  // The driver may make several requests of one command.
  out.io_queue_requests = std::max<std::uint32_t>(512, 4U * options.queue_entries);
  out.keep_alive_timeout_ms = static_cast<std::uint32_t>(options.keep_alive / env::kMilli);
  out.admin_timeout_ms = static_cast<std::uint32_t>(options.connect_timeout / env::kMilli);
  out.fabrics_connect_timeout_us =
      static_cast<std::uint64_t>(options.connect_timeout / env::kMicro);
  out.header_digest = options.url.header_digest;
  out.data_digest = options.url.data_digest;
  const std::size_t length = std::min(host.nqn.size(), sizeof(out.hostnqn) - 1);
  std::memcpy(out.hostnqn, host.nqn.data(), length);
  out.hostnqn[length] = '\0';
  static_assert(sizeof(out.extended_host_id) == sizeof(Id16));
  std::memcpy(out.extended_host_id, host.id.data(), host.id.size());
  return out;
}

}  // namespace

Result<std::unique_ptr<SpdkController>> SpdkController::attach(const SpdkDeviceOptions& options,
                                                               const HostIdentity& host) {
  LARDER_ASSIGN(const std::string id, transport_id(options));
  spdk_nvme_transport_id address = {};
  if (spdk_nvme_transport_id_parse(&address, id.c_str()) != 0) {
    return fail(Code::kInvalidArgument, "SPDK does not take the address " + id);
  }
  std::unique_ptr<SpdkController> out(new SpdkController());
  {
    const std::lock_guard lock(attached().mutex);
    if (!attached().names.insert(id + " " + host.nqn).second) {
      return fail(Code::kConflict,
                  "this process uses " + options.remote.url.to_string() +
                      " through SPDK already, which has one controller of a subsystem in a "
                      "process; close that device and its queues first");
    }
  }
  out->name_ = id + " " + host.nqn;
  const spdk_nvme_ctrlr_opts given = controller_options(options.remote, host);
  out->raw_ = spdk_nvme_connect(&address, &given, sizeof(given));
  if (out->raw_ == nullptr) {
    return fail(Code::kUnavailable, "SPDK could not attach " + options.remote.url.to_string() +
                                        "; it has written why to the standard error");
  }
  LARDER_TRY(out->read_facts());
  return out;
}

SpdkController::~SpdkController() {
  if (raw_ != nullptr) {
    // Else the driver would wait for its farewell to be answered.
    if (*lost_) spdk_nvme_ctrlr_fail(raw_);
    spdk_nvme_detach(raw_);
  }
  if (name_.empty()) return;
  const std::lock_guard lock(attached().mutex);
  attached().names.erase(name_);
}

Result<void> SpdkController::read_facts() {
  std::memcpy(static_cast<void*>(&facts_.raw), spdk_nvme_ctrlr_get_data(raw_), sizeof(facts_.raw));
  facts_.cap.bits = spdk_nvme_ctrlr_get_regs_cap(raw_).raw;
  LARDER_ASSIGN(facts_.limits, limits_of(facts_.raw, facts_.cap.page_shift_min()));
  spdk_nvme_ctrlr_register_aer_callback(
      raw_,
      [](void* self, const spdk_nvme_cpl* completion) {
        Events& events = static_cast<SpdkController*>(self)->events_;
        const AsyncEvent event = AsyncEvent::from(completion->cdw0);
        ++events.count;
        events.namespaces |= event.type == kEventNotice && event.info == kNoticeNamespaceChanged;
      },
      this);
  return {};
}

Result<NamespaceFacts> SpdkController::find_namespace(std::optional<std::uint32_t> wanted) {
  const std::uint32_t first = spdk_nvme_ctrlr_get_first_active_ns(raw_);
  const bool only = first != 0 && spdk_nvme_ctrlr_get_next_active_ns(raw_, first) == 0;
  NamespaceFacts out;
  out.nsid = wanted.value_or(only ? first : 1);
  spdk_nvme_ns* const found = raw_namespace(out.nsid);
  if (found == nullptr) {
    return fail(Code::kNotFound,
                "the subsystem has no namespace " + std::to_string(out.nsid) +
                    (first == 0 ? "; it has none" : "; the first is " + std::to_string(first)) +
                    ": name one as #NSID at the end of the URL");
  }
  std::memcpy(static_cast<void*>(&out.raw), spdk_nvme_ns_get_data(found), sizeof(out.raw));
  LARDER_ASSIGN(out.shape, shape_of(out.raw));
  if (const spdk_uuid* const uuid = spdk_nvme_ns_get_uuid(found); uuid != nullptr) {
    std::memcpy(out.ids.uuid.data(), uuid, sizeof(Id16));
    out.ids.has_uuid = true;
  }
  out.ids.command_set = static_cast<std::uint8_t>(spdk_nvme_ns_get_csi(found));
  if (out.ids.command_set != 0) {
    return fail(Code::kUnsupported, "namespace " + std::to_string(out.nsid) +
                                        " is not of the NVM command set (CSI " +
                                        std::to_string(out.ids.command_set) + ")");
  }
  return out;
}

std::uint16_t SpdkController::queues() const noexcept {
  // The driver puts what was granted where it was asked for.
  const std::uint32_t granted = spdk_nvme_ctrlr_get_opts(raw_)->num_io_queues;
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(granted, block::kQueuesMax));
}

spdk_nvme_ns* SpdkController::raw_namespace(std::uint32_t nsid) const noexcept {
  spdk_nvme_ns* const found = spdk_nvme_ctrlr_get_ns(raw_, nsid);
  return found != nullptr && spdk_nvme_ns_is_active(found) ? found : nullptr;
}

Result<void> SpdkController::attend() {
  const std::int32_t ended = spdk_nvme_ctrlr_process_admin_completions(raw_);
  if (ended < 0) {
    return fail(Code::kUnavailable, "the admin queue was lost: " + env::errno_text(-ended));
  }
  if (spdk_nvme_ctrlr_is_failed(raw_)) return fail(Code::kUnavailable, "the controller failed");
  return {};
}

SpdkController::Events SpdkController::take_events() noexcept {
  return std::exchange(events_, {});
}

}  // namespace larder::nvmf
