// SPDX-License-Identifier: Apache-2.0
#include "fileio/fault_backend.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace larder::fileio {
namespace {

constexpr std::size_t kEchoesMax = 256;
constexpr env::Nanos kCloseGrace = 5 * env::kSecond;

}  // namespace

FaultBackend::FaultBackend(std::unique_ptr<IoBackend> inner, const FaultOptions& options)
    : inner_(std::move(inner)),
      options_(options),
      random_(options.seed),
      slots_(inner_->depth()),
      inner_done_(inner_->depth()) {
  ready_.reserve(slots_.size());
  for (std::size_t i = slots_.size(); i > 0; --i) free_.push_back(i - 1);
}

FaultBackend::~FaultBackend() {
  quiesce(env::monotonic_now() + kCloseGrace);
}

bool FaultBackend::chance(double probability) {
  if (probability <= 0) return false;
  return static_cast<double>(random_() >> 11U) * 0x1.0p-53 < probability;
}

Result<std::size_t> FaultBackend::dead() const {
  return fail(Code::kUnavailable, "the backend died, as this test asked for");
}

void FaultBackend::draw_partial(Slot& slot) {
  const std::uint32_t unit = options_.partial_unit;
  if (slot.op.bytes > unit && chance(0.7)) {
    slot.op.bytes = unit * static_cast<std::uint32_t>(1 + below((slot.op.bytes - 1) / unit));
  }
  slot.report_max = slot.op.bytes;
  if (slot.op.bytes == slot.asked || chance(0.3)) {
    slot.report_max = 1 + static_cast<std::int64_t>(below(slot.op.bytes - (slot.op.bytes > 1)));
  }
  ++counts_.partial;
}

void FaultBackend::draw(Slot& slot) {
  const auto late = [this] {
    ++counts_.late;
    return 1 + static_cast<unsigned>(below(options_.late_polls_max));
  };
  slot.report_max = slot.op.bytes;
  slot.state = State::kBefore;
  const bool moves = slot.op.kind != IoKind::kSync && slot.op.bytes > 0;
  if (moves && chance(options_.partial)) draw_partial(slot);
  if (chance(options_.late_transfer)) slot.polls = late();
  if (chance(options_.late_completion)) slot.hold = late();
  if (moves && chance(options_.overlong)) {
    slot.instead = static_cast<std::int64_t>(slot.asked) + 1;
    ++counts_.overlong;
  }
  if (chance(options_.eio)) {
    slot.instead = -EIO;
    ++counts_.eio;
    if (chance(0.5)) slot.state = State::kAfter;
  } else if (chance(options_.eagain)) {
    slot.instead = -EAGAIN;
    slot.state = State::kAfter;
    ++counts_.eagain;
  } else if (chance(options_.lost)) {
    slot.lost = true;
    ++counts_.lost;
  }
  if (slot.state == State::kAfter) slot.result = slot.instead;
}

bool FaultBackend::begin(std::size_t index) {
  Slot& slot = slots_[index];
  IoOp op = slot.op;
  op.tag = index;
  const auto taken = inner_->submit({&op, 1});
  if (!taken || *taken == 0) return false;
  slot.state = State::kRunning;
  return true;
}

Result<std::size_t> FaultBackend::submit(std::span<const IoOp> ops) {
  if (dead_) return dead();
  for (const IoOp& op : ops) {
    if (op.tag == kIoTagReserved) return fail(Code::kInvalidArgument, "the tag is reserved");
  }
  std::size_t count = 0;
  for (; count < ops.size() && !free_.empty(); ++count) {
    const std::size_t index = free_.back();
    free_.pop_back();
    ++in_flight_;
    slots_[index] = Slot{};
    slots_[index].op = ops[count];
    slots_[index].asked = ops[count].bytes;
    draw(slots_[index]);
    if (slots_[index].state == State::kBefore && slots_[index].polls == 0 && !slots_[index].lost) {
      begin(index);  // if not now, then with a later poll
    }
    if (options_.death_after != 0 && ++seen_ >= options_.death_after) {
      dead_ = true;
      return dead();
    }
  }
  return count;
}

