// SPDX-License-Identifier: Apache-2.0
#include "route/entry.h"

#include <cstring>
#include <new>

namespace larder::route {

EntryRef EntryFields::make() const {
  void* memory = ::operator new(Entry::footprint(key.key.size()));
  Entry* entry = new (memory) Entry();
  entry->hash_ = key.hash;
  entry->owner_ = owner;
  entry->version_ = version;
  entry->last_byte_ = static_cast<std::uint32_t>(length - 1);
  entry->checksum_ = checksum;
  entry->offset_ = hot.offset;
  entry->node_ = hot.node;
  entry->slot_ = hot.slot;
  entry->tag_ = hot.tag;
  entry->segment_ = hot.segment;
  entry->cold_.store(cold, std::memory_order_relaxed);
  entry->space_ = key.space;
  entry->key_bytes_ = static_cast<std::uint16_t>(key.key.size());
  std::memcpy(static_cast<void*>(entry + 1), key.key.data(), key.key.size());
  return EntryRef::adopt(entry);
}

EntryRef EntryRef::try_share(Entry* entry) noexcept {
  std::uint32_t seen = entry->references_.load(std::memory_order_relaxed);
  while (seen != 0) {
    if (entry->references_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) {
      return EntryRef(entry);
    }
  }
  return {};
}

void EntryRef::drop(Entry* entry) noexcept {
  if (entry->references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (entry->owner_ != nullptr) entry->owner_->on_release(*entry);
  entry->~Entry();
  ::operator delete(entry);
}

}  // namespace larder::route
