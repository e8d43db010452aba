// SPDX-License-Identifier: Apache-2.0
// The half of a Session that sends.
#include "nvmf/host/session.h"

namespace larder::nvmf {

bool Session::has_outgoing() const noexcept {
  return !out_.empty() || !capsules_.empty() || !grants_.empty();
}

// Commands first: the controller can begin with them while data follow.
void Session::build() {
  while (!out_.full() && !capsules_.empty()) {
    build_capsule(capsules_.at(0));
    capsules_.pop();
  }
  while (!out_.full() && !grants_.empty()) {
    Grant& grant = grants_.at(0);
    Slot& slot = slots_[grant.slot];
    if (slot.completed) {  // the controller does not want them any more
      grant.left = 0;
      --slot.grants;
      if (slot.grants == 0 && slot.pdus_out == 0) end(slot);
    } else {
      build_data(grant);
    }
    if (grant.left == 0) grants_.pop();
  }
}

void Session::build_capsule(std::uint16_t number) {
  Slot& slot = slots_[number];
  Outgoing& pdu = out_.push();
  pdu.slot = number;
  pdu.sent = 0;
  pdu.ends_grant = false;
  const std::uint32_t bytes = slot.in_capsule ? slot.request.data.bytes() : 0;
  pdu.head_bytes = static_cast<std::uint32_t>(
      encode_head(CapsuleCmd{{}, slot.request.command}, 0, bytes, limits_.out, pdu.head));
  attach_data(pdu, 0, bytes);
  ++slot.pdus_out;
}

// The next PDU of at most MAXH2CDATA bytes.
void Session::build_data(Grant& grant) {
  Slot& slot = slots_[grant.slot];
  Outgoing& pdu = out_.push();
  const std::uint32_t bytes = std::min(grant.left, limits_.h2c_data_max);
  pdu.slot = grant.slot;
  pdu.sent = 0;
  pdu.ends_grant = bytes == grant.left;
  H2cData data;
  data.cccid = slot.cid;
  data.ttag = grant.ttag;
  data.datao = grant.offset;
  data.datal = bytes;
  pdu.head_bytes = static_cast<std::uint32_t>(
      encode_head(data, pdu.ends_grant ? kFlagLast : 0, bytes, limits_.out, pdu.head));
  attach_data(pdu, grant.offset, bytes);
  grant.offset += bytes;
  grant.left -= bytes;
  ++slot.pdus_out;
}

void Session::attach_data(Outgoing& pdu, std::uint32_t offset, std::uint32_t bytes) {
  pdu.data_offset = offset;
  pdu.data_bytes = bytes;
  pdu.digest_bytes = limits_.out.data_digest && bytes > 0 ? kDigestBytes : 0;
  if (pdu.digest_bytes > 0) pdu.digest = slots_[pdu.slot].request.data.digest(offset, bytes, 0);
}

std::size_t Session::outgoing(std::span<iovec> into) {
  build();
  std::size_t places = 0;
  for (std::size_t i = 0; i < out_.size(); ++i) {
    if (into.size() - places < 3) break;  // head, some data, digest
    Outgoing& pdu = out_.at(i);
    std::uint32_t skip = pdu.sent;  // not 0 only in the first
    if (skip < pdu.head_bytes) {
      into[places++] = {pdu.head.data() + skip, pdu.head_bytes - skip};
      skip = 0;
    } else {
      skip -= pdu.head_bytes;
    }
    if (skip < pdu.data_bytes) {
      const auto data =
          slots_[pdu.slot].request.data.gather(pdu.data_offset + skip, pdu.data_bytes - skip,
                                               into.subspan(places, into.size() - places - 1));
      places += data.places;
      if (data.bytes < pdu.data_bytes - skip) break;
      skip = 0;
    } else {
      skip -= pdu.data_bytes;
    }
    if (skip < pdu.digest_bytes) {
      into[places++] = {reinterpret_cast<std::byte*>(&pdu.digest) + skip, pdu.digest_bytes - skip};
    }
  }
  return places;
}

void Session::sent(std::size_t bytes) {
  while (bytes > 0) {
    Outgoing& pdu = out_.at(0);
    const auto part =
        static_cast<std::uint32_t>(std::min<std::size_t>(pdu.total() - pdu.sent, bytes));
    pdu.sent += part;
    bytes -= part;
    if (pdu.sent < pdu.total()) return;
    finish_pdu(pdu);
    out_.pop();
  }
}

void Session::finish_pdu(const Outgoing& pdu) {
  Slot& slot = slots_[pdu.slot];
  slot.sent = true;
  --slot.pdus_out;
  if (pdu.ends_grant) --slot.grants;
  if (slot.completed && slot.pdus_out == 0 && slot.grants == 0) end(slot);
}

}  // namespace larder::nvmf
