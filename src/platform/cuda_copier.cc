// SPDX-License-Identifier: Apache-2.0
#include "platform/cuda_copier.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "env/thread.h"

namespace larder::platform {
namespace {

constexpr int kSpins = 1000;  // some 0.3 ms: most copies end sooner
constexpr env::Nanos kNap = 50 * env::kMicro;

CuPointer address(const void* ptr) {
  return reinterpret_cast<std::uintptr_t>(ptr);
}

// Between two looks at events: spins while there is a core to spare, then sleeps.
class Pause {
 public:
  Pause(env::Clock& clock, env::Nanos deadline) : clock_(clock), deadline_(deadline) {}

  // False: the deadline has come.
  bool next() noexcept {
    const env::Nanos left = deadline_ - clock_.now();
    if (left <= 0) return false;
    if (spins_ < kSpins && ticket_.granted()) {
      spins_ = env::yield_core() ? kSpins : spins_ + 1;
    } else {
      clock_.sleep(std::min(left, kNap));
    }
    return true;
  }

 private:
  env::SpinTicket ticket_;
  env::Clock& clock_;
  const env::Nanos deadline_;
  int spins_ = 0;
};

}  // namespace

CudaCopier::CudaCopier(std::shared_ptr<CudaDevices> devices, std::size_t depth)
    : devices_(std::move(devices)),
      depth_(depth),
      slots_(depth),
      lanes_(static_cast<std::size_t>(devices_->count()) * kCopyDirectionCount),
      spare_(static_cast<std::size_t>(devices_->count())),
      done_(depth) {
  for (SlotIndex i = 0; i < slots_.size(); ++i) slots_[i].next = std::exchange(free_, i);
}

CudaCopier::~CudaCopier() {
  for (std::size_t device = 0; device < spare_.size(); ++device) close_device(device);
}

void CudaCopier::close_device(std::size_t device) noexcept {
  const auto lanes = std::span(lanes_).subspan(device * kCopyDirectionCount, kCopyDirectionCount);
  const auto used = [](const Lane& lane) { return lane.stream != nullptr; };
  if (std::none_of(lanes.begin(), lanes.end(), used)) return;
  const CudaDriver& driver = devices_->driver();
  const auto scope = CudaScope::enter(*devices_, static_cast<int>(device));
  for (Lane& lane : lanes) {
    if (lane.stream == nullptr) continue;
    // Destroying a stream does not wait for its copies. An error means that the context is dead,
    // and its copies with it.
    if (lane.first != kNoSlot) driver.stream_synchronize(lane.stream);
    for (SlotIndex i = lane.first; i != kNoSlot; i = slots_[i].next) {
      driver.event_destroy(slots_[i].event);
    }
    driver.stream_destroy(lane.stream);
  }
  for (CuEvent event : spare_[device]) driver.event_destroy(event);
}

Result<CudaCopier::Lane*> CudaCopier::ready_lane(const CopyRoute& route) {
  Lane& lane = lanes_[static_cast<std::size_t>(route.device) * kCopyDirectionCount +
                      static_cast<std::size_t>(route.direction)];
  if (lane.stream != nullptr) return &lane;
  const CudaDriver& driver = devices_->driver();
  if (const CuResult rc = driver.stream_create(&lane.stream, kCuStreamNonBlocking);
      rc != kCuSuccess) {
    lane.stream = nullptr;
    return fail(cuda_error(driver, rc, "cuStreamCreate", fmt::format("cuda:{}", route.device)));
  }
  return &lane;
}

Result<CuEvent> CudaCopier::take_event(int device) {
  Events& spare = spare_[static_cast<std::size_t>(device)];
  if (!spare.empty()) {
    CuEvent event = spare.back();
    spare.pop_back();
    return event;
  }
  spare.reserve(depth_);
  CuEvent event = nullptr;
  const CudaDriver& driver = devices_->driver();
  const CuResult rc = driver.event_create(&event, kCuEventDisableTiming);
  if (rc == kCuSuccess) return event;
  return fail(cuda_error(driver, rc, "cuEventCreate", fmt::format("cuda:{}", device)));
}

Result<void> CudaCopier::start(Lane& lane, const Copy& copy, CuEvent event) {
  const CudaDriver& driver = devices_->driver();
  if (const CuResult rc =
          driver.memcpy_async(address(copy.dst), address(copy.src), copy.bytes, lane.stream);
      rc != kCuSuccess) {
    return fail(
        cuda_error(driver, rc, "cuMemcpyAsync", fmt::format("copy of {} bytes", copy.bytes)));
  }
  const CuResult rc = driver.event_record(event, lane.stream);
  if (rc == kCuSuccess) return {};
  // The copy runs and nothing will tell when it ends: wait for it, since the caller may use the
  // memory as soon as it has the error.
  driver.stream_synchronize(lane.stream);
  return fail(cuda_error(driver, rc, "cuEventRecord", fmt::format("copy of {} bytes", copy.bytes)));
}

Result<void> CudaCopier::submit(const Copy& copy) {
  LARDER_TRY(check_copy(copy));
  LARDER_ASSIGN(const std::optional<Location> dst, devices_->locate(copy.dst, copy.bytes));
  LARDER_ASSIGN(const std::optional<Location> src, devices_->locate(copy.src, copy.bytes));
  LARDER_ASSIGN(const CopyRoute route, derive_route(dst, src, "cuda"));
  if (outstanding() >= depth_) return fail(copier_full(depth_));
  LARDER_ASSIGN(const CudaScope scope, CudaScope::enter(*devices_, route.device));
  LARDER_ASSIGN(Lane * lane, ready_lane(route));
  LARDER_ASSIGN(const CuEvent event, take_event(route.device));
  if (auto started = start(*lane, copy, event); !started) {
    spare_[static_cast<std::size_t>(route.device)].push_back(event);
    return started;
  }
  append(*lane, copy, event);
  return {};
}

void CudaCopier::append(Lane& lane, const Copy& copy, CuEvent event) noexcept {
  const SlotIndex slot = std::exchange(free_, slots_[free_].next);
  slots_[slot] = {copy.tag, copy.bytes, event, kNoSlot};
  (lane.last == kNoSlot ? lane.first : slots_[lane.last].next) = slot;
  lane.last = slot;
  ++in_flight_;
}

void CudaCopier::pop_front(std::size_t index) noexcept {
  Lane& lane = lanes_[index];
  const SlotIndex slot = lane.first;
  spare_[device_of(index)].push_back(slots_[slot].event);
  lane.first = std::exchange(slots_[slot].next, free_);
  if (lane.first == kNoSlot) lane.last = kNoSlot;
  free_ = slot;
  --in_flight_;
}

std::size_t CudaCopier::reap_lane(std::size_t index, std::span<CopyDone> done) {
  const CudaDriver& driver = devices_->driver();
  Lane& lane = lanes_[index];
  std::size_t n = 0;
  while (n < done.size() && lane.first != kNoSlot) {
    const Flight& flight = slots_[lane.first];
    const CuResult rc = driver.event_query(flight.event);
    if (rc == kCuNotReady) break;
    done[n] = {flight.tag, flight.bytes, {}};
    if (rc != kCuSuccess) {
      // Not to know is not to be done: this returns when the copy is, or when the context is dead.
      driver.stream_synchronize(lane.stream);
      done[n].result = fail(
          cuda_error(driver, rc, "cuEventQuery", fmt::format("copy of {} bytes", flight.bytes)));
    }
    ++n;
    pop_front(index);
  }
  return n;
}

std::size_t CudaCopier::reap(std::span<CopyDone> done) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < lanes_.size() && n < done.size() && in_flight_ > 0; ++i) {
    const std::size_t lane = (first_lane_ + i) % lanes_.size();
    if (lanes_[lane].first == kNoSlot) continue;
    // A query needs no current context by the book; where it cannot be had, the query tells.
    const auto scope = CudaScope::enter(*devices_, static_cast<int>(device_of(lane)));
    n += reap_lane(lane, done.subspan(n));
  }
  first_lane_ = (first_lane_ + 1) % lanes_.size();
  return n;
}

std::size_t CudaCopier::poll(std::span<CopyDone> done) {
  const std::size_t n = done_.take(done);
  return n + reap(done.subspan(n));
}

std::size_t CudaCopier::wait(std::span<CopyDone> done, env::Nanos deadline) {
  if (done.empty()) return 0;
  Pause pause(devices_->clock(), deadline);
  for (;;) {
    const std::size_t n = poll(done);
    if (n > 0 || in_flight_ == 0 || !pause.next()) return n;
  }
}

Result<void> CudaCopier::quiesce(env::Nanos deadline) {
  Pause pause(devices_->clock(), deadline);
  std::array<CopyDone, 16> ended;
  while (in_flight_ > 0) {
    const std::size_t n = reap(ended);
    for (std::size_t i = 0; i < n; ++i) done_.push(std::move(ended[i]));
    if (n == 0 && !pause.next()) return fail(copies_remain(in_flight_));
  }
  return {};
}

}  // namespace larder::platform
