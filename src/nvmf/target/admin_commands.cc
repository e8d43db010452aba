// SPDX-License-Identifier: Apache-2.0
// Commands of admin queues (Base 2.0 section 5).
#include <algorithm>
#include <array>
#include <cstring>

#include "nvmf/target/connection.h"
#include "nvmf/target/pages.h"

namespace larder::nvmf {
namespace {

constexpr std::uint32_t kWriteCacheOn = 1;
constexpr std::uint32_t kNotAborted = 1;
constexpr std::uint32_t kExtendedHostId = 1;
constexpr std::uint32_t kSelectCapabilities = 3;  // cdw10 10:8
constexpr std::uint32_t kChangeable = 1U << 2U;

std::vector<std::byte> zeros() {
  return std::vector<std::byte>(kIdentifyBytes);
}

bool may_discover(std::uint8_t opcode) noexcept {
  switch (static_cast<AdminOpcode>(opcode)) {
    case AdminOpcode::kGetLogPage:
    case AdminOpcode::kIdentify:
    case AdminOpcode::kSetFeatures:
    case AdminOpcode::kGetFeatures:
    case AdminOpcode::kAsyncEvent:
    case AdminOpcode::kKeepAlive:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Connection::on_admin(Slot& slot) {
  const Command& command = slot.command;
  if (controller_->discovery() && !may_discover(command.opcode)) {
    return complete(slot, refused(Sc::kInvalidOpcode));
  }
  switch (static_cast<AdminOpcode>(command.opcode)) {
    case AdminOpcode::kGetLogPage:
      return get_log_page(slot);
    case AdminOpcode::kIdentify:
      return identify(slot);
    case AdminOpcode::kAbort:
      return complete(slot, {}, kNotAborted);  // what is begun ends soon
    case AdminOpcode::kSetFeatures:
      return set_features(slot);
    case AdminOpcode::kGetFeatures:
      return get_features(slot);
    case AdminOpcode::kAsyncEvent:
      return async_event(slot);
    case AdminOpcode::kKeepAlive:
      return complete(slot, {});
  }
  complete(slot, refused(Sc::kInvalidOpcode));
}

void Connection::identify(Slot& slot) {
  const Command& command = slot.command;
  if (command.sgl.type != kSglTransport) return complete(slot, refused(Sc::kSglType));
  if (command.sgl.length != kIdentifyBytes) return complete(slot, refused(Sc::kDataSglLength));
  const auto give = [&](std::vector<std::byte> page) {
    answer_page(slot, std::move(page), kIdentifyBytes);
  };
  const auto cns = static_cast<IdentifyCns>(command.cdw10 & 0xFFU);
  const NamespaceTable& table = *shared_.table;
  if (cns == IdentifyCns::kController) {
    return give(page_of(identify_controller(shared_.subsystem, *controller_, table)));
  }
  if (controller_->discovery()) return complete(slot, refused(Sc::kInvalidField));
  const bool other_set = command.cdw11 >> 24U != 0;  // CSI: only the NVM command set is here
  switch (cns) {
    case IdentifyCns::kActiveNamespaces:
      if (command.nsid >= kAllNamespaces - 1) break;
      return give(active_namespaces(table, command.nsid));
    case IdentifyCns::kIoController:
      if (other_set) break;
      return give(zeros());  // no limits beyond MDTS
    case IdentifyCns::kNamespace:
    case IdentifyCns::kDescriptors:
    case IdentifyCns::kIoNamespace: {
      const auto* space = table.find(command.nsid);
      if (cns == IdentifyCns::kIoNamespace && other_set) break;
      if (space == nullptr) {
        const bool known = command.nsid != 0 && command.nsid <= kNamespaceIdMax;
        // An id that could be there, and is not, has a page of zeros.
        if (known && cns == IdentifyCns::kNamespace) return give(zeros());
        return complete(slot, refused(Sc::kInvalidNamespace));
      }
      if (cns == IdentifyCns::kIoNamespace) return give(zeros());
      if (cns == IdentifyCns::kDescriptors) return give(namespace_ids(**space));
      return give(page_of(identify_namespace(**space)));
    }
    default:
      break;
  }
  complete(slot, refused(Sc::kInvalidField));
}

void Connection::get_log_page(Slot& slot) {
  const LogRequest request = LogRequest::from(slot.command);
  const TargetOptions& options = shared_.subsystem.options();
  if (slot.command.sgl.type != kSglTransport) return complete(slot, refused(Sc::kSglType));
  if (request.bytes > options.transfer_max) return complete(slot, refused(Sc::kInvalidField));
  if (slot.command.sgl.length != request.bytes) {
    return complete(slot, refused(Sc::kDataSglLength));
  }
  const bool discovery = controller_->discovery();
  const auto page = static_cast<LogPage>(request.page);
  std::vector<std::byte> all;
  if (discovery && page == LogPage::kDiscovery) {
    all = shared_.subsystem.discovery_log(local_address());
    controller_->discovery_log_read(request.retain_event);
  } else if (discovery) {
    return complete(slot, refused(Sc::kInvalidLogPage));
  } else if (page == LogPage::kError) {
    all.resize(kErrorEntryBytes);  // no entry is valid: errors are in completions
  } else if (page == LogPage::kSmart) {
    const auto* space = shared_.table->find(1);
    all = smart_page(shared_.stats(), space != nullptr && (*space)->read_only);
  } else if (page == LogPage::kFirmware) {
    all = firmware_page();
  } else if (page == LogPage::kChangedNamespaces) {
    ChangedNamespaces changed;
    const auto ids = controller_->changed(request.retain_event);
    std::copy(ids.begin(), ids.end(), changed.ids.begin());
    all = page_of(changed);
  } else if (page == LogPage::kEffects) {
    all = effects_page();
  } else {
    return complete(slot, refused(Sc::kInvalidLogPage));
  }
  if (request.offset % 4 != 0 || request.offset > all.size()) {
    return complete(slot, refused(Sc::kInvalidField));
  }
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(request.offset));
  answer_page(slot, std::move(all), static_cast<std::uint32_t>(request.bytes));
}

void Connection::get_features(Slot& slot) {
  const Command& command = slot.command;
  const auto feature = static_cast<FeatureId>(command.cdw10 & 0xFFU);
  const bool capabilities = (command.cdw10 >> 8U & 7U) == kSelectCapabilities;
  const std::uint32_t queues = shared_.subsystem.options().io_queues_max - 1;
  switch (feature) {
    case FeatureId::kArbitration:
    case FeatureId::kPowerManagement:
    case FeatureId::kTemperature:
    case FeatureId::kErrorRecovery:
    case FeatureId::kWriteAtomicity:
      return complete(slot, {}, 0);
    case FeatureId::kVolatileWriteCache:
      if (!shared_.table->volatile_cache()) break;
      return complete(slot, {}, capabilities ? 0 : kWriteCacheOn);
    case FeatureId::kQueues:
      return complete(slot, {}, capabilities ? kChangeable : queues | queues << 16U);
    case FeatureId::kAsyncEvents:
      return complete(slot, {}, capabilities ? kChangeable : controller_->event_mask());
    case FeatureId::kKeepAlive:
      return complete(slot, {}, capabilities ? kChangeable : controller_->keep_alive_ms());
    case FeatureId::kHostId: {
      if ((command.cdw11 & kExtendedHostId) == 0) {
        return complete(slot, refused(Sc::kHostIdInconsistent));
      }
      if (command.sgl.length != sizeof(Id16)) return complete(slot, refused(Sc::kDataSglLength));
      return answer_page(slot, page_of(controller_->host_id()), sizeof(Id16));
    }
  }
  complete(slot, refused(Sc::kInvalidField));
}

void Connection::set_features(Slot& slot) {
  const Command& command = slot.command;
  const bool save = (command.cdw10 & 1U << 31U) != 0;
  if (save) return complete(slot, refused(Sc::kFeatureNotSaveable));
  switch (static_cast<FeatureId>(command.cdw10 & 0xFFU)) {
    case FeatureId::kQueues: {
      // Asked for less one, and granted so.
      const std::uint32_t limit = shared_.subsystem.options().io_queues_max - 1;
      const std::uint32_t submission = command.cdw11 & 0xFFFFU;
      const std::uint32_t completion = command.cdw11 >> 16U;
      if (controller_->discovery() || submission == 0xFFFF || completion == 0xFFFF) break;
      return complete(slot, {}, std::min(submission, limit) | std::min(completion, limit) << 16U);
    }
    case FeatureId::kAsyncEvents:
      controller_->set_event_mask(command.cdw11);
      complete(slot, {});
      return send_events();
    case FeatureId::kKeepAlive:
      controller_->set_keep_alive_ms(command.cdw11);
      return complete(slot, {});
    case FeatureId::kVolatileWriteCache:
      if (!shared_.table->volatile_cache()) break;
      if ((command.cdw11 & 1U) == kWriteCacheOn) return complete(slot, {});
      return complete(slot, refused(Sc::kFeatureNotChangeable));
    case FeatureId::kArbitration:
    case FeatureId::kPowerManagement:
    case FeatureId::kTemperature:
    case FeatureId::kErrorRecovery:
    case FeatureId::kWriteAtomicity:
      return complete(slot, {});  // nothing depends on them
    case FeatureId::kHostId:
      return complete(slot, refused(Sc::kSequenceError));  // Connect has set it
  }
  complete(slot, refused(Sc::kInvalidField));
}

void Connection::async_event(Slot& slot) {
  if (held_.size() >= kAsyncEventsMax) {
    return complete(slot, refused(Sc::kAsyncEventLimitExceeded));
  }
  slot.state = Slot::State::kHeld;
  held_.push_back(&slot);
  send_events();
}

void Connection::send_events() {
  while (!held_.empty()) {
    const auto event = controller_->next_event();
    if (!event) return;
    Slot& slot = *held_.front();
    held_.erase(held_.begin());
    complete(slot, {}, event->dw0());
  }
}

}  // namespace larder::nvmf
