// SPDX-License-Identifier: Apache-2.0
#include "tier/hot/hot_store.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace larder::tier {
namespace {

constexpr std::uint64_t kBytesPerSlot = 4096;
constexpr std::uint32_t kSlotsMin = 65536;
constexpr std::uint32_t kSlotsMax = 1U << 28;
// A put that must make room itself makes some for its followers too, but does not stop for long.
constexpr std::uint64_t kEvictStepMax = 64 << 20;
// A reservation that meets a full store evicts and tries again this often before it pushes back.
constexpr int kReserveTries = 8;
// The hand looks at so many entries before it lets others have the lock.
constexpr std::uint64_t kStepsPerLock = 1024;
// With a tier below, most copies may have to stay until that has taken them, and a full turn of the
// hand would find nothing for a long time. It goes on from there the next time.
constexpr std::uint64_t kStepsBesideLower = 64U << 10U;

}  // namespace

Reservation::Reservation(Reservation&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      allocation_(other.allocation_),
      slot_(other.slot_),
      length_(other.length_) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    if (store_ != nullptr) store_->cancel(*this);
    store_ = std::exchange(other.store_, nullptr);
    allocation_ = other.allocation_;
    slot_ = other.slot_;
    length_ = other.length_;
  }
  return *this;
}

Reservation::~Reservation() {
  if (store_ != nullptr) store_->cancel(*this);
}

std::byte* Reservation::data() const noexcept {
  return store_->segment_->data() + allocation_.offset;
}

Result<std::unique_ptr<HotStore>> HotStore::create(const HotOptions& options) {
  if (!(options.low_watermark > 0 && options.low_watermark <= options.high_watermark &&
        options.high_watermark <= 1)) {
    return fail(Code::kInvalidArgument,
                "watermarks must satisfy 0 < hot.low_watermark <= hot.high_watermark <= 1");
  }
  std::unique_ptr<HotStore> store(new HotStore());
  store->options_ = options;
  SegmentOptions segment;
  segment.bytes = options.capacity;
  segment.pages = options.pages;
  segment.populate = options.populate;
  segment.fallback = options.pages == PageMode::kAuto;
  segment.name = "larder-hot";
  LARDER_ASSIGN(Segment made, Segment::create(segment));
  store->segment_ = std::make_unique<Segment>(std::move(made));
  if (options.populate) {
    store->warmer_ = std::make_unique<env::PageWarmer>(
        std::span<const std::byte>(store->segment_->data(), store->segment_->bytes()),
        env::PageWarmer::By::kOwner);
  }
  store->options_.capacity = store->segment_->bytes();
  const std::uint64_t wanted =
      options.objects_max != 0 ? options.objects_max : store->options_.capacity / kBytesPerSlot;
  store->slots_max_ = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(wanted, options.objects_max != 0 ? 1 : kSlotsMin, kSlotsMax));
  SegmentOptions slots;
  slots.bytes = store->slots_max_ * sizeof(std::uint64_t);
  slots.pages = PageMode::k4K;
  slots.populate = false;
  slots.name = "larder-slots";
  LARDER_ASSIGN(Segment slot_segment, Segment::create(slots));
  store->slot_segment_ = std::make_unique<Segment>(std::move(slot_segment));
  LARDER_ASSIGN(OffsetAllocator allocator, OffsetAllocator::create(store->options_.capacity));
  store->allocator_ = std::make_unique<OffsetAllocator>(std::move(allocator));
  ClockOptions clock;
  clock.handles_max = store->slots_max_;
  // The ring follows the entries, so this bound is met only by a store with every slot in use.
  clock.ghosts_max = std::bit_ceil(store->slots_max_);
  LARDER_ASSIGN(ClockPolicy policy, ClockPolicy::create(clock));
  store->clock_ = std::make_unique<ClockPolicy>(std::move(policy));
  return store;
}

HotStore::~HotStore() = default;

std::atomic<std::uint64_t>& HotStore::slot_word(std::uint32_t slot) const noexcept {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(slot_segment_->data())[slot];
}

// A slot for the taking, and memory for all that giving it back needs: that must not fail.
bool HotStore::ensure_slot() {
  if (!free_slots_.empty()) return true;
  if (slots_used_ == slots_max_ || !clock_->prepare(slots_used_)) return false;
  if (entries_.size() == entries_.capacity()) {
    const std::size_t more = entries_.size() + entries_.size() / 4 + 1024;
    entries_.reserve(more);
    free_slots_.reserve(more);
  }
  entries_.push_back(nullptr);
  free_slots_.push_back(slots_used_++);
  return true;
}

std::optional<Reservation> HotStore::try_reserve(std::uint64_t length) {
  const std::lock_guard lock(mutex_);
  return reserve_locked(length);
}

