// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "platform/copy_engine.h"
#include "platform/done_ring.h"
#include "platform/sim_devices.h"

namespace larder::platform {

class SimCopier final : public CopyEngine {
 public:
  SimCopier(std::shared_ptr<SimDevices> devices, std::size_t depth);
  ~SimCopier() override;

  Result<void> submit(const Copy& copy) override;
  std::size_t poll(std::span<CopyDone> done) override;
  std::size_t wait(std::span<CopyDone> done, env::Nanos deadline) override;
  Result<void> quiesce(env::Nanos deadline) override;
  std::size_t in_flight() const noexcept override { return due_.size() + lost_.size(); }
  std::size_t outstanding() const noexcept override { return in_flight() + done_.size(); }

 private:
  struct Flight {
    Copy copy;
    SimFate fate;
    std::uint64_t number = 0;            // order of submission, among copies due at the same time
    std::shared_ptr<SimBlock> dst, src;  // null: host memory
  };
  static bool later(const Flight& a, const Flight& b) noexcept;

  void put_in_flight(Flight flight) noexcept;
  Flight take_next() noexcept;
  CopyDone land(const Flight& flight);
  void pause_until(env::Nanos time) noexcept;

  const std::shared_ptr<SimDevices> devices_;
  const std::size_t depth_;
  const bool real_time_;
  std::vector<Flight> due_;   // a heap, the next one first; never grows beyond depth_
  std::vector<Flight> lost_;  // their completion does not come by itself
  DoneRing done_;             // ended in quiesce()
  std::uint64_t submitted_ = 0;
};

}  // namespace larder::platform
