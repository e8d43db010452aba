// SPDX-License-Identifier: Apache-2.0
#include "extent/record_store.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "block/blocking.h"
#include "extent/record_table.h"
#include "extent/superblock.h"

namespace larder::extent {
namespace {

// High bits of a sequence: how often the store was opened; low bits: what the records count.
// A number that was given out before a crash is so never given out again.
constexpr unsigned kSequenceBits = 44;

Result<void> mark_open(block::BlockQueue& queue, Superblock& superblock, const OpenOptions& options,
                       std::size_t first) {
  ++superblock.generation;
  ++superblock.opens;
  superblock.clean = false;
  superblock.epoch = std::max(superblock.epoch, options.epoch);
  superblock.owner = options.owner.substr(0, kOwnerBytesMax);
  // The flush in it also makes durable what an earlier process wrote and did not flush: what
  // recovery will see is then what stays.
  LARDER_TRY(block::flush(queue, {.purpose = options.writes}));
  return write_superblocks(queue, superblock, first, options.writes);
}

}  // namespace

Result<std::unique_ptr<RecordStore>> RecordStore::open(std::shared_ptr<block::BlockDevice> device,
                                                       const OpenOptions& options,
                                                       std::string* held_by) {
  LARDER_ASSIGN(const auto queue, device->open_queue(1));
  LARDER_ASSIGN(const FoundSuperblocks found, read_superblocks(*queue));
  std::uint64_t damaged = 0;
  const std::string& name = device->identity().name;
  LARDER_ASSIGN(Superblock chosen, choose(found, device->geometry(), name, damaged));
  if (!options.expect.is_nil() && chosen.uuid != options.expect) {
    return fail(Code::kConflict, name + " holds the record store " + chosen.uuid.to_string() +
                                     ", not " + options.expect.to_string() +
                                     "; is it another disk than before?");
  }
  if (!options.heir.empty() && !chosen.clean && !chosen.owner.starts_with(options.heir)) {
    if (held_by != nullptr) *held_by = chosen.owner;
    return fail(Code::kConflict, "the record store on " + name + " was opened by " +
                                     base::quoted(chosen.owner) + " (epoch " +
                                     std::to_string(chosen.epoch) +
                                     ") and not closed since, so that may still use it");
  }
  const Superblock before = chosen;
  device->set_witness({});
  // The damaged copy, or the older one, is the first to be replaced: one good one always remains.
  const bool first_is_good = found.pages[0].superblock && *found.pages[0].superblock == before;
  if (!options.read_only) LARDER_TRY(mark_open(*queue, chosen, options, first_is_good ? 1 : 0));
  std::unique_ptr<RecordStore> store(
      new RecordStore(std::move(device), std::make_unique<Superblock>(chosen), options));
  if (!options.read_only) {
    store->device_->set_witness(witness_of(chosen, store->device_->geometry(), name));
  }
  store->last_epoch_ = before.epoch;
  store->was_clean_ = before.clean;
  store->previous_owner_ = before.owner;
  store->damaged_superblocks_ = damaged;
  const std::uint64_t base = (chosen.opens << kSequenceBits) + 1;
  LARDER_ASSIGN(store->table_, RecordTable::create(chosen.layout, base));
  return store;
}

RecordStore::RecordStore(std::shared_ptr<block::BlockDevice> device,
                         std::unique_ptr<Superblock> superblock, const OpenOptions& options)
    : device_(std::move(device)), superblock_(std::move(superblock)), options_(options) {}

RecordStore::~RecordStore() = default;

const Uuid& RecordStore::uuid() const noexcept {
  return superblock_->uuid;
}
std::uint64_t RecordStore::last_epoch() const noexcept {
  return last_epoch_;
}
bool RecordStore::was_clean() const noexcept {
  return was_clean_;
}
const std::string& RecordStore::previous_owner() const noexcept {
  return previous_owner_;
}
bool RecordStore::read_only() const noexcept {
  return options_.read_only;
}

Result<Reservation> RecordStore::reserve(std::uint64_t payload_bytes) {
  if (options_.read_only) {
    return fail(Code::kPermissionDenied, "the record store was opened for reading only");
  }
  const std::lock_guard lock(mutex_);
  if (closed_) return fail(Code::kUnavailable, "the record store is closed");
  LARDER_ASSIGN(const std::uint32_t slot, table_->reserve(payload_bytes));
  Reservation out;
  out.store_ = this;
  out.slot_ = slot;
  out.payload_bytes_ = payload_bytes;
  out.stored_bytes_ = table_->stored_bytes(slot);
  return out;
}

void RecordStore::give_back(std::uint32_t slot) noexcept {
  const std::lock_guard lock(mutex_);
  table_->give_back(slot);
}

Pin RecordStore::make_pin(std::uint32_t slot) {
  table_->pin(slot);
  Pin out;
  out.store_ = this;
  out.slot_ = slot;
  out.id_ = table_->id(slot);
  out.payload_bytes_ = table_->payload_bytes(slot);
  out.extent_count_ = table_->extents(slot, out.extents_);
  return out;
}

Result<Pin> RecordStore::pin(RecordId id) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t slot = closed_ ? RecordTable::kNone : table_->find(id);
  if (slot == RecordTable::kNone) return fail(Code::kNotFound, "no such record on the device");
  return make_pin(slot);
}

