// SPDX-License-Identifier: Apache-2.0
// Memory to measure with: private or shared like a node's segments, populated before use, and
// walked in an order that neither caches nor prefetchers can follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "larder/status.h"

namespace larder::apps {

// One mapping; unmapped when destroyed. Movable.
class Mapping {
 public:
  Mapping() = default;
  // Anonymous memory, every page touched. `pages`: "4KiB", the default size, or "thp".
  static Result<Mapping> private_memory(std::uint64_t bytes, std::string_view pages = "4KiB");
  // A memfd mapped shared and populated, as a node's segments are. `pages` is what the node
  // reports: "4KiB", "thp" or "2MiB".
  static Result<Mapping> shared_memory(std::uint64_t bytes, std::string_view pages = "4KiB");
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::span<std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  Mapping(std::byte* data, std::size_t size) noexcept : data_(data), size_(size) {}
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Visits 0 .. slots-1, each once per lap, in golden-ratio steps: far apart and without a table that
// would itself take cache.
class Walk {
 public:
  Walk() = default;
  explicit Walk(std::size_t slots, std::size_t start = 0) noexcept;
  std::size_t next() noexcept;
  std::size_t slots() const noexcept { return slots_; }

 private:
  std::size_t slots_ = 1;
  std::size_t step_ = 1;
  std::size_t at_ = 0;
};

// A range cut into equal slots, walked.
class Slots {
 public:
  Slots() = default;
  // `slot_bytes` at most bytes.size().
  Slots(std::span<std::byte> bytes, std::size_t slot_bytes, std::size_t start = 0) noexcept;
  std::span<std::byte> next() noexcept { return slot(walk_.next()); }
  std::span<std::byte> slot(std::size_t index) const noexcept {
    return bytes_.subspan(index * slot_bytes_, slot_bytes_);
  }
  std::size_t count() const noexcept { return walk_.slots(); }

 private:
  std::span<std::byte> bytes_;
  std::size_t slot_bytes_ = 0;
  Walk walk_;
};

// The share of `bytes` that belongs to worker `index` of `workers`, cut at pages.
std::span<std::byte> share_of(std::span<std::byte> bytes, std::size_t index, std::size_t workers);

// Bytes that only `seed` gives: two seeds agree nowhere by more than chance.
void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed) noexcept;

}  // namespace larder::apps
