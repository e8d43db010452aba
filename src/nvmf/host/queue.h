// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "block/block_device.h"
#include "nvmf/host/state.h"

namespace larder::nvmf {

// One I/O queue. kExhausted: no memory, or as NvmeState::enter().
Result<std::unique_ptr<block::BlockQueue>> make_nvme_queue(std::shared_ptr<NvmeState> state,
                                                           std::size_t depth);

}  // namespace larder::nvmf
