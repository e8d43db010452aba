// SPDX-License-Identifier: Apache-2.0
// Cuts a request into slices: the one place where that is done, for every transport and class.
//
// Nothing is stored: where a slice ends follows from where it begins. So a request has any number
// of slices without memory for them, and what is left of one that broke off is cut by the same
// rule from wherever it stopped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include "larder/status.h"
#include "larder/transfer_types.h"

namespace larder::transfer {

// Bytes of the largest slice. A HIGH transfer may have to wait for LOW slices that are under way,
// so theirs is a hard limit; nothing widens a slice beyond its limit, alignment neither.
struct SliceLimits {
  std::uint64_t high_slice_max = 8ULL << 20;
  std::uint64_t low_slice_max = 1ULL << 20;
};
// The limit of the class, or what the transport takes in one operation if that is less. What is not
// HIGH is cut as LOW.
std::uint64_t slice_limit(const SliceLimits& limits, TrafficClass traffic_class,
                          std::uint64_t transport_bytes_max) noexcept;

struct SliceInput {
  std::uint64_t length = 0;         // bytes
  std::uint64_t target_offset = 0;  // in the file or the peer's memory
  std::uint64_t local_address = 0;
  std::uint64_t limit = 0;
  std::uint64_t alignment = 1;  // a power of two; wished for target offsets between slices
  // Local addresses, ascending, where a slice has to end, such as those where two registered ranges
  // meet. Any number; those outside of the request have no effect. Lent to the plan.
  std::span<const std::uint64_t> borders = {};
};

struct Slice {
  std::uint64_t offset = 0;  // from the begin of the request
  std::uint64_t length = 0;
  bool operator==(const Slice&) const = default;
};

// for (const Slice slice : plan) ...
//
// The slices are contiguous and in order, none is empty, none is above the limit, none crosses a
// border, and their lengths add up to the request's. Between two borders they are as few as that
// allows, with their ends at multiples of the alignment in the target, except at borders and where
// the limit is below the alignment. Immutable; any thread.
class SlicePlan {
 public:
  // kInvalidArgument: a length or limit of 0, an alignment that is no power of two, borders that do
  // not ascend, or a range, local or in the target, that ends beyond 2^64 - 1. O(borders).
  static Result<SlicePlan> create(const SliceInput& input);

  std::uint64_t count() const noexcept { return count_; }
  // The slice that begins there; the next begins where it ends. Empty at or past the end. A begin
  // that is none of the plan's is taken as well: what remains is then cut from there. O(log
  // borders).
  Slice at(std::uint64_t offset) const noexcept;

  class Iterator {
   public:
    using value_type = Slice;
    using difference_type = std::ptrdiff_t;
    Iterator() noexcept = default;
    Iterator(const SlicePlan& plan, std::uint64_t offset) noexcept
        : plan_(&plan), slice_(plan.at(offset)) {}
    const Slice& operator*() const noexcept { return slice_; }
    const Slice* operator->() const noexcept { return &slice_; }
    Iterator& operator++() noexcept {
      slice_ = plan_->at(slice_.offset + slice_.length);
      return *this;
    }
    Iterator operator++(int) noexcept {
      Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(std::default_sentinel_t) const noexcept { return slice_.length == 0; }

   private:
    const SlicePlan* plan_ = nullptr;
    Slice slice_;
  };
  Iterator begin() const noexcept { return {*this, 0}; }
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  explicit SlicePlan(const SliceInput& input) noexcept;
  std::uint64_t border_after(std::uint64_t offset) const noexcept;
  std::uint64_t cut(std::uint64_t offset, std::uint64_t border) const noexcept;
  std::uint64_t slices_between(std::uint64_t offset, std::uint64_t border) const noexcept;

  SliceInput input_;
  std::uint64_t step_;  // of a slice that begins aligned
  std::uint64_t count_ = 0;
};

}  // namespace larder::transfer
