// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace larder::nvmf {

// The rule of flushes. What was written on an association and not flushed before that was lost may
// be gone, where there is a volatile cache: no later flush may say otherwise. Any thread.
class FlushRule {
 public:
  // A write or discard ended well on the association with that flag. Whoever loses the association
  // looks at the count after it set the flag, and this the other way round: one of the two sees the
  // other.
  void note_write(const std::atomic<bool>& lost) noexcept {
    writes_.fetch_add(1);
    if (lost.load()) writes_lost_ = true;
  }
  std::uint64_t writes() const noexcept { return writes_.load(); }
  // A flush that was submitted when writes() was `mark` ended well.
  void note_flush(std::uint64_t mark) noexcept {
    std::uint64_t before = flushed_.load();
    while (before < mark && !flushed_.compare_exchange_weak(before, mark)) {
    }
  }
  // After the flag was set.
  void note_loss() noexcept {
    if (writes_.load() > flushed_.load()) writes_lost_ = true;
  }
  // From then on for good: every flush has to fail.
  bool writes_lost() const noexcept { return writes_lost_.load(); }

 private:
  std::atomic<std::uint64_t> writes_{0};
  std::atomic<std::uint64_t> flushed_{0};
  std::atomic<bool> writes_lost_{false};
};

}  // namespace larder::nvmf
