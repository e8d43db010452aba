// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nvmf/host/options.h"
#include "nvmf/spdk/environment.h"

namespace larder::nvmf {

enum class SpdkTransport : std::uint8_t {
  kTcp = 0,
  kRdma = 1,
};

struct SpdkDeviceOptions {
  // As of an NvmeDevice. connect_timeout bounds each step of connecting, not all of them together.
  NvmeDeviceOptions remote;
  SpdkTransport transport = SpdkTransport::kTcp;
  SpdkEnvironmentOptions environment = {};
  // Of each queue, where memory is not registered and the transport is RDMA: it is copied through
  // so many buffers of so many bytes (a multiple of 64 KiB).
  std::size_t bounce_buffers = 8;
  std::size_t bounce_bytes = 256U << 10U;
};

}  // namespace larder::nvmf
