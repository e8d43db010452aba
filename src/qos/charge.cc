// SPDX-License-Identifier: Apache-2.0
#include "qos/charge.h"

namespace larder::qos {
namespace {

constexpr std::array<std::string_view, kStageCount> kStageNames = {
    "device_to_host", "host_to_device",    "host_to_peer",      "peer_to_host",
    "host_to_file",   "file_to_host",      "host_to_host",      "file_to_device",
    "device_to_file", "host_to_namespace", "namespace_to_host",
};

Stage host_stage(FarSide far_side, bool outbound) noexcept {
  switch (far_side) {
    case FarSide::kPeerMemory:
      return outbound ? Stage::kHostToPeer : Stage::kPeerToHost;
    case FarSide::kFile:
      return outbound ? Stage::kHostToFile : Stage::kFileToHost;
    case FarSide::kHostMemory:
      break;
  }
  return Stage::kHostToHost;
}

}  // namespace

std::string ChargeVector::to_string() const {
  std::string out;
  for_each([&out](Resource resource, std::uint64_t bytes) {
    if (!out.empty()) out += ',';
    out.append(resource_name(resource)).append("=").append(std::to_string(bytes));
  });
  return out.empty() ? "none" : out;
}

std::string_view stage_name(Stage stage) noexcept {
  const auto number = static_cast<std::size_t>(stage);
  return number < kStageCount ? kStageNames[number] : "unknown";
}

std::string ChargePlan::to_string() const {
  std::string out;
  for (const Stage stage : stages()) {
    out.append(out.empty() ? "" : ", ").append(stage_name(stage));
  }
  return out;
}

Result<ChargePlan> plan_of(const Movement& movement) {
  const auto [local, far_side, outbound, staged] = movement;
  const Stage from_host = host_stage(far_side, outbound);
  if (local == MemoryType::kCpu) {
    if (!staged) return ChargePlan(from_host);
    return fail(Code::kInvalidArgument, "host memory needs no staging: ask for a direct plan");
  }
  if (!is_device_memory(local)) {
    return fail(Code::kInvalidArgument, "the kind of the local memory is unknown: find it first");
  }
  if (staged) {
    return outbound ? ChargePlan(Stage::kDeviceToHost, from_host)
                    : ChargePlan(from_host, Stage::kHostToDevice);
  }
  switch (far_side) {
    case FarSide::kFile:
      return ChargePlan(outbound ? Stage::kDeviceToFile : Stage::kFileToDevice);
    case FarSide::kHostMemory:
      return ChargePlan(outbound ? Stage::kDeviceToHost : Stage::kHostToDevice);
    case FarSide::kPeerMemory:
      break;
  }
  return fail(Code::kUnsupported, "device memory reaches a peer through host memory: stage it");
}

}  // namespace larder::qos
