// SPDX-License-Identifier: Apache-2.0
// What all commands have in common: their slots, their answers, and memory for their data.
#include <algorithm>
#include <cstring>

#include "base/checksum.h"
#include "nvmf/target/connection.h"

namespace larder::nvmf {
namespace {

// As much of the pool as one connection may hold.
constexpr std::size_t kShare = 4;

std::size_t chunks_for(std::uint32_t bytes) noexcept {
  return (bytes + ChunkPool::kChunkBytes - 1) / ChunkPool::kChunkBytes;
}

}  // namespace

// Null: the host has more commands in flight than its queue has entries.
Slot* Connection::take_slot(const Command& command) {
  if (free_.empty()) return nullptr;
  Slot& slot = *free_.back();
  free_.pop_back();
  slot.command = command;
  slot.state = Slot::State::kAnswers;
  slot.bytes = 0;
  slot.received = 0;
  slot.asked_end = 0;
  slot.digest_failed = false;
  slot.place = nullptr;
  cids_.set(command.cid);
  if (entries_ > 0) sqhd_ = static_cast<std::uint16_t>((sqhd_ + 1U) % entries_);
  return &slot;
}

void Connection::on_command(const Command& command, std::span<const std::byte> data,
                            bool data_digest_ok) {
  const bool conflict = cids_.test(command.cid);
  Slot* taken = take_slot(command);
  if (taken == nullptr) {
    CapsuleCmd pdu;
    pdu.command = command;
    give_up({FatalStatus::kSequence, 0, PduType::kCapsuleCmd,
             "more commands in flight than the queue has entries"},
            std::as_bytes(std::span(&pdu, 1)));
    return;
  }
  Slot& slot = *taken;
  if (controller_ != nullptr) {
    controller_->touch(shared_.now);
    if (qid_ == 0) bump(shared_.counters.admin);
  }
  if (conflict) return complete(slot, refused(Sc::kCommandIdConflict));
  if ((command.flags & kFuseMask) != 0 || (command.flags & kPsdtMask) != kPsdtSgl) {
    return complete(slot, refused(Sc::kInvalidField));
  }
  if (!data_digest_ok) {
    bump(shared_.counters.digest_errors);
    return complete(slot, failed(Sc::kTransientTransport));
  }
  if (command.opcode == kFabricsOpcode) return on_fabrics(slot, data);
  if (controller_ == nullptr || !controller_->ready()) {
    return complete(slot, refused(Sc::kSequenceError));
  }
  if (qid_ == 0) return on_admin(slot);
  on_io(slot, data);
}

void Connection::complete(Slot& slot, Status status, std::uint64_t value) {
  if (!status.ok()) bump(shared_.counters.errors);
  give_chunks(slot);
  CapsuleResp pdu;
  pdu.completion.set_value(value);
  pdu.completion.sqhd = sq_flow_ ? sqhd_ : 0xFFFF;
  pdu.completion.cid = slot.command.cid;
  pdu.completion.set_result(status);
  slot.state = Slot::State::kAnswers;
  slot.data = {};
  slot.data_bytes = 0;
  slot.tail_bytes = 0;
  slot.head_bytes = static_cast<std::uint32_t>(
      encode_head(pdu, 0, 0, out_, std::span(slot.head).first<kHeadBytesMax>()));
  sender_.add(slot);
}

// Sends data and success: in the flags of the data where the host does without SQ flow control, as
// only a response carries SQHD (TCP 3.6.2.8).
void Connection::answer(Slot& slot, std::span<const block::Piece> data, std::uint32_t bytes,
                        std::uint32_t unit) {
  const std::uint8_t flags = sq_flow_ ? kFlagLast : kFlagLast | kFlagSuccess;
  C2hData pdu;
  pdu.cccid = slot.command.cid;
  pdu.datal = bytes;
  slot.state = Slot::State::kAnswers;
  slot.data = data;
  slot.data_bytes = bytes;
  slot.unit = unit;
  slot.tail_bytes = 0;
  slot.head_bytes = static_cast<std::uint32_t>(
      encode_head(pdu, flags, bytes, out_, std::span(slot.head).first<kHeadBytesMax>()));
  if (out_.data_digest) {
    std::uint32_t crc = 0;
    std::uint32_t left = bytes;
    for (const block::Piece& piece : data) {
      const auto part = std::min<std::size_t>(piece.bytes, left);
      crc = crc32c({piece.data, part}, crc);
      left -= static_cast<std::uint32_t>(part);
    }
    store_le(slot.tail.data(), crc);
    slot.tail_bytes = kDigestBytes;
  }
  if (sq_flow_) {
    CapsuleResp response;
    response.completion.sqhd = sqhd_;
    response.completion.cid = slot.command.cid;
    std::array<std::byte, kHeadBytesMax> raw;
    const std::size_t size = encode_head(response, 0, 0, out_, raw);
    std::memcpy(slot.tail.data() + slot.tail_bytes, raw.data(), size);
    slot.tail_bytes += static_cast<std::uint32_t>(size);
  }
  sender_.add(slot);
}

// `bytes`: what the host has room for; the page ends in zeros where it is shorter.
void Connection::answer_page(Slot& slot, std::vector<std::byte> page, std::uint32_t bytes) {
  slot.page = std::move(page);
  slot.page.resize(bytes);
  slot.flat = {slot.page.data(), slot.page.size()};
  answer(slot, {&slot.flat, 1}, bytes, 0);
}

void Connection::on_sent(Output& output) {
  if (&output == &notice_) {
    notice_used_ = false;
    return;
  }
  Slot& slot = static_cast<Slot&>(output);
  if (slot.state == Slot::State::kAsks) {
    slot.r2t_sent = true;
    return;
  }
  release(slot);
}

void Connection::release(Slot& slot) {
  give_chunks(slot);
  cids_.reset(slot.command.cid);
  slot.state = Slot::State::kFree;
  slot.unit = 0;
  slot.page.clear();
  slot.space.reset();
  free_.push_back(&slot);
}

bool Connection::take_chunks(Slot& slot, bool within_share) {
  const std::size_t count = chunks_for(slot.bytes);
  const std::size_t share = shared_.pool.chunks_max() / kShare;
  if (within_share && chunks_held_ > 0 && chunks_held_ + count > share) return false;
  if (!shared_.pool.take(count, slot.chunks)) return false;
  chunks_held_ += count;
  shared_.counters.bounce_bytes.store(shared_.pool.taken() * ChunkPool::kChunkBytes,
                                      std::memory_order_relaxed);
  return true;
}

bool Connection::has_room_for_capsule() const noexcept {
  return !reserve_used_ || shared_.pool.taken() < shared_.pool.chunks_max();
}

bool Connection::take_reserve(Slot& slot) {
  if (reserve_used_) return false;
  if (reserve_.size() == 0) {
    auto made = block::AlignedBuffer::create(ChunkPool::kChunkBytes, 4096);
    if (!made) return false;
    reserve_ = std::move(*made);
  }
  reserve_used_ = true;
  slot.uses_reserve = true;
  slot.chunks.push_back(reserve_.data());
  return true;
}

void Connection::give_chunks(Slot& slot) {
  if (slot.chunks.empty()) return;
  if (slot.uses_reserve) {
    slot.chunks.clear();
    slot.uses_reserve = false;
    reserve_used_ = false;
  } else {
    chunks_held_ -= slot.chunks.size();
    shared_.pool.give_back(slot.chunks);
    shared_.counters.bounce_bytes.store(shared_.pool.taken() * ChunkPool::kChunkBytes,
                                        std::memory_order_relaxed);
  }
  shared_.room_freed = true;
}

// The job's pieces: the chunks, as far as there are data.
void Connection::fill_pieces(Slot& slot) {
  if (slot.job == nullptr) slot.job = std::make_unique<DiskJob>();
  slot.job->pieces.clear();
  std::size_t left = slot.bytes;
  for (std::byte* chunk : slot.chunks) {
    const std::size_t part = std::min(left, ChunkPool::kChunkBytes);
    slot.job->pieces.push_back({chunk, part});
    left -= part;
  }
}

}  // namespace larder::nvmf
