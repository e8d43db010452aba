// SPDX-License-Identifier: Apache-2.0
#include "meta/records.h"

#include <algorithm>

namespace larder::meta {
namespace {

std::string limit_text(std::string_view what, std::size_t got, std::size_t max) {
  return std::string(what) + " has " + std::to_string(got) + " bytes: must be 1 to " +
         std::to_string(max);
}

Result<void> check_text(std::string_view what, std::string_view text, std::size_t max) {
  if (text.empty() || text.size() > max) {
    return fail(Code::kInvalidArgument, limit_text(what, text.size(), max));
  }
  // Names end up in logs and in the keys of other stores: control bytes would confuse both.
  const bool clean = std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7F;
  });
  if (clean) return {};
  return fail(Code::kInvalidArgument, std::string(what) + " holds a control character");
}

}  // namespace

std::string_view state_name(NodeState state) noexcept {
  switch (state) {
    case NodeState::kStandby:
      return "standby";
    case NodeState::kActive:
      return "active";
    case NodeState::kDraining:
      return "draining";
    case NodeState::kSealed:
      return "sealed";
    case NodeState::kOffline:
      return "offline";
  }
  return "unknown";
}

Result<void> validate_name(std::string_view what, std::string_view name) {
  return check_text(what, name, kNameBytesMax);
}

Result<void> validate_record(std::string_view what, std::string_view key, std::string_view value) {
  LARDER_TRY(check_text(std::string(what) + " key", key, kNameBytesMax));
  if (value.size() <= kRecordBytesMax) return {};
  return fail(Code::kTooLarge, std::string(what) + " '" + std::string(key) + "' has " +
                                   std::to_string(value.size()) + " bytes, at most " +
                                   std::to_string(kRecordBytesMax) + " are kept");
}

Result<void> validate_lease(const Lease& lease) {
  LARDER_TRY(validate_name("stable id", lease.stable_id));
  if (lease.epoch > kEpochMax) return fail(Code::kInvalidArgument, "epoch is beyond 2^63 - 1");
  if (state_name(lease.state) == "unknown") {
    return fail(Code::kInvalidArgument, "lease has an unknown state");
  }
  if (lease.endpoints.size() > kEndpointsMax || lease.labels.size() > kLabelsMax) {
    return fail(Code::kInvalidArgument, "lease has more than " + std::to_string(kEndpointsMax) +
                                            " endpoints or " + std::to_string(kLabelsMax) +
                                            " labels");
  }
  for (const std::string& endpoint : lease.endpoints) {
    LARDER_TRY(check_text("endpoint", endpoint, kEndpointBytesMax));
  }
  for (const auto& [key, value] : lease.labels) {
    LARDER_TRY(check_text("label key", key, kLabelKeyBytesMax));
    if (!value.empty()) LARDER_TRY(check_text("label value", value, kLabelValueBytesMax));
  }
  return {};
}

Result<void> validate_times(Micros now, Micros ttl) {
  if (now < 0 || now > kTimeMax) {
    return fail(Code::kInvalidArgument, "time " + std::to_string(now) + " us is out of range");
  }
  if (ttl >= kTtlMin && ttl <= kTtlMax) return {};
  return fail(Code::kInvalidArgument, "lease of " + std::to_string(ttl) + " us: must be " +
                                          std::to_string(kTtlMin) + " to " +
                                          std::to_string(kTtlMax));
}

}  // namespace larder::meta