std::optional<Reservation> HotStore::reserve_locked(std::uint64_t length) {
  if (!ensure_slot()) return std::nullopt;
  const std::optional<Allocation> allocation = allocator_->allocate(length);
  if (!allocation) return std::nullopt;
  Reservation reservation;
  reservation.store_ = this;
  reservation.allocation_ = *allocation;
  reservation.length_ = length;
  reservation.slot_ = free_slots_.back();
  free_slots_.pop_back();
  counters_.reserved_bytes.fetch_add(length, std::memory_order_relaxed);
  return reservation;
}

Result<Reservation> HotStore::reserve(std::uint64_t length) {
  if (length == 0) return fail(Code::kInvalidArgument, "a value needs at least 1 byte");
  // Rounding must not overflow: judge the length first.
  const std::uint64_t rounded =
      length > options_.capacity ? length : OffsetAllocator::rounded(length);
  if (rounded > options_.capacity) {
    return fail(Code::kTooLarge, "a value of " + std::to_string(length) +
                                     " bytes cannot fit: the hot tier has " +
                                     std::to_string(options_.capacity) + " bytes (hot.capacity)");
  }
  for (int tries = 0; tries < kReserveTries; ++tries) {
    if (auto reservation = try_reserve(length)) return std::move(*reservation);
    counters_.evict_stalls.fetch_add(1, std::memory_order_relaxed);
    // Each round asks for twice as much, because what was freed may not lie together.
    if (evict(std::max(rounded << tries, std::min(options_.capacity / 128, kEvictStepMax))) == 0)
      break;
  }
  if (auto reservation = try_reserve(length)) return std::move(*reservation);
  counters_.backpressure.fetch_add(1, std::memory_order_relaxed);
  return fail(Code::kBackpressure,
              "the hot tier is full of objects that are pinned or in use; "
              "retry later, unpin, or raise hot.capacity");
}

std::optional<Reservation> HotStore::reserve_spare(std::uint64_t length) {
  if (length == 0 || length > options_.capacity) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (above_high(allocator_->used() + OffsetAllocator::rounded(length))) return std::nullopt;
  return reserve_locked(length);
}

void HotStore::cancel(Reservation& reservation) noexcept {
  const std::lock_guard lock(mutex_);
  allocator_->free(reservation.allocation_);
  free_slots_.push_back(reservation.slot_);
  counters_.reserved_bytes.fetch_sub(reservation.length_, std::memory_order_relaxed);
  reservation.store_ = nullptr;
}

route::CasResult HotStore::publish(const route::KeyRef& key, std::uint64_t expected,
                                   Reservation& reservation, std::uint64_t checksum,
                                   std::uint64_t& version) {
  route::EntryFields fields;
  fields.key = key;
  fields.version = authority_->next_version();
  fields.length = reservation.length_;
  fields.checksum = checksum;
  fields.hot = {reservation.allocation_.offset, reservation.allocation_.node, reservation.slot_,
                reservation.allocation_.tag, 0};
  route::EntryRef entry = install(fields, true);
  route::EntryRef kept = entry;
  route::CasResult result = authority_->publish(expected, std::move(entry));
  if (!result.applied) {
    uninstall(*kept);
    return result;
  }
  use_up(reservation);
  if (lower_ != nullptr) lower_->on_publish(*kept);
  version = fields.version;
  return result;
}

route::EntryRef HotStore::promote(const route::EntryRef& cold, Reservation& reservation) {
  route::EntryFields fields;
  fields.key = {cold->space(), cold->key(), cold->hash()};
  // A version of its own: readers of shared memory tell hot copies apart by it alone. They may know
  // an earlier copy of the same value, by the same slot, at another place.
  fields.version = authority_->next_version();
  fields.length = reservation.length_;
  fields.checksum = cold->checksum();
  fields.hot = {reservation.allocation_.offset, reservation.allocation_.node, reservation.slot_,
                reservation.allocation_.tag, 0};
  route::EntryRef entry = install(fields, false);
  if (!authority_->promote(cold, entry).applied) {
    uninstall(*entry);
    return {};
  }
  use_up(reservation);
  return entry;
}

// The version word is set before anyone can learn the slot, so a reader never meets a route whose
// word is not yet valid; and the owner before the table can drop the entry.
route::EntryRef HotStore::install(const route::EntryFields& fields, bool fresh) {
  route::EntryRef entry = fields.make();
  // Before the hand can meet it.
  if (lower_ != nullptr) lower_->on_install(*entry, fresh);
  {
    const std::lock_guard lock(mutex_);
    entries_[fields.hot.slot] = entry.get();
    clock_->insert(fields.hot.slot, OffsetAllocator::rounded(fields.length),
                   ClockPolicy::fingerprint(fields.key.hash));
  }
  entry->set_owner(this);
  slot_word(fields.hot.slot).store(fields.version, std::memory_order_release);
  return entry;
}

// Of an entry that was not published: dropping it gives nothing back, the reservation does.
void HotStore::uninstall(route::Entry& entry) noexcept {
  if (lower_ != nullptr) lower_->on_release(entry);
  const std::uint32_t slot = entry.hot().slot;
  slot_word(slot).store(0, std::memory_order_release);
  entry.set_owner(nullptr);
  const std::lock_guard lock(mutex_);
  clock_->erase(slot);
  entries_[slot] = nullptr;
}

