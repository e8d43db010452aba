// SPDX-License-Identifier: Apache-2.0
#include "transfer/merge.h"

#include <limits>
#include <tuple>

namespace larder::transfer {
namespace {

// All that decides how a request is treated.
auto key(const MergeItem& item) noexcept {
  return std::tie(item.opcode, item.staged, item.intent, item.traffic_class, item.hint,
                  item.transport, item.rule, item.tenant, item.deadline, item.target.value,
                  item.local_buffer, item.target_buffer);
}

// Without a sum, which might wrap.
bool follows(std::uint64_t begin, std::uint64_t length, std::uint64_t next) noexcept {
  return next > begin && next - begin == length;
}

}  // namespace

bool continues(const MergeItem& before, const MergeItem& after) noexcept {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  return after.length != 0 && after.length <= kMax - after.local_address &&
         after.length <= kMax - after.target_offset &&
         follows(before.local_address, before.length, after.local_address) &&
         follows(before.target_offset, before.length, after.target_offset) &&
         key(before) == key(after);
}

std::optional<MergedRun> MergedRuns::next() noexcept {
  if (at_ == items_.size()) return std::nullopt;
  MergedRun run{at_, at_, items_[at_].length};
  while (run.last + 1 < items_.size()) {
    const MergeItem& after = items_[run.last + 1];
    const bool fits = run.bytes <= bytes_max_ && after.length <= bytes_max_ - run.bytes;
    if (!fits || !continues(items_[run.last], after)) break;
    run.bytes += after.length;
    ++run.last;
  }
  at_ = run.last + 1;
  return run;
}

}  // namespace larder::transfer
