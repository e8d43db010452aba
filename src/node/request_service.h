// SPDX-License-Identifier: Apache-2.0
// The node's side of every operation in wire::Op.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "node/device_calls.h"
#include "node/store_core.h"
#include "rpc/service.h"

namespace larder::node {

class RequestService final : public rpc::Service {
 public:
  explicit RequestService(StoreCore& core) : core_(core) {}
  std::unique_ptr<rpc::Session> open_session(const rpc::Peer& peer) override;
  std::vector<int> shared_descriptors() override;
  Result<std::pair<std::uint64_t, std::shared_ptr<void>>> adopt_buffer(
      env::Fd fd, std::uint64_t bytes) override;

 private:
  StoreCore& core_;
  DeviceCalls device_calls_{core_};
};

}  // namespace larder::node
