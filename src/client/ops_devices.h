// SPDX-License-Identifier: Apache-2.0
// An operator's calls about a node's disks.
#pragma once

#include <string_view>
#include <vector>

#include "client/op.h"

namespace larder::client {

class DevicesOp final : public Op {
 public:
  // `change` null: lists; else it outlives the operation.
  DevicesOp(ClientCore& core, const DeviceChange* change) : Op(core), change_(change) {}
  Result<bool> local_pass() override { return answered_; }
  Result<Question> ask(Lane& lane) override;
  Result<rpc::PayloadSink*> on_answer(const wire::FrameHeader& header,
                                      std::string_view body) override;
  // A change whose answer was lost may have happened.
  bool repeatable() const noexcept override { return change_ == nullptr; }
  // After a change that leaves a device: exactly one.
  std::vector<DeviceInfo>& result() noexcept { return devices_; }

 private:
  const DeviceChange* change_;
  std::vector<DeviceInfo> devices_;
  bool answered_ = false;
};

}  // namespace larder::client
