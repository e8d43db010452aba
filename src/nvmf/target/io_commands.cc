// SPDX-License-Identifier: Apache-2.0
// Commands of I/O queues (NVM Command Set 1.0 section 3.2).
#include <algorithm>
#include <cstring>

#include "nvmf/target/connection.h"

namespace larder::nvmf {
namespace {

bool writes(std::uint8_t opcode) noexcept {
  switch (static_cast<IoOpcode>(opcode)) {
    case IoOpcode::kWrite:
    case IoOpcode::kWriteZeroes:
    case IoOpcode::kDatasetManagement:
      return true;
    default:
      return false;
  }
}

std::uint32_t ranges_bytes(const Command& command) noexcept {
  return ((command.cdw10 & 0xFFU) + 1) * static_cast<std::uint32_t>(sizeof(DsmRange));
}

Status status_of(const Slot& slot, Code code) noexcept {
  if (code == Code::kOk) return {};
  // There is no space behind it: the same write may work when there is.
  if (code == Code::kExhausted) return failed(Sc::kCapacityExceeded);
  if (code == Code::kConflict) return failed(Sc::kNamespaceNotReady);
  const bool read = slot.command.opcode == static_cast<std::uint8_t>(IoOpcode::kRead);
  return failed(read ? Sc::kUnrecoveredRead : Sc::kWriteFault);
}

}  // namespace

// Whether the data of a capsule have nowhere to go for now.
bool Connection::must_wait(const Command& command, std::size_t data_bytes) const noexcept {
  if (data_bytes == 0 || controller_ == nullptr || qid_ == 0 ||
      command.opcode != static_cast<std::uint8_t>(IoOpcode::kWrite)) {
    return false;
  }
  const auto* space = shared_.table->find(command.nsid);
  return space != nullptr && (*space)->disk != nullptr && !has_room_for_capsule();
}

void Connection::on_io(Slot& slot, std::span<const std::byte> data) {
  const Command& command = slot.command;
  const auto* space = shared_.table->find(command.nsid);
  if (space == nullptr) return complete(slot, refused(Sc::kInvalidNamespace));
  slot.space = *space;
  if (slot.space->read_only && writes(command.opcode)) {
    return complete(slot, refused(Sc::kNamespaceWriteProtected));
  }
  switch (static_cast<IoOpcode>(command.opcode)) {
    case IoOpcode::kRead:
      return begin_read(slot);
    case IoOpcode::kWrite:
      return begin_write(slot, data);
    case IoOpcode::kFlush:
      bump(shared_.counters.flushes);
      if (slot.space->disk == nullptr) return complete(slot, {});
      return to_device(slot, DiskJob::Kind::kFlush);
    case IoOpcode::kWriteZeroes:
      bump(shared_.counters.others);
      return begin_zeroes(slot);
    case IoOpcode::kDatasetManagement:
      bump(shared_.counters.others);
      return begin_deallocate(slot, data);
    case IoOpcode::kCompare:
      break;
  }
  complete(slot, refused(Sc::kInvalidOpcode));
}

Status Connection::check_range(const Slot& slot) const {
  const std::uint64_t lba = slot.command.lba();
  const std::uint64_t blocks = slot.command.blocks();
  const std::uint64_t all = slot.space->blocks;
  return lba >= all || blocks > all - lba ? refused(Sc::kLbaOutOfRange) : Status{};
}

// Of reads and writes: the length, and the form in which the data come or go.
Status Connection::check_data(const Slot& slot, std::span<const std::byte> data) const {
  const Sgl& sgl = slot.command.sgl;
  const std::uint64_t bytes = std::uint64_t{slot.command.blocks()} << slot.space->block_shift;
  if (bytes > shared_.subsystem.options().transfer_max) return refused(Sc::kInvalidField);
  if (sgl.length != bytes) return refused(Sc::kDataSglLength);
  if (sgl.type == kSglTransport) return data.empty() ? Status{} : refused(Sc::kDataSglLength);
  if (sgl.type != kSglInCapsule) return refused(Sc::kSglType);
  if (sgl.address != 0) return refused(Sc::kInvalidSglOffset);
  return data.size() == bytes ? Status{} : refused(Sc::kDataSglLength);
}

void Connection::begin_read(Slot& slot) {
  bump(shared_.counters.reads);
  if (const Status range = check_range(slot); !range.ok()) return complete(slot, range);
  if (const Status form = check_data(slot, {}); !form.ok()) return complete(slot, form);
  slot.bytes = slot.command.sgl.length;
  if (slot.space->ram == nullptr) return with_room(slot);
  slot.place = slot.space->ram->at(slot.command.lba() << slot.space->block_shift);
  // A digest must be of what is sent, whatever is written meanwhile: it needs a copy.
  if (out_.data_digest) return with_room(slot);
  bump(shared_.counters.bytes_read, slot.bytes);
  slot.flat = {slot.place, slot.bytes};
  answer(slot, {&slot.flat, 1}, slot.bytes, slot.space->block_bytes());
}

void Connection::begin_write(Slot& slot, std::span<const std::byte> data) {
  bump(shared_.counters.writes);
  if (const Status range = check_range(slot); !range.ok()) return complete(slot, range);
  if (const Status form = check_data(slot, data); !form.ok()) return complete(slot, form);
  slot.bytes = slot.command.sgl.length;
  if (slot.space->ram != nullptr) {
    slot.place = slot.space->ram->at(slot.command.lba() << slot.space->block_shift);
    if (data.empty()) return ask(slot);
    std::memcpy(slot.place, data.data(), data.size());
    slot.received = slot.bytes;
    return finish_data(slot);
  }
  if (data.empty()) return with_room(slot);
  if (!take_chunks(slot, false) && !take_reserve(slot))
    return complete(slot, failed(Sc::kInternalError));
  std::memcpy(slot.chunks.front(), data.data(), data.size());
  slot.received = slot.bytes;
  finish_data(slot);
}

// All data of a command have come.
void Connection::finish_data(Slot& slot) {
  if (slot.digest_failed) {
    bump(shared_.counters.digest_errors);
    return complete(slot, failed(Sc::kTransientTransport));
  }
  if (slot.command.opcode == static_cast<std::uint8_t>(IoOpcode::kDatasetManagement)) {
    return deallocate(slot, {slot.chunks.front(), slot.bytes});
  }
  bump(shared_.counters.bytes_written, slot.bytes);
  if (slot.space->disk == nullptr) return complete(slot, {});
  fill_pieces(slot);
  to_device(slot, DiskJob::Kind::kWrite);
}

void Connection::begin_zeroes(Slot& slot) {
  if (const Status range = check_range(slot); !range.ok()) return complete(slot, range);
  const std::uint64_t bytes = std::uint64_t{slot.command.blocks()} << slot.space->block_shift;
  if (slot.space->ram == nullptr) return to_device(slot, DiskJob::Kind::kZero);
  slot.space->ram->zero(slot.command.lba() << slot.space->block_shift, bytes);
  complete(slot, {});
}

void Connection::begin_deallocate(Slot& slot, std::span<const std::byte> data) {
  const Sgl& sgl = slot.command.sgl;
  // Hosts may send room for all ranges there can be, whatever their number says; Linux does.
  if (sgl.length < ranges_bytes(slot.command) || sgl.length > kDsmRangesMax * sizeof(DsmRange) ||
      sgl.length % 4 != 0) {
    return complete(slot, refused(Sc::kDataSglLength));
  }
  slot.bytes = sgl.length;
  if (sgl.type == kSglTransport && data.empty()) return with_room(slot);
  if (sgl.type != kSglInCapsule) return complete(slot, refused(Sc::kSglType));
  if (sgl.address != 0) return complete(slot, refused(Sc::kInvalidSglOffset));
  if (data.size() != sgl.length) return complete(slot, refused(Sc::kDataSglLength));
  deallocate(slot, data);
}

void Connection::deallocate(Slot& slot, std::span<const std::byte> bytes) {
  if ((slot.command.cdw11 & kDsmDeallocate) == 0 || !slot.space->discards) {
    return complete(slot, {});  // hints that we have no use for
  }
  if (slot.job == nullptr) slot.job = std::make_unique<DiskJob>();
  std::vector<DsmRange>& ranges = slot.job->ranges;
  ranges.resize(ranges_bytes(slot.command) / sizeof(DsmRange));
  std::memcpy(ranges.data(), bytes.data(), ranges_bytes(slot.command));
  const std::uint64_t all = slot.space->blocks;
  for (const DsmRange& range : ranges) {
    if (range.blocks > 0 && (range.lba >= all || range.blocks > all - range.lba)) {
      return complete(slot, refused(Sc::kLbaOutOfRange));
    }
  }
  if (slot.space->disk != nullptr) return to_device(slot, DiskJob::Kind::kDiscard);
  for (const DsmRange& range : ranges) {
    if (range.blocks == 0) continue;
    slot.space->ram->zero(range.lba << slot.space->block_shift,
                          std::uint64_t{range.blocks} << slot.space->block_shift);
  }
  complete(slot, {});
}

// Goes on at once if there are chunks for the command's data, else when there are.
void Connection::with_room(Slot& slot) {
  if (waiting_.empty() && take_chunks(slot)) return go_on(slot);
  slot.state = Slot::State::kWaitsForRoom;
  waiting_.push_back(&slot);
  ++shared_.waiting;
}

void Connection::go_on(Slot& slot) {
  if (slot.command.opcode != static_cast<std::uint8_t>(IoOpcode::kRead)) return ask(slot);
  fill_pieces(slot);
  if (slot.space->disk != nullptr) return to_device(slot, DiskJob::Kind::kRead);
  std::size_t at = 0;
  for (const block::Piece& piece : slot.job->pieces) {
    std::memcpy(piece.data, slot.place + at, piece.bytes);
    at += piece.bytes;
  }
  answer_read(slot);
}

void Connection::answer_read(Slot& slot) {
  bump(shared_.counters.bytes_read, slot.bytes);
  answer(slot, slot.job->pieces, slot.bytes, 0);
}

void Connection::on_room() {
  while (!closing_ && !waiting_.empty() && take_chunks(*waiting_.front())) {
    Slot& slot = *waiting_.front();
    waiting_.pop_front();
    --shared_.waiting;
    go_on(slot);
  }
  if (!closing_ && stuffed_) parse();
  flush();
}

void Connection::to_device(Slot& slot, DiskJob::Kind kind) {
  if (slot.job == nullptr) slot.job = std::make_unique<DiskJob>();
  DiskJob& job = *slot.job;
  job.kind = kind;
  const bool ranged = kind != DiskJob::Kind::kFlush && kind != DiskJob::Kind::kDiscard;
  job.offset = ranged ? slot.command.lba() << slot.space->block_shift : 0;
  job.bytes = ranged ? std::uint64_t{slot.command.blocks()} << slot.space->block_shift : 0;
  const bool changes = kind == DiskJob::Kind::kWrite || kind == DiskJob::Kind::kZero;
  job.flush_after =
      changes && slot.space->volatile_cache && (slot.command.cdw12 & kForceUnitAccess) != 0;
  job.taker = shared_.inbox.get();
  job.owner = &slot;
  slot.state = Slot::State::kOnDevice;
  ++on_device_;
  slot.space->disk->submit(job);
}

void Connection::on_device_done(Slot& slot) {
  --on_device_;
  if (closing_) {
    slot.state = Slot::State::kAnswers;
    release(slot);
    return;
  }
  const Code code = slot.job->code;
  if (code == Code::kOk && slot.job->kind == DiskJob::Kind::kRead) {
    answer_read(slot);
  } else {
    complete(slot, status_of(slot, code));
  }
}

}  // namespace larder::nvmf
