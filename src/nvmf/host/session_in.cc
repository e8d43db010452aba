// SPDX-License-Identifier: Apache-2.0
// The half of a Session that receives.
#include <cstring>

#include "nvmf/host/session.h"

namespace larder::nvmf {
namespace {

// All PDUs that carry on a command have heads of this size: we ask for no more alignment than that.
static_assert(sizeof(C2hData) == 24 && sizeof(CapsuleResp) == 24 && sizeof(R2t) == 24);
constexpr std::size_t kRoomMore = 256;  // for the longest of the others

tl::unexpected<PduFault> fault(FatalStatus status, PduType type, const char* rule) {
  return tl::unexpected(PduFault{status, 0, type, rule});
}

}  // namespace

// Exactly the heads that come next, so that the data behind them come into their own place by the
// next call.
std::size_t Session::head_room() const noexcept {
  if (large_reads_ == 0) return kStageBytes - stage_used_;
  const std::size_t head = sizeof(C2hData) + (limits_.in.header_digest ? kDigestBytes : 0);
  const std::size_t heads =
      head * (limits_.success_allowed ? 1 : 2) + (digest_due_ ? kDigestBytes : 0);
  return stage_used_ < heads ? heads - stage_used_ : std::min(kRoomMore, kStageBytes - stage_used_);
}

std::size_t Session::places(std::span<iovec> into) {
  std::size_t count = 0;
  if (data_left_ > 0) {
    const auto data =
        reading_->request.data.gather(reading_->moved, data_left_, into.first(into.size() - 1));
    count = data.places;
    if (data.bytes < data_left_) return count;
  }
  into[count++] = {stage_.get() + stage_used_, head_room()};
  return count;
}

Checked<void> Session::received(std::size_t bytes) {
  const auto data = static_cast<std::uint32_t>(std::min<std::size_t>(bytes, data_left_));
  if (data > 0) take_data(data);
  stage_used_ += bytes - data;
  return parse();
}

Checked<void> Session::parse() {
  for (;;) {
    auto went_on = parse_one();
    if (!went_on) return tl::unexpected(went_on.error());
    if (!*went_on) break;
  }
  if (parsed_ > 0 && parsed_ < stage_used_) {
    std::memmove(stage_.get(), stage_.get() + parsed_, stage_used_ - parsed_);
  }
  stage_used_ -= parsed_;
  parsed_ = 0;
  return {};
}

// Takes one PDU's head, or a part of its data, from the stage. False: it is not all there yet.
Checked<bool> Session::parse_one() {
  if (reading_ != nullptr && data_left_ == 0 && !digest_due_) {
    if (auto ended = end_data(); !ended) return tl::unexpected(ended.error());
    return true;
  }
  const std::span<const std::byte> rest(stage_.get() + parsed_, stage_used_ - parsed_);
  if (data_left_ > 0) {
    const auto bytes = static_cast<std::uint32_t>(std::min<std::size_t>(rest.size(), data_left_));
    if (bytes == 0) return false;
    reading_->request.data.copy_in(reading_->moved, rest.first(bytes));
    take_data(bytes);
    parsed_ += bytes;
    return true;
  }
  if (digest_due_) {
    if (rest.size() < kDigestBytes) return false;
    if (load_le<std::uint32_t>(rest.data()) != digest_) {
      reading_->digest_wrong = true;
      ++digest_errors_;
    }
    digest_due_ = false;
    parsed_ += kDigestBytes;
    return true;
  }
  if (rest.size() < sizeof(PduHeader)) return false;
  const auto layout =
      layout_of(load_pdu<PduHeader>(rest), Direction::kToHost, limits_.in, ~std::uint32_t{0});
  if (!layout) return tl::unexpected(layout.error());
  const bool whole = layout->type == PduType::kC2hTermReq;
  const std::size_t needed = whole ? layout->total() : layout->head_bytes;
  if (rest.size() < needed) return false;
  if (auto taken = on_pdu(*layout, rest.first(needed)); !taken) {
    return tl::unexpected(taken.error());
  }
  parsed_ += needed;
  return true;
}

Checked<void> Session::on_pdu(const PduLayout& layout, std::span<const std::byte> head) {
  if (layout.type == PduType::kC2hTermReq) {
    complaint_ = describe_term(head);
    return fault(FatalStatus::kSequence, layout.type, "the controller ends the connection");
  }
  if (auto right = check_header_digest(head, layout); !right) {
    ++digest_errors_;
    return right;
  }
  switch (layout.type) {
    case PduType::kC2hData:
      return on_data(head, layout);
    case PduType::kR2t:
      return on_r2t(head);
    case PduType::kCapsuleResp:
      return on_response(head);
    default:
      return fault(FatalStatus::kSequence, layout.type, "it may not come after the handshake");
  }
}

Checked<Session::Slot*> Session::slot_of(std::uint16_t cid, PduType type) {
  const std::size_t number = cid & slot_mask_;
  Slot* const slot = number < slots_.size() ? &slots_[number] : nullptr;
  if (slot == nullptr || !slot->used || slot->cid != cid || slot->completed || !slot->sent) {
    return fault(FatalStatus::kSequence, type, "it is of no command that is in flight");
  }
  return slot;
}

Checked<void> Session::on_data(std::span<const std::byte> head, const PduLayout& layout) {
  const auto pdu = load_pdu<C2hData>(head);
  if (auto right = check(pdu, layout); !right) return right;
  auto found = slot_of(pdu.cccid, layout.type);
  if (!found) return tl::unexpected(found.error());
  Slot& slot = **found;
  const std::uint32_t bytes = slot.request.data.bytes();
  if (slot.request.flow != DataFlow::kToHost) {
    return fault(FatalStatus::kSequence, layout.type, "it is of a command that reads nothing");
  }
  if (slot.last_seen) {
    return fault(FatalStatus::kSequence, layout.type, "it comes after the last of its command");
  }
  if (pdu.datao != slot.moved) {
    return fault(FatalStatus::kOutOfRange, layout.type, "it does not go on where the last ended");
  }
  if (pdu.datal > bytes - slot.moved) {
    return fault(FatalStatus::kOutOfRange, layout.type, "it reaches beyond the command's data");
  }
  last_ = (pdu.header.flags & kFlagLast) != 0;
  success_ = (pdu.header.flags & kFlagSuccess) != 0;
  if (success_ && !(last_ && limits_.success_allowed)) {
    return fault(FatalStatus::kInvalidHeader, layout.type,
                 "SUCCESS needs LAST, and SQ flow control to be off");
  }
  reading_ = &slot;
  data_left_ = layout.data_bytes;
  digest_due_ = layout.data_digest_bytes > 0;
  digest_ = 0;
  return {};
}

void Session::take_data(std::uint32_t bytes) {
  if (digest_due_) digest_ = reading_->request.data.digest(reading_->moved, bytes, digest_);
  reading_->moved += bytes;
  data_left_ -= bytes;
}

Checked<void> Session::end_data() {
  Slot& slot = *reading_;
  reading_ = nullptr;
  slot.last_seen = last_;
  if (!success_) return {};
  Completion completion;
  completion.cid = slot.cid;
  return complete(slot, completion, PduType::kC2hData);
}

Checked<void> Session::on_r2t(std::span<const std::byte> head) {
  const auto pdu = load_pdu<R2t>(head);
  if (auto right = check(pdu); !right) return right;
  auto found = slot_of(pdu.cccid, PduType::kR2t);
  if (!found) return tl::unexpected(found.error());
  Slot& slot = **found;
  if (slot.request.flow != DataFlow::kToController || slot.in_capsule) {
    return fault(FatalStatus::kSequence, PduType::kR2t, "its command has no data to send");
  }
  if (pdu.r2to != slot.moved) {
    return fault(FatalStatus::kOutOfRange, PduType::kR2t, "it does not go on where the last ended");
  }
  if (pdu.r2tl > slot.request.data.bytes() - slot.moved) {
    return fault(FatalStatus::kOutOfRange, PduType::kR2t, "it reaches beyond the command's data");
  }
  if (slot.grants > kMaxR2t) {
    return fault(FatalStatus::kLimitExceeded, PduType::kR2t, "more of them are open than MAXR2T");
  }
  slot.moved += pdu.r2tl;
  ++slot.grants;
  grants_.push() = {static_cast<std::uint16_t>(&slot - slots_.data()), pdu.ttag, pdu.r2to,
                    pdu.r2tl};
  return {};
}

Checked<void> Session::on_response(std::span<const std::byte> head) {
  const auto pdu = load_pdu<CapsuleResp>(head);
  auto found = slot_of(pdu.completion.cid, PduType::kCapsuleResp);
  if (!found) return tl::unexpected(found.error());
  return complete(**found, pdu.completion, PduType::kCapsuleResp);
}

}  // namespace larder::nvmf
