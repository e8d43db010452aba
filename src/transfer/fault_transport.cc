// SPDX-License-Identifier: Apache-2.0
#include "transfer/fault_transport.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace larder::transfer {
namespace {

bool same(PieceToken a, PieceToken b) {
  return a.index == b.index && a.generation == b.generation;
}

}  // namespace

FaultTransport::FaultTransport(const FaultTransportOptions& options, PieceSink& sink)
    : options_(options), sink_(sink), random_(options.seed) {}

bool FaultTransport::chance(double probability) {
  if (probability <= 0) return false;
  return static_cast<double>(random_() >> 11U) * 0x1.0p-53 < probability;
}

void FaultTransport::script(std::span<const Fate> fates) {
  const std::lock_guard lock(mutex_);
  script_.insert(script_.end(), fates.begin(), fates.end());
}

// ---- what is to happen ----

Fate FaultTransport::draw() {
  Fate fate;
  fate.at_once = chance(options_.at_once);
  if (chance(options_.late)) fate.steps += static_cast<unsigned>(below(options_.steps_max));
  if (chance(options_.stuck)) fate.steps = Fate::kNever;
  const bool error = chance(options_.error);
  const bool partial = chance(options_.partial);
  const bool too_late = chance(options_.too_late);
  if (error || partial || too_late) fate.code = options_.codes[below(options_.codes.size())];
  if (!too_late) fate.part = partial ? static_cast<double>(below(1000)) / 1000 : 0;
  if (chance(options_.after_cancel)) {
    fate.after_cancel = 1 + static_cast<unsigned>(below(options_.steps_max));
  }
  fate.ends_in_cancel = chance(options_.ends_in_cancel);
  fate.completes_cancelled = chance(options_.completes_cancelled);
  fate.noisy = chance(options_.noisy);
  fate.extra_ends = chance(options_.duplicate) ? 1 : 0;
  fate.stale_ends = chance(options_.stale) ? 1 : 0;
  fate.foreign_ends = chance(options_.foreign) ? 1 : 0;
  return fate;
}

Fate FaultTransport::next_fate() {
  if (dead_) return {.at_once = true, .part = 0, .code = Code::kUnavailable};
  if (script_.empty()) return draw();
  const Fate fate = script_.front();
  script_.pop_front();
  return fate;
}

// ---- bytes ----

std::byte* FaultTransport::target_of(const Piece& piece) const {
  if (piece.target->type == SegmentType::kMemory) {
    return reinterpret_cast<std::byte*>(piece.target_offset);
  }
  const std::uint64_t size = options_.file.size();
  const bool inside = piece.bytes <= size && piece.target_offset <= size - piece.bytes;
  return inside ? options_.file.data() + piece.target_offset : nullptr;
}

void FaultTransport::move(const Piece& piece, std::uint64_t bytes) const {
  std::byte* const there = target_of(piece);
  if (piece.opcode == Opcode::kRead) {
    std::memmove(piece.local, there, bytes);
  } else {
    std::memmove(there, piece.local, bytes);
  }
}

// A device in the middle of its work: the memory it was lent is its own.
void FaultTransport::disturb(const Held& held) {
  const Piece& piece = *held.piece;
  if (target_of(piece) == nullptr) return;
  if (piece.opcode == Opcode::kRead) {
    const std::uint64_t at = below(piece.bytes);
    std::memset(piece.local + at, static_cast<int>(kNoise), 1 + below(piece.bytes - at));
  } else {
    move(piece, 1 + below(piece.bytes));
  }
}

// ---- ends ----

void FaultTransport::count_end(const Held& held, Code code) {
  if (code == Code::kOk) ++counts_.completed;
  if (code == Code::kCancelled) ++counts_.cancelled;
  if (code == Code::kOk || code == Code::kCancelled) return;
  ++counts_.failed;
  if (held.fate.part >= 1) ++counts_.too_late;
  if (held.fate.part > 0 && held.fate.part < 1) ++counts_.partial;
}

void FaultTransport::finish(const Held& held, std::vector<End>& ends) {
  const Piece& piece = *held.piece;
  Code code = held.fate.code;
  if (dead_ && code == Code::kOk) code = Code::kUnavailable;
  if (held.cancelled && !held.fate.completes_cancelled) code = Code::kCancelled;
  if (target_of(piece) == nullptr) {
    if (code == Code::kOk) code = Code::kConflict;
  } else if (code == Code::kOk) {
    move(piece, piece.bytes);
  } else {
    const auto bytes = static_cast<double>(piece.bytes) * std::clamp(held.fate.part, 0.0, 1.0);
    move(piece, std::min(piece.bytes, static_cast<std::uint64_t>(bytes)));
  }
  count_end(held, code);
  ends.push_back({piece.token, code, true});
  const std::size_t real = ends.size();
  add_strays(held, ends);
  counts_.strays += ends.size() - real;
}

