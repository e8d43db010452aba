// SPDX-License-Identifier: Apache-2.0
#include "apps/replay/ideal.h"

namespace larder::apps {

void IdealLru::unlink(Slot slot) {
  const Node& node = nodes_[slot];
  (node.older == kNone ? oldest_ : nodes_[node.older].newer) = node.newer;
  (node.newer == kNone ? newest_ : nodes_[node.newer].older) = node.older;
}

void IdealLru::push_newest(Slot slot) {
  nodes_[slot].older = newest_;
  nodes_[slot].newer = kNone;
  (newest_ == kNone ? oldest_ : nodes_[newest_].newer) = slot;
  newest_ = slot;
}

void IdealLru::push_oldest(Slot slot) {
  nodes_[slot].older = kNone;
  nodes_[slot].newer = oldest_;
  (oldest_ == kNone ? newest_ : nodes_[oldest_].older) = slot;
  oldest_ = slot;
}

// Its slot is the next to be taken.
void IdealLru::forget(std::uint64_t id) {
  const auto found = where_.find(id);
  if (found == where_.end()) return;
  unlink(found->second);
  push_oldest(found->second);
  where_.erase(found);
}

void IdealLru::touch(std::uint64_t id) {
  if (capacity_ == 0) return;
  if (const auto found = where_.find(id); found != where_.end()) {
    unlink(found->second);
    push_newest(found->second);
    return;
  }
  Slot slot = kNone;
  if (nodes_.size() < capacity_ && nodes_.size() < kNone) {
    slot = static_cast<Slot>(nodes_.size());
    nodes_.push_back({});
  } else {
    slot = oldest_;
    unlink(slot);
    // A slot whose block was forgotten may name one that has come back in another slot.
    const auto old = where_.find(nodes_[slot].id);
    if (old != where_.end() && old->second == slot) where_.erase(old);
  }
  nodes_[slot].id = id;
  where_.emplace(id, slot);
  push_newest(slot);
}

std::uint64_t IdealLru::play(std::span<const std::uint64_t> ids) {
  std::size_t present = 0;
  while (present < ids.size() && where_.contains(ids[present])) ++present;
  for (const std::uint64_t id : ids) touch(id);
  asked_ += ids.size();
  hits_ += present;
  return present;
}

}  // namespace larder::apps
