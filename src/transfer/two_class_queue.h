// SPDX-License-Identifier: Apache-2.0
// Pieces that wait: HIGH ones first, but every eighth turn is LOW's, so that LOW ones get on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>

#include "transfer/transport.h"

namespace larder::transfer {

// Within a class the first that came is the first to go. Not thread safe.
class TwoClassQueue {
 public:
  static constexpr unsigned kLowTurn = 8;

  bool empty() const noexcept { return high_.empty() && low_.empty(); }
  std::size_t size() const noexcept { return high_.size() + low_.size(); }
  void push(const Piece* piece) { of(piece->traffic_class).push_back(piece); }
  // Null: it is empty.
  const Piece* take() {
    if (empty()) return nullptr;
    const bool low_turn = ++turns_ % kLowTurn == 0;
    auto& from = (low_turn && !low_.empty()) || high_.empty() ? low_ : high_;
    const Piece* const piece = from.front();
    from.pop_front();
    return piece;
  }
  // Takes one out of turn. Null: it is not here.
  const Piece* remove(PieceToken token) {
    for (auto* queue : {&high_, &low_}) {
      const auto at = std::find_if(queue->begin(), queue->end(), [&](const Piece* piece) {
        return piece->token.index == token.index && piece->token.generation == token.generation;
      });
      if (at == queue->end()) continue;
      const Piece* const piece = *at;
      queue->erase(at);
      return piece;
    }
    return nullptr;
  }

 private:
  std::deque<const Piece*>& of(TrafficClass traffic_class) noexcept {
    return traffic_class == TrafficClass::kHigh ? high_ : low_;
  }

  std::deque<const Piece*> high_;
  std::deque<const Piece*> low_;
  unsigned turns_ = 0;
};

}  // namespace larder::transfer
