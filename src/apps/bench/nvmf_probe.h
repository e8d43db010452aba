// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "apps/bench/nvmf_case.h"
#include "apps/bench/probe.h"
#include "block/block_device.h"

namespace larder::apps {

// Operations of the case on one queue of the device, at walked places, from and to walked places of
// `memory`. The device and the memory outlive it.
Result<ProbePtr> make_nvmf_probe(const NvmfCase& name, block::BlockDevice& device,
                                 std::span<std::byte> memory);

// Counts what a probe's rounds take of the cores: of this process and of another one.
struct CpuUse {
  env::Nanos here = 0;
  env::Nanos there = 0;
  std::uint64_t bytes = 0;
};
// `use` outlives it.
ProbePtr with_cpu(ProbePtr probe, pid_t other, CpuUse& use);

}  // namespace larder::apps
