// SPDX-License-Identifier: Apache-2.0
#include "platform/sim_copier.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "env/thread.h"
#include "platform/stream_copy.h"

namespace larder::platform {
namespace {

// What a sleep of the machine oversleeps by; closer to the end, waiting offers the core instead.
constexpr env::Nanos kOversleep = 80 * env::kMicro;

std::optional<Location> place_of(const std::shared_ptr<SimBlock>& block, MemoryType type) {
  if (block == nullptr) return std::nullopt;
  return Location{type, block->device};
}

// Where the engine finds the bytes that the application knows under `ptr`.
std::byte* reach(const std::shared_ptr<SimBlock>& block, const void* ptr) {
  auto* seen = static_cast<std::byte*>(const_cast<void*>(ptr));
  return block == nullptr ? seen : block->shadow + (seen - block->data);
}

void count(const std::shared_ptr<SimBlock>& block, int by) noexcept {
  if (block != nullptr) block->in_flight.fetch_add(by);
}

}  // namespace

SimCopier::SimCopier(std::shared_ptr<SimDevices> devices, std::size_t depth)
    : devices_(std::move(devices)),
      depth_(depth),
      real_time_(&devices_->clock() == &env::system_clock()),
      done_(depth) {
  due_.reserve(depth);
  lost_.reserve(depth);
}

SimCopier::~SimCopier() {
  // Nobody else moves the bytes, so what is left never lands.
  for (const std::vector<Flight>* flights : {&due_, &lost_}) {
    for (const Flight& flight : *flights) {
      count(flight.dst, -1);
      count(flight.src, -1);
    }
  }
}

bool SimCopier::later(const Flight& a, const Flight& b) noexcept {
  return a.fate.due != b.fate.due ? a.fate.due > b.fate.due : a.number > b.number;
}

void SimCopier::put_in_flight(Flight flight) noexcept {
  due_.push_back(std::move(flight));
  std::push_heap(due_.begin(), due_.end(), later);
}

SimCopier::Flight SimCopier::take_next() noexcept {
  std::pop_heap(due_.begin(), due_.end(), later);
  Flight flight = std::move(due_.back());
  due_.pop_back();
  return flight;
}

Result<void> SimCopier::submit(const Copy& copy) {
  LARDER_TRY(check_copy(copy));
  Flight flight;
  LARDER_ASSIGN(flight.dst, devices_->find(copy.dst, copy.bytes));
  LARDER_ASSIGN(flight.src, devices_->find(copy.src, copy.bytes));
  const MemoryType type = devices_->options().type;
  LARDER_ASSIGN(const CopyRoute route, derive_route(place_of(flight.dst, type),
                                                    place_of(flight.src, type), devices_->name()));
  if (outstanding() >= depth_) return fail(copier_full(depth_));
  flight.copy = copy;
  flight.number = submitted_++;
  flight.fate = devices_->schedule(route, copy.bytes);
  count(flight.dst, 1);
  count(flight.src, 1);
  if (flight.fate.fault == SimFault::kLost) {
    lost_.push_back(std::move(flight));
  } else {
    put_in_flight(std::move(flight));
  }
  return {};
}

CopyDone SimCopier::land(const Flight& flight) {
  const Copy& copy = flight.copy;
  stream_copy(reach(flight.dst, copy.dst), reach(flight.src, copy.src), flight.fate.moved);
  count(flight.dst, -1);
  count(flight.src, -1);
  CopyDone done{copy.tag, copy.bytes, {}};
  if (flight.fate.fault == SimFault::kError) {
    done.result = fail(Code::kUnavailable, fmt::format("{}: simulated error of a copy of {} bytes",
                                                       devices_->name(), copy.bytes));
  } else if (flight.fate.fault == SimFault::kLost) {
    done.result = fail(Code::kUnavailable,
                       fmt::format("{}: simulated loss of the completion of a copy of {} bytes",
                                   devices_->name(), copy.bytes));
  }
  return done;
}

std::size_t SimCopier::poll(std::span<CopyDone> done) {
  std::size_t n = done_.take(done);
  const env::Nanos now = devices_->clock().now();
  while (n < done.size() && !due_.empty() && due_.front().fate.due <= now) {
    done[n++] = land(take_next());
  }
  return n;
}

void SimCopier::pause_until(env::Nanos time) noexcept {
  const env::Nanos left = time - devices_->clock().now();
  if (!real_time_) {
    devices_->clock().sleep(left);
  } else if (left > 2 * kOversleep) {
    devices_->clock().sleep(left - kOversleep);
  } else {
    env::yield_core();
  }
}

std::size_t SimCopier::wait(std::span<CopyDone> done, env::Nanos deadline) {
  if (done.empty()) return 0;
  for (;;) {
    const std::size_t n = poll(done);
    if (n > 0 || in_flight() == 0 || devices_->clock().now() >= deadline) return n;
    pause_until(due_.empty() ? deadline : std::min(deadline, due_.front().fate.due));
  }
}

Result<void> SimCopier::quiesce(env::Nanos deadline) {
  for (Flight& flight : lost_) put_in_flight(std::move(flight));
  lost_.clear();
  while (!due_.empty()) {
    const env::Nanos now = devices_->clock().now();
    if (due_.front().fate.due <= now) {
      done_.push(land(take_next()));
    } else if (now >= deadline) {
      return fail(copies_remain(in_flight()));
    } else {
      pause_until(std::min(deadline, due_.front().fate.due));
    }
  }
  return {};
}

}  // namespace larder::platform
