// SPDX-License-Identifier: Apache-2.0
#include "transfer/segment.h"

#include <mutex>

namespace larder::transfer {
namespace {

// Slot 0 of generation 0 is the local segment.
constexpr std::uint64_t id_of(std::uint32_t slot, std::uint32_t generation) {
  return (std::uint64_t{generation} << 32) | (slot + 1);
}
static_assert(id_of(0, 0) == kLocalSegment.value);

constexpr std::uint32_t slot_of(SegmentId id) {
  return static_cast<std::uint32_t>(id.value) - 1;
}
constexpr std::uint32_t generation_of(SegmentId id) {
  return static_cast<std::uint32_t>(id.value >> 32);
}

}  // namespace

SegmentTable::SegmentTable() {
  Segment local;
  local.id = kLocalSegment;
  local.name = "local";
  local.same_process = true;
  local.same_machine = true;
  slots_.push_back({0, std::make_shared<const Segment>(std::move(local))});
}

Result<SegmentId> SegmentTable::add(Segment segment) {
  const std::unique_lock lock(mutex_);
  if (free_.empty() && slots_.size() == kSegmentsMax) {
    return fail(Code::kExhausted, "open segment: " + std::to_string(kSegmentsMax) +
                                      " are open; close those not in use");
  }
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  segment.id = {id_of(slot, slots_[slot].generation)};
  const SegmentId id = segment.id;
  slots_[slot].segment = std::make_shared<const Segment>(std::move(segment));
  return id;
}

Result<void> SegmentTable::remove(SegmentId id) {
  if (id == kLocalSegment) {
    return fail(Code::kInvalidArgument, "close segment: the local segment is always open");
  }
  std::shared_ptr<const Segment> last;  // its file or peer is let go of outside the lock
  const std::unique_lock lock(mutex_);
  const std::uint32_t slot = slot_of(id);
  if (slot >= slots_.size() || slots_[slot].generation != generation_of(id) ||
      slots_[slot].segment == nullptr) {
    return fail(Code::kNotFound, "close segment: it is not open (any more)");
  }
  last.swap(slots_[slot].segment);
  ++slots_[slot].generation;
  free_.push_back(slot);
  return {};
}

std::shared_ptr<const Segment> SegmentTable::find(SegmentId id) const {
  const std::shared_lock lock(mutex_);
  const std::uint32_t slot = slot_of(id);
  if (slot >= slots_.size() || slots_[slot].generation != generation_of(id)) return nullptr;
  return slots_[slot].segment;
}

std::size_t SegmentTable::size() const {
  const std::shared_lock lock(mutex_);
  return slots_.size() - free_.size();
}

}  // namespace larder::transfer