void HotStore::use_up(Reservation& reservation) noexcept {
  counters_.reserved_bytes.fetch_sub(reservation.length_, std::memory_order_relaxed);
  counters_.stored_bytes.fetch_add(reservation.length_, std::memory_order_relaxed);
  reservation.store_ = nullptr;
}

route::EntryRef HotStore::find(std::uint32_t slot, std::uint64_t version) const {
  route::EntryRef entry;  // dropped after the lock, which a last reference takes
  {
    const std::lock_guard lock(mutex_);
    if (slot >= entries_.size() || entries_[slot] == nullptr) return {};
    // Under our lock the entry's memory is there, but its last reference may just have gone.
    entry = route::EntryRef::try_share(entries_[slot]);
  }
  if (!entry || entry->version() != version || !entry->linked()) return {};
  return entry;
}

void HotStore::on_unlink(const route::Entry& entry) noexcept {
  // Later stores into the bytes must not pass the word: a reader that still sees it after its copy
  // then knows that it copied the old bytes. The exchange is a full barrier on x86; elsewhere the
  // lock does it, which on_release() gives back and the next reservation of the bytes takes.
  slot_word(entry.hot().slot).exchange(0, std::memory_order_seq_cst);
}

void HotStore::on_release(const route::Entry& entry) noexcept {
  if (lower_ != nullptr) lower_->on_release(entry);
  const route::HotReplica hot = entry.hot();
  const std::lock_guard lock(mutex_);
  clock_->erase(hot.slot);
  entries_[hot.slot] = nullptr;
  free_slots_.push_back(hot.slot);
  allocator_->free({hot.offset, OffsetAllocator::rounded(entry.length()), hot.node, hot.tag});
  counters_.stored_bytes.fetch_sub(entry.length(), std::memory_order_relaxed);
}

// ---- eviction ----

route::EntryRef HotStore::next_victim() {
  const auto evictable = [this](std::uint32_t slot) {
    const route::Entry* entry = entries_[slot];
    return entry != nullptr && entry->linked() && entry->references() == 1 &&
           entry->state() == route::RouteState::kActive &&
           (lower_ == nullptr || lower_->may_evict(*entry));
  };
  std::uint64_t full = 1;
  for (std::uint64_t looked = 0; looked < full; looked += kStepsPerLock) {
    const std::lock_guard lock(mutex_);
    full = clock_->full_steps();
    if (lower_ != nullptr) full = std::min(full, kStepsBesideLower);
    const std::optional<std::uint32_t> slot = clock_->next_victim(evictable, kStepsPerLock);
    if (!slot) continue;
    // Under our lock the entry's memory is there, but its last reference may just have gone.
    if (auto victim = route::EntryRef::try_share(entries_[*slot])) return victim;
  }
  return {};
}

std::uint64_t HotStore::evict(std::uint64_t bytes_wanted) {
  std::uint64_t evicted = 0;
  int refused = 0;
  while (evicted < bytes_wanted && refused < kReserveTries) {
    const route::EntryRef victim = next_victim();
    if (!victim) break;
    if (!authority_->evict(victim)) {
      ++refused;  // someone took a reference since; the hand moves on
      continue;
    }
    refused = 0;
    {
      const std::lock_guard lock(mutex_);
      clock_->remember(ClockPolicy::fingerprint(victim->hash()));
    }
    evicted += OffsetAllocator::rounded(victim->length());
    counters_.evicted_objects.fetch_add(1, std::memory_order_relaxed);
    counters_.evicted_bytes.fetch_add(victim->length(), std::memory_order_relaxed);
  }
  return evicted;
}

std::uint64_t HotStore::evict_tick() {
  if (!above_high_watermark()) return 0;
  const auto low =
      static_cast<std::uint64_t>(static_cast<double>(options_.capacity) * options_.low_watermark);
  const std::uint64_t now_used = used();
  return now_used > low ? evict(now_used - low) : 0;
}

bool HotStore::above_high_watermark() const {
  return above_high(used());
}

bool HotStore::above_high(std::uint64_t used_bytes) const noexcept {
  return static_cast<double>(used_bytes) >
         static_cast<double>(options_.capacity) * options_.high_watermark;
}

std::uint64_t HotStore::used() const {
  const std::lock_guard lock(mutex_);
  return allocator_->used();
}

std::uint64_t HotStore::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return allocator_->free_bytes();
}

std::uint64_t HotStore::largest_free() const {
  const std::lock_guard lock(mutex_);
  return allocator_->largest_free();
}

std::uint64_t HotStore::metadata_bytes() const {
  const std::lock_guard lock(mutex_);
  return allocator_->report_node_bytes() + clock_->report_memory_bytes() +
         slots_used_ * sizeof(std::uint64_t) + entries_.capacity() * sizeof(route::Entry*) +
         free_slots_.capacity() * sizeof(std::uint32_t);
}

}  // namespace larder::tier
