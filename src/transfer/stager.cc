// SPDX-License-Identifier: Apache-2.0
#include "transfer/stager.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>

#include "env/clock.h"
#include "env/thread.h"

namespace larder::transfer {
namespace {

// How long copies are waited for before new pieces are looked at.
constexpr env::Nanos kCopyWait = 50 * env::kMicro;

bool same(PieceToken a, PieceToken b) {
  return a.index == b.index && a.generation == b.generation;
}

Error given_up() {
  return {Code::kCancelled, "cancelled before it was staged"};
}

}  // namespace

Result<std::unique_ptr<Stager>> Stager::create(const StagerOptions& options,
                                               const platform::PlatformSet& platforms,
                                               PieceSink& sink) {
  std::unique_ptr<Stager> stager(new Stager(options, platforms, sink));
  LARDER_ASSIGN(
      stager->memory_,
      platforms.of(MemoryType::kCpu)->allocate(options.buffer_bytes * options.buffers, -1));
  // A disk's request has room for some hundred stretches of memory: 1 MiB in small pages is cut in
  // two there. Where the advice is not taken it works all the same.
  ::madvise(stager->memory_.data(), stager->memory_.bytes(), MADV_HUGEPAGE);
  stager->places_.resize(options.buffers);
  for (std::uint32_t i = 0; i < options.buffers; ++i) {
    stager->places_[i].buffer = stager->memory_.data() + i * options.buffer_bytes;
    stager->free_.push_back(i);
  }
  // Pinned memory is copied asynchronously, and faster. Where it is refused, copies still work.
  for (const auto& platform : platforms.all()) {
    if (!is_device_memory(platform->type())) continue;
    auto pin = platform->pin({stager->memory_.data(), stager->memory_.bytes()}, 0);
    if (pin) stager->pins_.push_back(std::move(*pin));
  }
  stager->thread_ = std::thread([raw = stager.get()] { raw->run(); });
  return stager;
}

Stager::Stager(const StagerOptions& options, const platform::PlatformSet& platforms,
               PieceSink& sink)
    : options_(options), platforms_(platforms), sink_(sink) {}

Stager::~Stager() {
  inner_.reset();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

TransportAbilities Stager::abilities() const noexcept {
  TransportAbilities can = inner_->abilities();
  can.bytes_max = std::min(can.bytes_max, options_.buffer_bytes);
  return can;
}

void Stager::submit(std::span<const Piece* const> pieces) {
  {
    const std::lock_guard lock(mutex_);
    unfinished_ += pieces.size();
    for (const Piece* const piece : pieces) waiting_.push(piece);
  }
  changed_.notify_one();
}

bool Stager::take_back(PieceToken token) {
  const std::lock_guard lock(mutex_);
  return waiting_.remove(token) != nullptr;
}

void Stager::cancel(PieceToken token) noexcept {
  if (take_back(token)) {
    const Error error = given_up();
    sink_.piece_done(token, &error);
    const std::lock_guard lock(mutex_);
    if (--unfinished_ == 0) drained_.notify_all();
    return;
  }
  std::optional<PieceToken> with;
  {
    const std::lock_guard lock(mutex_);
    for (Place& place : places_) {
      if (place.outer == nullptr || !same(place.outer->token, token)) continue;
      place.cancelled = true;
      if (place.with_transport) with = place.inner.token;
    }
  }
  if (with) inner_->cancel(*with);
}

bool Stager::drain(std::int64_t deadline) {
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline)};
  std::unique_lock lock(mutex_);
  return drained_.wait_until(lock, until, [this] { return unfinished_ == 0; });
}

// ---- the worker ----

void Stager::run() {
  env::set_thread_name("larder-stager");
  while (true) {
    std::vector<std::uint32_t> moved;
    {
      std::unique_lock lock(mutex_);
      if (copies_ == 0) {
        changed_.wait(lock, [this] {
          const bool startable = !free_.empty() && !waiting_.empty();
          return startable || !moved_.empty() || (stopping_ && unfinished_ == 0);
        });
      }
      if (stopping_ && unfinished_ == 0) return;
      moved.swap(moved_);
    }
    for (const std::uint32_t index : moved) after_inner(index);
    start_some();
    hand_out();
    if (copies_ > 0) finish_copies();
    hand_out();
  }
}

bool Stager::start_some() {
  bool any = false;
  while (true) {
    std::uint32_t index = 0;
    {
      const std::lock_guard lock(mutex_);
      if (free_.empty()) return any;
      const Piece* const piece = waiting_.take();
      if (piece == nullptr) return any;
      index = free_.back();
      free_.pop_back();
      places_[index].outer = piece;
      places_[index].cancelled = false;
    }
    begin(index);
    any = true;
  }
}