std::optional<Pin> RecordStore::next_from(std::uint32_t cell) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t slot = closed_ ? RecordTable::kNone : table_->next_from(cell);
  if (slot == RecordTable::kNone) return std::nullopt;
  return make_pin(slot);
}

void RecordStore::unpin(std::uint32_t slot) noexcept {
  const std::lock_guard lock(mutex_);
  const bool had = table_->has_releases();
  table_->unpin(slot);
  if (!had && table_->has_releases() && wake_) wake_();
}

bool RecordStore::release(RecordId id) {
  if (options_.read_only) return false;
  const std::lock_guard lock(mutex_);
  const std::uint32_t slot = closed_ ? RecordTable::kNone : table_->find(id);
  if (slot == RecordTable::kNone) return false;
  const bool had = table_->has_releases();
  table_->release(slot);
  if (!had && table_->has_releases() && wake_) wake_();
  return true;
}

void RecordStore::note_damaged_payload() noexcept {
  damaged_payloads_.fetch_add(1, std::memory_order_relaxed);
}

StoreStats RecordStore::stats() const {
  StoreStats out;
  out.damaged_payloads = damaged_payloads_.load(std::memory_order_relaxed);
  out.damaged_superblocks = damaged_superblocks_;
  const std::lock_guard lock(mutex_);
  table_->fill(out);
  return out;
}

Result<void> RecordStore::close() {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return fail(Code::kInvalidArgument, "the record store is closed already");
    StoreStats now;
    table_->fill(now);
    const bool busy = wake_ || recovering_ || now.pins > 0 || table_->has_reservations() ||
                      (!options_.read_only && table_->unfinished_releases() > 0);
    if (busy) {
      return fail(Code::kConflict,
                  "the record store is in use: end its writer when it is idle, and give back pins "
                  "and reservations, before it is closed");
    }
    closed_ = true;
  }
  if (options_.read_only) return {};
  LARDER_ASSIGN(const auto queue, device_->open_queue(1));
  device_->set_witness({});
  ++superblock_->generation;
  superblock_->clean = true;
  return write_superblocks(*queue, *superblock_, 1, options_.writes);
}

Reservation::Reservation(Reservation&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      slot_(other.slot_),
      payload_bytes_(other.payload_bytes_),
      stored_bytes_(other.stored_bytes_) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  if (store_ != nullptr) store_->give_back(slot_);
  store_ = std::exchange(other.store_, nullptr);
  slot_ = other.slot_;
  payload_bytes_ = other.payload_bytes_;
  stored_bytes_ = other.stored_bytes_;
  return *this;
}

Reservation::~Reservation() {
  if (store_ != nullptr) store_->give_back(slot_);
}

std::uint64_t Reservation::stored_bytes() const noexcept {
  return stored_bytes_;
}

Pin::Pin(Pin&& other) noexcept {
  *this = std::move(other);
}

Pin& Pin::operator=(Pin&& other) noexcept {
  if (this == &other) return *this;
  if (store_ != nullptr) store_->unpin(slot_);
  store_ = std::exchange(other.store_, nullptr);
  id_ = other.id_;
  slot_ = other.slot_;
  extent_count_ = other.extent_count_;
  payload_bytes_ = other.payload_bytes_;
  extents_ = other.extents_;
  return *this;
}

Pin::~Pin() {
  if (store_ != nullptr) store_->unpin(slot_);
}

}  // namespace larder::extent
