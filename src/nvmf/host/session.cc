// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/session.h"

#include <bit>

namespace larder::nvmf {

Session::Session(const SessionLimits& limits)
    : limits_(limits),
      slots_(limits.commands),
      capsules_(limits.commands),
      grants_(std::size_t{limits.commands} * (kMaxR2t + 1)),
      out_(kPdusOut),
      stage_(std::make_unique<std::byte[]>(kStageBytes)) {
  slot_mask_ = static_cast<std::uint16_t>(std::bit_ceil(slots_.size()) - 1);
  free_.reserve(slots_.size());
  for (std::size_t i = slots_.size(); i-- > 0;) free_.push_back(static_cast<std::uint16_t>(i));
  ended_.reserve(2 * slots_.size());
}

void Session::submit(const Request& request, env::Nanos now) {
  const std::uint16_t number = free_.back();
  free_.pop_back();
  Slot& slot = slots_[number];
  const std::uint16_t uses = static_cast<std::uint16_t>((slot.cid & ~slot_mask_) + slot_mask_ + 1);
  slot = Slot();
  slot.used = true;
  slot.cid = static_cast<std::uint16_t>(uses | number);
  slot.begun = now;
  slot.request = request;
  Command& command = slot.request.command;
  command.cid = slot.cid;
  command.flags = kPsdtSgl;
  const std::uint32_t bytes = request.data.bytes();
  // Data of Connect always travel with it, whatever the queue takes (Fabrics 1.1 section 3.3).
  const bool fits = bytes <= limits_.in_capsule_max || command.opcode == kFabricsOpcode;
  slot.in_capsule = request.flow == DataFlow::kToController && bytes > 0 && fits;
  command.sgl = slot.in_capsule ? Sgl::in_capsule(bytes) : Sgl::transport(bytes);
  slot.large = request.flow == DataFlow::kToHost && bytes > kSmallRead;
  if (slot.large) ++large_reads_;
  capsules_.push() = number;
}

std::size_t Session::take_ended(std::span<Ended> into) {
  std::size_t count = 0;
  while (count < into.size() && ended_first_ < ended_.size()) {
    into[count++] = ended_[ended_first_++];
  }
  if (ended_first_ == ended_.size()) {
    ended_.clear();
    ended_first_ = 0;
  }
  return count;
}

env::Nanos Session::oldest() const noexcept {
  env::Nanos oldest = block::kNoDeadline;
  for (const Slot& slot : slots_) {
    if (slot.used) oldest = std::min(oldest, slot.begun);
  }
  return oldest;
}

// A command that ended badly while data of it are going out ends when those are out: until then the
// kernel has not read all of its memory.
Checked<void> Session::complete(Slot& slot, const Completion& completion, PduType type) {
  const Request& request = slot.request;
  const bool well = completion.result().ok();
  const bool moves = request.flow != DataFlow::kNone && !slot.in_capsule;
  if (well && moves && slot.moved != request.data.bytes()) {
    return tl::unexpected(PduFault{FatalStatus::kSequence, 0, type,
                                   "a command ends well before all of its data have moved"});
  }
  if (well && (slot.grants > 0 || slot.pdus_out > 0)) {
    return tl::unexpected(PduFault{FatalStatus::kSequence, 0, type,
                                   "a write ends well before all of its data were sent"});
  }
  slot.completion = completion;
  slot.completed = true;
  if (slot.pdus_out == 0 && slot.grants == 0) end(slot);
  return {};
}

void Session::end(Slot& slot) {
  ended_.push_back({slot.request, slot.completion, slot.digest_wrong, slot.begun});
  if (slot.large) --large_reads_;
  slot.used = false;
  free_.push_back(static_cast<std::uint16_t>(&slot - slots_.data()));
}

}  // namespace larder::nvmf
