// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "apps/bench/limits.h"
#include "base/checksum.h"
#include "base/units.h"

namespace larder::apps {
namespace {

constexpr std::size_t kCopiesPerSpan = 16;

class LookupLimit final : public Probe {
 public:
  LookupLimit(std::span<const std::string_view> keys, std::size_t per_call, std::size_t threads)
      : keys_(keys), table_(keys), per_call_(per_call) {
    const std::size_t windows = keys.size() / per_call;
    for (std::size_t i = 0; i < threads; ++i) {
      workers_.push_back({Walk(windows, i * windows / threads)});
    }
  }

  std::string name() const override {
    return fmt::format("{} bare look-ups of {} keys", per_call_, keys_.size());
  }
  std::size_t threads() const override { return workers_.size(); }
  std::uint64_t items_per_call() const override { return per_call_; }
  std::uint64_t bytes_per_call() const override { return 0; }
  Result<void> step(std::size_t thread) override {
    const std::size_t first = workers_[thread].windows.next() * per_call_;
    for (std::size_t i = first; i < first + per_call_; ++i) {
      if (table_.find(keys_[i]) < 0)
        return fail(Code::kInternal, "a key of the table is not in it");
    }
    return {};
  }

 private:
  struct alignas(64) Worker {
    Walk windows;
  };
  std::span<const std::string_view> keys_;
  BareTable table_;
  std::size_t per_call_;
  std::vector<Worker> workers_;
};

class LookupCopyLimit final : public Probe {
 public:
  LookupCopyLimit(std::span<const std::string_view> keys, std::size_t bytes, std::size_t threads,
                  std::span<std::byte> shared, std::span<std::byte> to)
      : keys_(keys), table_(keys), bytes_(bytes), shared_(shared, bytes), workers_(threads) {
    for (std::size_t i = 0; i < threads; ++i) {
      workers_[i].keys = Walk(keys.size(), i * keys.size() / threads);
      workers_[i].to = Slots(share_of(to, i, threads), bytes);
    }
  }

  std::string name() const override {
    return fmt::format("bare look-up of {} keys + memcpy {} x{}", keys_.size(),
                       base::format_size(bytes_), workers_.size());
  }
  std::size_t threads() const override { return workers_.size(); }
  std::uint64_t bytes_per_call() const override { return bytes_; }
  std::size_t calls_per_span() const override { return kCopiesPerSpan; }
  Result<void> step(std::size_t thread) override {
    Worker& worker = workers_[thread];
    const std::int64_t index = table_.find(keys_[worker.keys.next()]);
    if (index < 0) return fail(Code::kInternal, "a key of the table is not in it");
    const auto from = shared_.slot(static_cast<std::size_t>(index));
    std::memcpy(worker.to.next().data(), from.data(), bytes_);
    return {};
  }

 private:
  struct alignas(64) Worker {
    Walk keys;
    Slots to;
  };
  std::span<const std::string_view> keys_;
  BareTable table_;
  std::size_t bytes_;
  Slots shared_;
  std::vector<Worker> workers_;
};

}  // namespace

BareTable::BareTable(std::span<const std::string_view> keys)
    : slots_(std::bit_ceil(keys.size() * 2 + 2)), mask_(slots_.size() - 1) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint64_t hash = hash64(keys[i]);
    std::uint64_t at = hash & mask_;
    while (slots_[at].key != nullptr) at = (at + 1) & mask_;
    slots_[at] = {hash, keys[i].data(), static_cast<std::uint32_t>(keys[i].size()),
                  static_cast<std::uint32_t>(i)};
  }
}

std::int64_t BareTable::find(std::string_view key) const noexcept {
  const std::uint64_t hash = hash64(key);
  for (std::uint64_t at = hash & mask_; slots_[at].key != nullptr; at = (at + 1) & mask_) {
    const Slot& slot = slots_[at];
    if (slot.hash == hash && slot.length == key.size() &&
        std::memcmp(slot.key, key.data(), key.size()) == 0) {
      return slot.index;
    }
  }
  return -1;
}

Result<ProbePtr> make_lookup_limit(std::span<const std::string_view> keys, std::size_t per_call,
                                   std::size_t threads) {
  if (per_call == 0 || keys.size() < per_call) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} look-ups in a call need as many keys; there are {}", per_call,
                            keys.size()));
  }
  return std::make_unique<LookupLimit>(keys, per_call, threads);
}

Result<ProbePtr> make_lookup_copy_limit(std::span<const std::string_view> keys, std::size_t bytes,
                                        std::size_t threads, std::span<std::byte> shared,
                                        std::span<std::byte> to) {
  if (keys.empty() || shared.size() / bytes < keys.size() ||
      share_of(to, 0, threads).size() < bytes) {
    return fail(Code::kInvalidArgument, "the memory of a look-up and copy limit is too small");
  }
  return std::make_unique<LookupCopyLimit>(keys, bytes, threads, shared, to);
}

}  // namespace larder::apps