void FaultTransport::add_strays(const Held& held, std::vector<End>& ends) {
  const auto code = [this] { return below(2) == 0 ? Code::kOk : Code::kUnavailable; };
  for (unsigned i = 0; i < held.fate.extra_ends; ++i)
    ends.push_back({held.piece->token, code(), false});
  for (unsigned i = 0; i < held.fate.stale_ends && !over_.empty(); ++i) {
    ends.push_back({over_[below(over_.size())], code(), false});
  }
  for (unsigned i = 0; i < held.fate.foreign_ends; ++i) {
    // No real one has so high a generation.
    const auto index = static_cast<std::uint32_t>(below(2) == 0 ? below(64) : random_());
    ends.push_back({{index, static_cast<std::uint32_t>(random_()) | (1U << 31)}, code(), false});
  }
}

void FaultTransport::report(std::span<const End> ends) {
  for (const End& end : ends) {
    if (end.code == Code::kOk) {
      sink_.piece_done(end.token, nullptr);
    } else {
      const Error error(end.code,
                        "a fault that this test asked for: " + std::string(code_name(end.code)));
      sink_.piece_done(end.token, &error);
    }
    if (!end.real) continue;
    // Only now: another thread might report it as a stale one before it is over.
    const std::lock_guard lock(mutex_);
    over_.push_back(end.token);
    if (over_.size() > kOverMax) over_.pop_front();
  }
}

// ---- the transport ----

void FaultTransport::submit(std::span<const Piece* const> pieces) {
  for (const Piece* const piece : pieces) {
    std::vector<End> ends;
    {
      const std::lock_guard lock(mutex_);
      ++counts_.pieces;
      const Fate fate = next_fate();
      const Held held{piece, fate, fate.steps, false};
      if (fate.at_once) {
        ++counts_.at_once;
        finish(held, ends);
      } else {
        held_.push_back(held);
      }
    }
    report(ends);
  }
}

// Those that end now, taken out of what is held.
std::vector<FaultTransport::Held> FaultTransport::advance() {
  std::vector<Held> due;
  std::vector<Held> stay;
  for (Held& held : held_) {
    if (draining_ && held.left == Fate::kNever) held.left = 1;
    const bool going_on = held.cancelled && held.left > 1;
    if (going_on) ++counts_.after_cancel;
    if (going_on || held.fate.noisy) disturb(held);
    const bool ends = held.left != Fate::kNever && --held.left == 0;
    (ends ? due : stay).push_back(held);
  }
  held_ = std::move(stay);
  if (chance(options_.reorder)) std::shuffle(due.begin(), due.end(), random_);
  return due;
}

std::size_t FaultTransport::step() {
  std::vector<End> ends;
  std::size_t ended = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::vector<Held> due = advance();
    for (const Held& held : due) finish(held, ends);
    ended = due.size();
  }
  report(ends);
  return ended;
}

void FaultTransport::die() {
  const std::lock_guard lock(mutex_);
  dead_ = true;
  script_.clear();
  for (Held& held : held_) {
    held.fate.code = Code::kUnavailable;
    held.left = 1 + static_cast<unsigned>(below(options_.steps_max));
  }
}

std::vector<Piece> FaultTransport::held() const {
  const std::lock_guard lock(mutex_);
  std::vector<Piece> pieces;
  for (const Held& held : held_) pieces.push_back(*held.piece);
  return pieces;
}

FaultTransportCounts FaultTransport::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void FaultTransport::cancel(PieceToken token) noexcept {
  std::vector<End> ends;
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::find_if(held_.begin(), held_.end(), [token](const Held& held) {
      return same(held.piece->token, token);
    });
    if (at == held_.end()) return;
    if (!at->cancelled) at->left = 1 + at->fate.after_cancel;
    const bool goes_on = !at->cancelled && at->left > 1;
    at->cancelled = true;
    if (goes_on || !at->fate.ends_in_cancel) return;
    finish(*at, ends);
    held_.erase(at);
  }
  report(ends);
}

bool FaultTransport::drain(std::int64_t) {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }
  const auto empty = [this] {
    const std::lock_guard lock(mutex_);
    return held_.empty();
  };
  while (!empty()) step();
  return true;
}

}  // namespace larder::transfer
