// SPDX-License-Identifier: Apache-2.0
// devices: an operator's requests are checked here and run by DeviceCalls.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/units.h"
#include "node/device_calls.h"
#include "node/device_control.h"
#include "node/session.h"
#include "wire/message.h"

namespace larder::node {
namespace {

bool is_path(std::string_view text) noexcept {
  return text.starts_with('/') && text.size() <= wire::kDeviceNameBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           const auto byte = static_cast<unsigned char>(c);
           return byte >= 0x20 && byte != 0x7F;
         });
}

Result<DeviceCall> read_call(const pb::DevicesRequest& request) {
  DeviceCall call;
  if (request.action() == wire::kDevicesList) return call;
  if (request.action() > static_cast<std::uint32_t>(DeviceAction::kRemove)) {
    return fail(Code::kUnsupported, "this node does not know action " +
                                        std::to_string(request.action()) + " on devices");
  }
  call.action = static_cast<DeviceAction>(request.action());
  call.device = request.device();
  call.size = request.size();
  if (*call.action == DeviceAction::kAdd) {
    if (is_path(call.device)) return call;
    return fail(Code::kInvalidArgument, "a device is added by its absolute path, of at most " +
                                            std::to_string(wire::kDeviceNameBytesMax) +
                                            " bytes; got " + base::quoted(call.device));
  }
  if (tier::is_device_id(call.device)) return call;
  return fail(Code::kInvalidArgument,
              base::quoted(call.device) + " is not a device's id; see larder device ls");
}

}  // namespace

Result<rpc::Intake> NodeSession::devices(std::string_view body) {
  pb::DevicesRequest request;
  LARDER_TRY(wire::parse_body(body, wire::Op::kDevices, request));
  if (!may_change_devices_) {
    return fail(Code::kPermissionDenied,
                "devices are shown and changed over the node's Unix socket, or over TCP by who "
                "knows its cluster token; this node has none");
  }
  LARDER_ASSIGN(DeviceCall call, read_call(request));
  if (core_.devices == nullptr) {
    return fail(Code::kUnsupported, "this node has no disks; start it with --disk");
  }
  rpc::Intake intake;
  intake.later = [this, call = std::move(call)](rpc::Responder responder) {
    device_calls_.submit(call, std::move(responder));
  };
  return intake;
}

}  // namespace larder::node
