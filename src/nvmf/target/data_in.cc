// SPDX-License-Identifier: Apache-2.0
// Data that hosts send after an R2T: received where they belong. Of memory only whole blocks are
// written at a time, so that a connection that breaks leaves each block old or new.
#include <sys/ioctl.h>

#include <algorithm>
#include <cstring>

#include "base/checksum.h"
#include "env/socket.h"
#include "nvmf/target/connection.h"

namespace larder::nvmf {
namespace {

constexpr std::size_t kPlacesMax = 40;  // chunks of a transfer, and what follows it

std::size_t waiting_bytes(int fd) noexcept {
  int count = 0;
  return ::ioctl(fd, FIONREAD, &count) == 0 && count > 0 ? static_cast<std::size_t>(count) : 0;
}

PduFault fault_of(FatalStatus status, std::size_t at, const char* rule) {
  return {status, static_cast<std::uint32_t>(at), PduType::kH2cData, rule};
}

}  // namespace

// Asks for the next part of a command's data. One R2T is open at a time for each command, which is
// within any MAXR2T.
void Connection::ask(Slot& slot) {
  const std::uint32_t at_once = shared_.subsystem.options().r2t_bytes_max;
  const std::uint32_t left = slot.bytes - slot.received;
  R2t pdu;
  pdu.cccid = slot.command.cid;
  pdu.ttag = slot.index;
  pdu.r2to = slot.received;
  pdu.r2tl = at_once == 0 ? left : std::min(left, at_once);
  if (slot.state != Slot::State::kAsks) ++asking_;
  slot.state = Slot::State::kAsks;
  slot.r2t_sent = false;
  slot.asked_end = slot.received + pdu.r2tl;
  slot.data = {};
  slot.data_bytes = 0;
  slot.tail_bytes = 0;
  slot.head_bytes = static_cast<std::uint32_t>(
      encode_head(pdu, 0, 0, out_, std::span(slot.head).first<kHeadBytesMax>()));
  sender_.add(slot);
}

bool Connection::begin_data(const PduLayout& layout, const H2cData& pdu,
                            std::span<const std::byte> head) {
  const auto refuse = [&](FatalStatus status, std::size_t at, const char* rule) {
    give_up(fault_of(status, at, rule), head);
    return false;
  };
  if (const auto checked = check(pdu, layout); !checked) {
    give_up(checked.error(), head);
    return false;
  }
  const auto invalid = FatalStatus::kInvalidHeader;
  if (pdu.ttag >= slots_.size() || slots_[pdu.ttag].state != Slot::State::kAsks ||
      !slots_[pdu.ttag].r2t_sent) {
    return refuse(invalid, offsetof(H2cData, ttag), "no R2T with this TTAG is open");
  }
  Slot& slot = slots_[pdu.ttag];
  if (pdu.cccid != slot.command.cid) {
    return refuse(invalid, offsetof(H2cData, cccid), "CCCID is not that of the R2T");
  }
  if (pdu.datao != slot.received || pdu.datal > slot.asked_end - slot.received) {
    return refuse(FatalStatus::kOutOfRange, offsetof(H2cData, datao),
                  "the data are not what the R2T asked for next");
  }
  const bool last = (pdu.header.flags & kFlagLast) != 0;
  if (last != (pdu.datao + pdu.datal == slot.asked_end)) {
    return refuse(invalid, offsetof(PduHeader, flags), "LAST_PDU is wrong");
  }
  incoming_ = &slot;
  incoming_left_ = layout.data_bytes;
  incoming_digest_ = layout.data_digest_bytes > 0;
  digest_left_ = layout.data_digest_bytes;
  incoming_crc_ = 0;
  partial_bytes_ = 0;
  return true;
}

// Moves what the buffer has of the data.
void Connection::take_buffered_data() {
  while (incoming_ != nullptr && begin_ < end_) {
    const auto bytes = unread();
    if (incoming_left_ > 0) {
      std::array<iovec, kPlacesMax> places;
      const std::size_t count = data_places(bytes.size(), places);
      std::size_t moved = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t part = std::min(places[i].iov_len, bytes.size() - moved);
        std::memcpy(places[i].iov_base, bytes.data() + moved, part);
        moved += part;
      }
      begin_ += take_data(std::span(places).first(count), moved);
    } else {
      const std::size_t part = std::min<std::size_t>(digest_left_, bytes.size());
      std::memcpy(digest_.data() + kDigestBytes - digest_left_, bytes.data(), part);
      digest_left_ -= static_cast<std::uint32_t>(part);
      begin_ += part;
    }
    end_data_if_whole();
  }
}

