// SPDX-License-Identifier: Apache-2.0
#include "transfer/slice_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace larder::transfer {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

}  // namespace

std::uint64_t slice_limit(const SliceLimits& limits, TrafficClass traffic_class,
                          std::uint64_t transport_bytes_max) noexcept {
  const std::uint64_t of_class =
      traffic_class == TrafficClass::kHigh ? limits.high_slice_max : limits.low_slice_max;
  return std::min(of_class, transport_bytes_max);
}

Result<SlicePlan> SlicePlan::create(const SliceInput& input) {
  const auto bad = [](std::string message) {
    return fail(Code::kInvalidArgument, "slices: " + std::move(message));
  };
  if (input.length == 0) return bad("the request has no bytes; ask for at least one");
  if (input.limit == 0) return bad("the limit is 0; it must be at least one byte");
  if (!std::has_single_bit(input.alignment)) {
    return bad(fmt::format("alignment {} is no power of two", input.alignment));
  }
  if (input.length > kMax - input.target_offset) {
    return bad(fmt::format("{} bytes at offset {} of the target end beyond 2^64", input.length,
                           input.target_offset));
  }
  if (input.length > kMax - input.local_address) {
    return bad(fmt::format("{} bytes of local memory end beyond 2^64", input.length));
  }
  if (!std::is_sorted(input.borders.begin(), input.borders.end())) {
    return bad("the borders do not ascend");
  }
  SlicePlan plan(input);
  for (std::uint64_t offset = 0; offset < input.length;) {
    const std::uint64_t border = plan.border_after(offset);
    plan.count_ += plan.slices_between(offset, border);
    offset = border;
  }
  return plan;
}

// With a limit below the alignment no slice could reach from one multiple to the next.
SlicePlan::SlicePlan(const SliceInput& input) noexcept
    : input_(input),
      step_(input.limit >= input.alignment ? input.limit & ~(input.alignment - 1) : input.limit) {}

// Where the piece that holds `offset` ends: at the next border, or with the request.
std::uint64_t SlicePlan::border_after(std::uint64_t offset) const noexcept {
  const auto next =
      std::upper_bound(input_.borders.begin(), input_.borders.end(), input_.local_address + offset);
  if (next == input_.borders.end()) return input_.length;
  return std::min(*next - input_.local_address, input_.length);
}

// The end of the slice that begins at `offset`.
std::uint64_t SlicePlan::cut(std::uint64_t offset, std::uint64_t border) const noexcept {
  if (border - offset <= input_.limit) return border;
  if (input_.limit < input_.alignment) return offset + input_.limit;
  const std::uint64_t furthest = input_.target_offset + offset + input_.limit;
  return (furthest & ~(input_.alignment - 1)) - input_.target_offset;
}

// The first slice ends aligned; from there on they are equal, but for the last.
std::uint64_t SlicePlan::slices_between(std::uint64_t offset, std::uint64_t border) const noexcept {
  const std::uint64_t first_end = cut(offset, border);
  const std::uint64_t left = border - first_end;
  if (left == 0) return 1;
  if (left <= input_.limit) return 2;
  const std::uint64_t beyond = left - input_.limit;  // to be taken before the last may begin
  return 2 + beyond / step_ + (beyond % step_ != 0 ? 1 : 0);
}

Slice SlicePlan::at(std::uint64_t offset) const noexcept {
  if (offset >= input_.length) return {input_.length, 0};
  return {offset, cut(offset, border_after(offset)) - offset};
}

}  // namespace larder::transfer
