// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "platform/copy_engine.h"
#include "platform/copy_route.h"
#include "platform/cuda_devices.h"
#include "platform/done_ring.h"

namespace larder::platform {

// One stream for each direction of each device that is used, made when it is first needed; one
// event behind each copy says that it has ended.
class CudaCopier final : public CopyEngine {
 public:
  CudaCopier(std::shared_ptr<CudaDevices> devices, std::size_t depth);
  ~CudaCopier() override;

  Result<void> submit(const Copy& copy) override;
  std::size_t poll(std::span<CopyDone> done) override;
  std::size_t wait(std::span<CopyDone> done, env::Nanos deadline) override;
  Result<void> quiesce(env::Nanos deadline) override;
  std::size_t in_flight() const noexcept override { return in_flight_; }
  std::size_t outstanding() const noexcept override { return in_flight_ + done_.size(); }

 private:
  using SlotIndex = std::uint32_t;
  static constexpr SlotIndex kNoSlot = UINT32_MAX;
  struct Flight {
    std::uint64_t tag = 0;
    std::uint64_t bytes = 0;
    CuEvent event = nullptr;
    SlotIndex next = kNoSlot;  // of the same lane, or of the free ones
  };
  struct Lane {
    CuStream stream = nullptr;
    SlotIndex first = kNoSlot;  // copies end in the order of the list
    SlotIndex last = kNoSlot;
  };
  using Events = std::vector<CuEvent>;  // of one device, not in use

  static std::size_t device_of(std::size_t lane) noexcept { return lane / kCopyDirectionCount; }
  Result<Lane*> ready_lane(const CopyRoute& route);
  Result<CuEvent> take_event(int device);
  void append(Lane& lane, const Copy& copy, CuEvent event) noexcept;
  void pop_front(std::size_t lane) noexcept;
  Result<void> start(Lane& lane, const Copy& copy, CuEvent event);
  std::size_t reap(std::span<CopyDone> done);
  std::size_t reap_lane(std::size_t lane, std::span<CopyDone> done);
  void close_device(std::size_t device) noexcept;

  const std::shared_ptr<CudaDevices> devices_;
  const std::size_t depth_;
  std::vector<Flight> slots_;  // `depth` of them: submitting allocates nothing
  SlotIndex free_ = kNoSlot;
  std::vector<Lane> lanes_;     // kCopyDirectionCount for each device
  std::vector<Events> spare_;   // for each device
  std::size_t first_lane_ = 0;  // whose turn it is to be asked first
  std::size_t in_flight_ = 0;
  DoneRing done_;  // ended in quiesce()
};

}  // namespace larder::platform