Result<void> FaultBackend::start() {
  if (dead_) return fail(dead().error());
  return inner_->start();
}

void FaultBackend::release(std::size_t index) {
  slots_[index].state = State::kFree;
  free_.push_back(index);
  --in_flight_;
}

// The inner backend is through with it.
void FaultBackend::finish(std::size_t index, std::int64_t result) {
  Slot& slot = slots_[index];
  if (slot.lost) return release(index);
  slot.result = slot.instead != 0 ? slot.instead : std::min(result, slot.report_max);
  slot.polls = slot.hold;
  slot.state = State::kAfter;
  if (slot.polls == 0) {
    slot.state = State::kReady;
    ready_.push_back(index);
  }
}

void FaultBackend::collect() {
  for (;;) {
    const auto got = inner_->poll(inner_done_);
    if (!got || *got == 0) return;
    for (std::size_t i = 0; i < *got; ++i) {
      finish(static_cast<std::size_t>(inner_done_[i].tag), inner_done_[i].result);
    }
  }
}

// One poll has passed.
void FaultBackend::advance() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    const bool counts = (slot.state == State::kBefore && !slot.lost) || slot.state == State::kAfter;
    if (!counts) continue;
    if (slot.polls > 0) --slot.polls;
    if (slot.polls > 0) continue;
    if (slot.state == State::kBefore) {
      begin(i);
    } else {
      slot.state = State::kReady;
      ready_.push_back(i);
    }
  }
  for (Echo& echo : echoes_) echo.polls -= echo.polls > 0 ? 1 : 0;
}

bool FaultBackend::waits_for_polls() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return (slot.state == State::kBefore && !slot.lost) || slot.state == State::kAfter;
  });
}

IoDone FaultBackend::give_slot() {
  const std::size_t at = chance(options_.reorder) ? below(ready_.size()) : 0;
  const std::size_t index = ready_[at];
  ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(at));
  const IoDone done{slots_[index].op.tag, slots_[index].result};
  release(index);
  if (echoes_.size() < kEchoesMax && chance(options_.duplicate)) {
    echoes_.push_back({done, static_cast<unsigned>(below(options_.late_polls_max + 1))});
    ++counts_.duplicate;
  }
  return done;
}

std::size_t FaultBackend::give(std::span<IoDone> into) {
  std::size_t count = 0;
  if (count < into.size() && chance(options_.foreign)) {
    into[count++] = {random_() - 1, static_cast<std::int64_t>(below(1U << 20U)) - 64};
    ++counts_.foreign;
  }
  for (std::size_t i = echoes_.size(); i > 0 && count < into.size(); --i) {
    if (echoes_[i - 1].polls > 0) continue;
    into[count++] = echoes_[i - 1].done;
    echoes_.erase(echoes_.begin() + static_cast<std::ptrdiff_t>(i - 1));
  }
  while (count < into.size() && !ready_.empty()) into[count++] = give_slot();
  return count;
}

Result<std::size_t> FaultBackend::poll(std::span<IoDone> into) {
  if (dead_) return dead();
  advance();
  collect();
  return give(into);
}

Result<std::size_t> FaultBackend::wait(std::span<IoDone> into, env::Nanos deadline) {
  for (;;) {
    if (dead_) return dead();
    advance();  // its sleep counts polls, not time
    collect();
    if (const std::size_t count = give(into); count > 0) return count;
    // Asked after collect(), which holds back some of what it brings.
    if (waits_for_polls()) continue;
    LARDER_ASSIGN(const std::size_t got, inner_->wait(inner_done_, deadline));
    for (std::size_t i = 0; i < got; ++i) {
      finish(static_cast<std::size_t>(inner_done_[i].tag), inner_done_[i].result);
    }
    if (got == 0) return give(into);
  }
}

bool FaultBackend::quiesce(env::Nanos deadline) noexcept {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state == State::kBefore && !begin(i)) return false;
    slots_[i].hold = 0;
    if (slots_[i].state == State::kAfter) slots_[i].polls = 0;
  }
  const bool quiet = inner_->quiesce(deadline);
  collect();
  advance();
  return quiet;
}

}  // namespace larder::fileio
