// SPDX-License-Identifier: Apache-2.0
// The end of a recovery: from where records are to what space is free.
#include <algorithm>

#include "extent/recovery_worker.h"
#include "extent/superblock.h"

namespace larder::extent {

// The lock is held for milliseconds a million records, once; pins wait for that long.
Result<void> Recovery::build(RecoveryReport& report) {
  std::vector<RecordTable::Range> ranges;
  {
    const std::lock_guard lock(store_.mutex_);
    store_.table_->note_written(plan_.end(), 0);
    ranges = store_.table_->ranges();
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  for (;;) {
    LARDER_ASSIGN(const std::size_t dropped, drop_overlapping(ranges));
    if (dropped == 0) break;
    report.overlapping += dropped;
  }
  const std::lock_guard lock(store_.mutex_);
  return store_.table_->build(ranges);
}

// Of two records that claim the same space one is a ghost: only a device that broke its word shows
// such. The one written last has it.
Result<std::size_t> Recovery::drop_overlapping(std::vector<RecordTable::Range>& ranges) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  {
    const std::lock_guard lock(store_.mutex_);
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      const auto& before = ranges[i - 1];
      if (before.offset + store_.table_->range_bytes(before) > ranges[i].offset) {
        pairs.emplace_back(before.slot, ranges[i].slot);
      }
    }
  }
  std::vector<std::uint32_t> losers;
  for (const auto& [a, b] : pairs) {
    const auto gone = [&](std::uint32_t slot) {
      return std::find(losers.begin(), losers.end(), slot) != losers.end();
    };
    if (gone(a) || gone(b)) continue;  // the next look will tell
    losers.push_back(sequence_of(a) < sequence_of(b) ? a : b);
  }
  if (losers.empty()) return std::size_t{0};
  std::erase_if(ranges, [&](const RecordTable::Range& range) {
    return std::find(losers.begin(), losers.end(), range.slot) != losers.end();
  });
  const std::lock_guard lock(store_.mutex_);
  for (const std::uint32_t slot : losers) store_.table_->drop_space(slot);
  return losers.size();
}

// From its header, once more; 0 when it is not there any more.
std::uint64_t Recovery::sequence_of(std::uint32_t slot) {
  std::uint32_t cell = 0;
  {
    const std::lock_guard lock(store_.mutex_);
    cell = store_.table_->id(slot).cell;
  }
  Worker worker(store_.device(), layout_);
  const auto cells = worker.cells_again(cell);
  if (!cells) return 0;
  const auto header = decode_header(store_.uuid(), layout_, cell, *cells, worker.manifest);
  return header ? header->sequence : 0;
}

}  // namespace larder::extent
