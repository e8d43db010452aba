// SPDX-License-Identifier: Apache-2.0
#include "client/ops_devices.h"

#include "client/core.h"
#include "client/ops_meta.h"
#include "larder.pb.h"
#include "wire/message.h"

namespace larder::client {
namespace {

DeviceInfo info_of(const pb::Device& device) {
  DeviceInfo info;
  info.id = device.id();
  info.path = device.path();
  info.state = device.state();
  info.capacity_bytes = device.capacity_bytes();
  info.used_bytes = device.used_bytes();
  info.records = device.records();
  info.errors = device.errors();
  info.last_error = device.last_error();
  return info;
}

}  // namespace

Result<Question> DevicesOp::ask(Lane& lane) {
  pb::DevicesRequest request;
  request.set_action(wire::kDevicesList);
  if (change_ != nullptr) {
    if (change_->device.empty() || change_->device.size() > wire::kDeviceNameBytesMax) {
      return fail(Code::kInvalidArgument, "a device's path or id has 1 to " +
                                              std::to_string(wire::kDeviceNameBytesMax) + " bytes");
    }
    request.set_action(static_cast<std::uint32_t>(change_->action));
    request.set_device(change_->device);
    request.set_size(change_->size_bytes);
  }
  Question question;
  question.op = wire::Op::kDevices;
  question.frame = wire::frame_with(request);
  return question;
}

Result<rpc::PayloadSink*> DevicesOp::on_answer(const wire::FrameHeader& header,
                                               std::string_view body) {
  LARDER_TRY(check_reply(header, body));
  pb::DevicesReply reply;
  LARDER_TRY(wire::parse_body(body, wire::Op::kDevices, reply));
  const bool one = change_ != nullptr && change_->action != DeviceAction::kRemove;
  if (one && reply.devices_size() != 1) {
    return fail(Code::kCorrupt, "the node's devices answer is malformed");
  }
  for (const pb::Device& device : reply.devices()) devices_.push_back(info_of(device));
  answered_ = true;
  return nullptr;
}

}  // namespace larder::client
