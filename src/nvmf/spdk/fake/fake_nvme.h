// SPDX-License-Identifier: Apache-2.0
// What the driver of the stand-in consists of: one controller, its namespace, its queue pairs.
#pragma once

#include <spdk/nvme.h>

#include <atomic>
#include <deque>
#include <set>

#include "nvmf/spdk/fake/fake_spdk.h"

struct spdk_nvme_ns {
  spdk_nvme_ctrlr* ctrlr = nullptr;
  spdk_nvme_ns_data data;
  spdk_uuid uuid;
};

struct spdk_nvme_ctrlr {
  bool failed = false;
  int references = 1;
  spdk_nvme_ctrlr_opts opts;
  spdk_nvme_ctrlr_data data;
  spdk_nvme_ns ns;
  spdk_nvme_aer_cb aer = nullptr;
  void* aer_arg = nullptr;
  std::set<spdk_nvme_qpair*> pairs;
};

namespace larder::nvmf {

struct FakeCommand {
  FakeKind kind = FakeKind::kRead;
  std::uint64_t lba = 0;
  std::uint32_t blocks = 0;
  spdk_nvme_cmd_cb done = nullptr;
  void* arg = nullptr;
  spdk_nvme_req_reset_sgl_cb rewind = nullptr;
  spdk_nvme_req_next_sge_cb next = nullptr;
};

}  // namespace larder::nvmf

struct spdk_nvme_qpair {
  spdk_nvme_ctrlr* ctrlr = nullptr;
  std::atomic<int> users{0};
  std::deque<larder::nvmf::FakeCommand> commands;
};
