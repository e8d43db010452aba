// SPDX-License-Identifier: Apache-2.0
// The yardstick of a replay: an exact LRU of N blocks played over the same requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace larder::apps {

// On a request the longest present prefix counts as hits and is touched; then the rest is inserted
// or touched in order. Memory: some 64 bytes per block held. Not thread safe.
class IdealLru {
 public:
  explicit IdealLru(std::uint64_t capacity_blocks) : capacity_(capacity_blocks) {}

  // Plays one request and returns its hits.
  std::uint64_t play(std::span<const std::uint64_t> ids);

  // Drops one block, as if it had never been; it need not be held.
  void forget(std::uint64_t id);

  std::uint64_t asked() const noexcept { return asked_; }
  std::uint64_t hits() const noexcept { return hits_; }
  double hit_rate() const noexcept {
    return asked_ == 0 ? 0.0 : static_cast<double>(hits_) / static_cast<double>(asked_);
  }
  std::size_t size() const noexcept { return where_.size(); }

 private:
  using Slot = std::uint32_t;
  static constexpr Slot kNone = 0xffffffff;
  struct Node {
    std::uint64_t id = 0;
    Slot older = kNone;
    Slot newer = kNone;
  };

  void touch(std::uint64_t id);
  void unlink(Slot slot);
  void push_newest(Slot slot);
  void push_oldest(Slot slot);

  std::uint64_t capacity_;
  std::uint64_t asked_ = 0;
  std::uint64_t hits_ = 0;
  std::unordered_map<std::uint64_t, Slot> where_;
  std::vector<Node> nodes_;  // at most capacity_ of them
  Slot oldest_ = kNone;
  Slot newest_ = kNone;
};

}  // namespace larder::apps
