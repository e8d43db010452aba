// SPDX-License-Identifier: Apache-2.0
#include "nvmf/spdk/device.h"

#include "nvmf/spdk/queue.h"
#include "nvmf/spdk/state.h"

namespace larder::nvmf {

SpdkDevice::SpdkDevice(std::shared_ptr<SpdkState> state)
    : BlockDevice(state->books()), state_(std::move(state)) {}

Result<std::shared_ptr<SpdkDevice>> SpdkDevice::open(const SpdkDeviceOptions& options) {
  LARDER_ASSIGN(auto state, SpdkState::open(options));
  return std::shared_ptr<SpdkDevice>(new SpdkDevice(std::move(state)));
}

bool SpdkDevice::add_buffer(std::span<std::byte> memory) {
  return state_->options().transport != SpdkTransport::kTcp && state_->memory().add(memory);
}

void SpdkDevice::remove_buffer(std::span<std::byte> memory) {
  state_->memory().remove(memory);
}

Result<std::unique_ptr<block::BlockQueue>> SpdkDevice::make_queue(std::size_t depth) {
  LARDER_ASSIGN(auto channel, state_->enter());
  return std::unique_ptr<block::BlockQueue>(
      std::make_unique<SpdkQueue>(state_, std::move(channel), depth));
}

NvmeStats SpdkDevice::nvme_stats() const {
  return state_->counters().read();
}

std::uint32_t SpdkDevice::nsid() const noexcept {
  return state_->nsid();
}

}  // namespace larder::nvmf