// The buffer is empty: data go straight to their place, and what follows them into the buffer.
bool Connection::read_into_slot(bool& drained) {
  std::array<iovec, kPlacesMax> places;
  std::size_t count = 0;
  std::size_t wanted = 0;
  // Only when all of the data are there may what follows come along.
  std::size_t available = incoming_left_;
  if (incoming_left_ > 0) {
    if (incoming_->place != nullptr) available = waiting_bytes(socket_.get());
    count = data_places(available, places);
  }
  for (std::size_t i = 0; i < count; ++i) wanted += places[i].iov_len;
  const bool all = wanted == incoming_left_;
  const std::size_t data_count = count;
  if (all) {
    if (digest_left_ > 0) {
      places[count++] = {digest_.data() + kDigestBytes - digest_left_, digest_left_};
    }
    begin_ = end_ = 0;
    places[count++] = {buffer_.get(), read_ahead()};
    wanted += digest_left_ + read_ahead();
  }
  const env::IoResult got = env::receive(socket_.get(), std::span(places).first(count));
  if (got.status == env::IoStatus::kWouldBlock) {
    drained = true;
    return true;
  }
  if (got.status != env::IoStatus::kOk) return false;
  received_ += got.bytes;
  drained = got.bytes < wanted;
  std::size_t left = got.bytes - take_data(std::span(places).first(data_count), got.bytes);
  if (all && incoming_left_ == 0) {
    const std::size_t of_digest = std::min<std::size_t>(digest_left_, left);
    digest_left_ -= static_cast<std::uint32_t>(of_digest);
    end_ = left - of_digest;
  }
  end_data_if_whole();
  return true;
}

// Where the next data go: of `available` bytes that are there, as many as may be placed now.
std::size_t Connection::data_places(std::size_t available, std::span<iovec> into) {
  available = std::min<std::size_t>(available, incoming_left_);
  return incoming_->place != nullptr ? memory_places(available, into)
                                     : chunk_places(available, into);
}

// In order: the rest of a block that has begun, whole blocks that are there, and the beginning of
// the one after them.
std::size_t Connection::memory_places(std::size_t available, std::span<iovec> into) {
  const std::size_t block = incoming_->space->block_bytes();
  const std::size_t within = incoming_->received % block;
  const std::size_t left = incoming_left_;
  std::byte* at = incoming_->place + incoming_->received;
  std::size_t count = 0;
  std::size_t given = 0;
  std::size_t free_partial = partial_now_;
  if (partial_bytes_ > 0) {
    given = std::min(block - partial_bytes_, left);
    into[count++] = {partial_[partial_now_].data() + partial_bytes_, given};
    free_partial = 1 - partial_now_;
  } else if (within != 0) {  // the PDU begins within a block, of which the front is there
    given = std::min(block - within, left);
    into[count++] = {at, given};
  }
  if (available > given) {
    const std::size_t whole =
        available == left ? left - given : (available - given) / block * block;
    if (whole > 0) into[count++] = {at + given, whole};
    given += whole;
  }
  if (given < left) {
    into[count++] = {partial_[free_partial].data(), std::min(block, left - given)};
  }
  return count;
}

std::size_t Connection::chunk_places(std::size_t available, std::span<iovec> into) {
  std::size_t count = 0;
  std::size_t at = incoming_->received;
  const std::size_t end = at + available;
  while (at < end) {
    const std::size_t within = at % ChunkPool::kChunkBytes;
    const std::size_t part = std::min(ChunkPool::kChunkBytes - within, end - at);
    into[count++] = {incoming_->chunks[at / ChunkPool::kChunkBytes] + within, part};
    at += part;
  }
  return count;
}

// Of `bytes` that came, those that are data, and lie in `places`. Returns how many these are.
std::size_t Connection::take_data(std::span<const iovec> places, std::size_t bytes) {
  std::size_t taken = 0;
  for (const iovec& place : places) {
    const std::size_t part = std::min(place.iov_len, bytes - taken);
    if (part == 0) break;
    auto* from = static_cast<std::byte*>(place.iov_base);
    if (incoming_digest_) incoming_crc_ = crc32c({from, part}, incoming_crc_);
    incoming_->received += static_cast<std::uint32_t>(part);
    incoming_left_ -= static_cast<std::uint32_t>(part);
    taken += part;
    for (std::size_t i = 0; i < partial_.size(); ++i) {
      if (from < partial_[i].data() || from >= partial_[i].data() + partial_[i].size()) continue;
      partial_now_ = i;
      partial_bytes_ += part;
      keep_partial();
    }
  }
  return taken;
}

// Writes a block that is whole now, or that the PDU ends in.
void Connection::keep_partial() {
  if (partial_bytes_ < incoming_->space->block_bytes() && incoming_left_ > 0) return;
  std::memcpy(incoming_->place + incoming_->received - partial_bytes_,
              partial_[partial_now_].data(), partial_bytes_);
  partial_bytes_ = 0;
}

void Connection::end_data_if_whole() {
  if (incoming_ == nullptr || incoming_left_ > 0 || digest_left_ > 0) return;
  Slot& slot = *incoming_;
  incoming_ = nullptr;
  if (incoming_digest_ && load_le<std::uint32_t>(digest_.data()) != incoming_crc_) {
    slot.digest_failed = true;
  }
  if (slot.received < slot.asked_end) return;
  if (slot.received < slot.bytes) {
    ask(slot);
    return;
  }
  --asking_;
  finish_data(slot);
}

}  // namespace larder::nvmf