void Stager::begin(std::uint32_t index) {
  Place& place = places_[index];
  place.error.reset();
  place.inner = *place.outer;
  place.inner.local = place.buffer;
  place.inner.local_type = MemoryType::kCpu;
  place.inner.attended = false;  // nobody who waits knows the transport behind this one
  place.inner.token = {index, ++place.generation};
  if (place.outer->opcode == Opcode::kRead) {
    outgoing_.push_back(index);
  } else {
    copy(index);
  }
}

// In one call: small pieces may travel together.
void Stager::hand_out() {
  if (outgoing_.empty()) return;
  std::vector<const Piece*> pieces;
  std::vector<std::uint32_t> dropped;
  {
    const std::lock_guard lock(mutex_);
    for (const std::uint32_t index : outgoing_) {
      Place& place = places_[index];
      place.with_transport = !place.cancelled;
      if (place.cancelled) {
        dropped.push_back(index);
      } else {
        pieces.push_back(&place.inner);
      }
    }
  }
  if (!pieces.empty()) inner_->submit(pieces);
  for (const std::uint32_t index : outgoing_) cancel_again(index);
  for (const std::uint32_t index : dropped) drop(index);
  outgoing_.clear();
}

// Whoever cancelled it meanwhile may have come before the transport knew it.
void Stager::cancel_again(std::uint32_t index) {
  const Place& place = places_[index];
  {
    const std::lock_guard lock(mutex_);
    if (!place.with_transport || !place.cancelled) return;
  }
  inner_->cancel(place.inner.token);
}

void Stager::drop(std::uint32_t index) {
  places_[index].error = std::make_unique<Error>(given_up());
  finish(index);
}

void Stager::inner_done(PieceToken token, const Error* error) noexcept {
  if (token.index >= places_.size()) return;
  Place& place = places_[token.index];
  {
    const std::lock_guard lock(mutex_);
    if (!place.with_transport || token.generation != place.generation) return;
    place.with_transport = false;
    if (error != nullptr) place.error = std::make_unique<Error>(*error);
    moved_.push_back(token.index);
  }
  changed_.notify_one();
}

void Stager::after_inner(std::uint32_t index) {
  Place& place = places_[index];
  if (place.error != nullptr || place.outer->opcode == Opcode::kWrite) return finish(index);
  bool cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    cancelled = place.cancelled;
  }
  if (cancelled) return drop(index);
  copy(index);
}

Result<platform::CopyEngine*> Stager::engine_for(MemoryType type) {
  auto& engine = engines_[type];
  if (engine != nullptr) return engine.get();
  platform::Platform* const platform = platforms_.of(type);
  if (platform == nullptr) return fail(Code::kUnsupported, "no platform for this memory");
  platform::CopierOptions options;
  options.depth = options_.buffers;
  LARDER_ASSIGN(engine, platform->create_copier(options));
  return engine.get();
}

void Stager::copy(std::uint32_t index) {
  Place& place = places_[index];
  const bool read = place.outer->opcode == Opcode::kRead;
  platform::Copy copy;
  copy.dst = read ? place.outer->local : place.buffer;
  copy.src = read ? place.buffer : place.outer->local;
  copy.bytes = place.outer->bytes;
  copy.tag = index;
  const auto engine = engine_for(place.outer->local_type);
  Result<void> started = engine ? (*engine)->submit(copy) : fail(engine.error());
  if (started) {
    ++copies_;
    return;
  }
  place.error = std::make_unique<Error>(started.error());
  finish(index);
}

std::size_t Stager::finish_copies() {
  // One at a time: an engine may do the copying here, and what has been copied is to go on while
  // the next one is.
  std::array<platform::CopyDone, 1> done;
  std::size_t ended = 0;
  for (const auto& [type, engine] : engines_) {
    if (engine == nullptr || engine->outstanding() == 0) continue;
    const std::size_t count = engine->wait(done, env::monotonic_now() + kCopyWait);
    copies_ -= count;
    ended += count;
    for (std::size_t i = 0; i < count; ++i) {
      const auto index = static_cast<std::uint32_t>(done[i].tag);
      Place& place = places_[index];
      if (!done[i].result) place.error = std::make_unique<Error>(done[i].result.error());
      const bool on = place.error == nullptr && place.outer->opcode == Opcode::kWrite;
      if (on) {
        outgoing_.push_back(index);
      } else {
        finish(index);
      }
    }
  }
  return ended;
}

void Stager::finish(std::uint32_t index) {
  Place& place = places_[index];
  const PieceToken token = place.outer->token;
  const std::unique_ptr<Error> error = std::move(place.error);
  {
    const std::lock_guard lock(mutex_);
    place.outer = nullptr;
    free_.push_back(index);
  }
  sink_.piece_done(token, error.get());
  const std::lock_guard lock(mutex_);
  if (--unfinished_ == 0) drained_.notify_all();
}

}  // namespace larder::transfer
