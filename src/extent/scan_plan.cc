// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "extent/recovery.h"

namespace larder::extent {

ScanPlan::ScanPlan(const Layout& layout, std::size_t ahead)
    : cells_(layout.cells),
      cells_a_piece_(kPieceBytes / kCellBytes),
      pieces_((layout.cells + cells_a_piece_ - 1) / cells_a_piece_),
      ahead_(ahead) {}

std::uint32_t ScanPlan::cells_of(std::uint32_t piece) const noexcept {
  return std::min(cells_a_piece_, cells_ - first_cell(piece));
}

ScanPlan::Answer ScanPlan::next(std::uint32_t& piece, bool may_sleep) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (error_) return Answer::kOver;
    const std::uint64_t needed = std::uint64_t{end_} + kCellWindow;
    const std::uint64_t first = std::uint64_t{next_} * cells_a_piece_;
    const std::uint64_t guess = needed + ahead_ * cells_a_piece_;
    const bool wanted = next_ < pieces_ && (first < needed || (under_way_ > 0 && first < guess));
    if (wanted) {
      piece = next_++;
      ++under_way_;
      return Answer::kPiece;
    }
    if (under_way_ == 0) return Answer::kOver;
    if (!may_sleep) return Answer::kWait;
    changed_.wait(lock);
  }
}

void ScanPlan::done(std::uint32_t end) {
  const std::lock_guard lock(mutex_);
  end_ = std::max(end_, end);
  --under_way_;
  changed_.notify_all();
}

void ScanPlan::stop(Error error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  changed_.notify_all();
}

std::optional<Error> ScanPlan::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

std::uint64_t ScanPlan::cells_seen() const {
  const std::lock_guard lock(mutex_);
  return std::min<std::uint64_t>(cells_, std::uint64_t{next_} * cells_a_piece_);
}

std::uint32_t ScanPlan::end() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

}  // namespace larder::extent
