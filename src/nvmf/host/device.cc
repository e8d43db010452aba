// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/device.h"

#include "nvmf/host/queue.h"
#include "nvmf/host/state.h"

namespace larder::nvmf {

NvmeDevice::NvmeDevice(std::shared_ptr<NvmeState> state)
    : BlockDevice(state->books()), state_(std::move(state)) {}

Result<std::shared_ptr<NvmeDevice>> NvmeDevice::open(const NvmeDeviceOptions& options) {
  LARDER_ASSIGN(auto state, NvmeState::open(options));
  return std::shared_ptr<NvmeDevice>(new NvmeDevice(std::move(state)));
}

Result<std::unique_ptr<block::BlockQueue>> NvmeDevice::make_queue(std::size_t depth) {
  return make_nvme_queue(state_, depth);
}

void NvmeDevice::set_witness(block::Witness witness) {
  state_->set_witness(std::move(witness));
}

NvmeStats NvmeDevice::nvme_stats() const {
  return state_->counters().read();
}

std::uint32_t NvmeDevice::nsid() const noexcept {
  return state_->nsid();
}

const ControllerFacts& NvmeDevice::controller() const noexcept {
  return state_->controller();
}

}  // namespace larder::nvmf
