// SPDX-License-Identifier: Apache-2.0
// Fabrics commands (Fabrics 1.1 section 3).
#include <cstring>

#include "nvmf/target/connection.h"
#include "obs/log.h"

namespace larder::nvmf {
namespace {

constexpr std::uint32_t kPropertyWide = 1;  // ATTRIB 2:0: 8 bytes

std::uint32_t bytes_of(const PropertyCommand& command) noexcept {
  switch (command.attrib & 7U) {
    case 0:
      return 4;
    case kPropertyWide:
      return 8;
    default:
      return 0;
  }
}

}  // namespace

void Connection::on_fabrics(Slot& slot, std::span<const std::byte> data) {
  const auto type = static_cast<FabricsType>(command_as<PropertyCommand>(slot.command).fctype);
  if (type == FabricsType::kConnect) return connect(slot, data);
  if (controller_ == nullptr) return complete(slot, refused(Sc::kSequenceError));
  if (type == FabricsType::kDisconnect) {
    if (qid_ == 0) return complete(slot, refused(Sc::kInvalidQueueType));
    complete(slot, {});
    leaving_ = true;
    return;
  }
  const bool property = type == FabricsType::kPropertyGet || type == FabricsType::kPropertySet;
  if (!property || qid_ != 0) return complete(slot, refused(Sc::kInvalidOpcode));
  if (type == FabricsType::kPropertyGet) return get_property(slot);
  set_property(slot);
}

void Connection::connect(Slot& slot, std::span<const std::byte> data) {
  if (controller_ != nullptr) return complete(slot, refused(Sc::kSequenceError));
  const auto command = command_as<ConnectCommand>(slot.command);
  if (command.sgl.type != kSglInCapsule || command.sgl.address != 0) {
    return complete(slot, refused(Sc::kSglType));
  }
  if (command.sgl.length != sizeof(ConnectData) || data.size() != sizeof(ConnectData)) {
    return complete(slot, refused(Sc::kDataSglLength));
  }
  const auto sent = load_le<ConnectData>(data.data());
  const ConnectOutcome outcome = shared_.subsystem.connect(command, sent, shared_.now);
  if (!outcome.status.ok()) {
    bump(shared_.counters.connects_refused);
    obs::log(obs::Level::kInfo, "nvmf_connect_refused",
             {{"host", field_text(sent.hostnqn)},
              {"subsystem", field_text(sent.subnqn)},
              {"reason", outcome.why}});
    return complete(slot, outcome.status, outcome.refusal.dw0());
  }
  controller_ = outcome.controller;
  incarnation_ = controller_->incarnation();
  qid_ = command.qid;
  entries_ = command.sqsize + 1U;
  sq_flow_ = (command.cattr & kNoSqFlow) == 0;
  sqhd_ = static_cast<std::uint16_t>(1U % entries_);
  while (slots_.size() < entries_) {
    Slot& more = slots_.emplace_back();
    more.connection = this;
    more.index = static_cast<std::uint16_t>(slots_.size() - 1);
    free_.push_back(&more);
  }
  obs::log(obs::Level::kDebug, "nvmf_connected",
           {{"host", controller_->host_nqn()},
            {"cntlid", controller_->cntlid()},
            {"qid", qid_},
            {"entries", entries_}});
  complete(slot, {}, controller_->cntlid());
}

void Connection::get_property(Slot& slot) {
  const auto command = command_as<PropertyCommand>(slot.command);
  const auto value = controller_->get_property(command.offset, bytes_of(command));
  if (!value) return complete(slot, refused(Sc::kInvalidField));
  complete(slot, {}, *value);
}

void Connection::set_property(Slot& slot) {
  const auto command = command_as<PropertyCommand>(slot.command);
  bool was_reset = false;
  if (!controller_->set_property(command.offset, bytes_of(command), command.value, was_reset)) {
    return complete(slot, refused(Sc::kInvalidField));
  }
  if (was_reset) {
    // A reset ends what was held; the I/O queues go with the sweep.
    for (Slot* held : held_) complete(*held, failed(Sc::kAbortedSqDeletion));
    held_.clear();
    shared_.subsystem.sweep();
  }
  complete(slot, {});
}

}  // namespace larder::nvmf
