// SPDX-License-Identifier: Apache-2.0
// What a small target for tests says of itself.
#pragma once

#include <vector>

#include "nvmf/host/fake_connection_testing.h"
#include "nvmf/pdu/identify.h"
#include "nvmf/pdu/log_page.h"
#include "nvmf/pdu/properties.h"

namespace larder::nvmf {

inline constexpr const char* kFakeNqn = "nqn.2024-01.org.example:fake";
inline constexpr std::uint64_t kFakeBlocks = 1024;

// What a target says of itself; tests change it before it is used.
struct FakeSelf {
  FakeSelf() {
    controller.sgls = kSglsAny | kSglsOffset | kSglsTransport;
    controller.ioccsz = (64 + 8192) / 16;
    controller.iorcsz = 1;
    controller.nn = 1;
    controller.kas = 1;
    controller.oncs = kOncsDsm | kOncsWriteZeroes;
    controller.cntrltype = 1;
    ns.nsze = ns.ncap = kFakeBlocks;
    ns.formats[0].lbads = 12;
    ns.dlfeat = 9;
    ids.has_uuid = true;
    ids.uuid[15] = 1;
    icresp.maxh2cdata = 128U << 10U;
  }
  IdentifyController controller;
  IdentifyNamespace ns;
  NamespaceIds ids;
  IcResp icresp;
  Cap cap = Cap::make(128, 5000);
  std::uint32_t queues_dw0 = 7U << 16U | 7U;
  std::vector<std::uint32_t> active{1};
  bool sq_flow_off = true;
  bool ready = true;
};

}  // namespace larder::nvmf
