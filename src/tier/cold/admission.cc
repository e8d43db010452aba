// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace larder::tier {
namespace {

constexpr std::uint64_t kUnit = 1'000'000'000;  // of a token, and nanoseconds of a second
constexpr std::uint64_t kBytesBurstMin = 1U << 20U;
constexpr std::uint32_t kDevicesMax = 4096;

std::uint64_t burst_of(std::uint64_t burst, std::uint64_t per_s, std::uint64_t least) noexcept {
  return burst != 0 ? burst : std::max(per_s / 10, least);
}

Result<void> check(const AdmissionLimits& limits, std::string_view whose) {
  const auto most = std::max({limits.ops_per_s, limits.ops_burst, limits.bytes_per_s,
                              limits.bytes_burst, limits.ops_in_flight, limits.bytes_in_flight});
  if (most <= TokenBucket::kMax) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("limits of the {}: {} is more than 2^50; 0 is no limit", whose, most));
}

env::Nanos later(env::Nanos now, env::Nanos wait) noexcept {
  return now > kAfterEnd - 1 - wait ? kAfterEnd - 1 : now + wait;
}

}  // namespace

std::string_view refusal_name(Refusal why) noexcept {
  switch (why) {
    case Refusal::kNone:
      return "none";
    case Refusal::kPaused:
      return "paused";
    case Refusal::kProbing:
      return "probing";
    case Refusal::kInFlight:
      return "in_flight";
    case Refusal::kRate:
      return "rate";
    case Refusal::kNoDevice:
      return "no_device";
  }
  return "unknown";
}

// ---- tokens ----

// A clock that steps back pays nothing off and takes nothing back.
TokenBucket::Wide TokenBucket::owed(env::Nanos now) const noexcept {
  if (now <= at_) return owed_;
  const auto passed = static_cast<std::uint64_t>(now) - static_cast<std::uint64_t>(at_);
  const Wide paid = Wide{passed} * rate_;
  return owed_ > paid ? owed_ - paid : 0;
}

env::Nanos TokenBucket::wait_for(std::uint64_t tokens, env::Nanos now) const noexcept {
  if (rate_ == 0) return 0;
  const Wide owing = owed(now);
  const Wide allowed = tokens < burst_ ? Wide{burst_ - tokens} * kUnit : 0;
  if (owing <= allowed) return 0;
  const Wide wait = (owing - allowed + rate_ - 1) / rate_;
  constexpr auto kMost = static_cast<std::uint64_t>(kAfterEnd - 1);
  return static_cast<env::Nanos>(wait < kMost ? static_cast<std::uint64_t>(wait) : kMost);
}

void TokenBucket::take(std::uint64_t tokens, env::Nanos now) noexcept {
  if (rate_ == 0) return;
  owed_ = owed(now) + Wide{tokens} * kUnit;
  at_ = std::max(at_, now);
}

void TokenBucket::give_back(std::uint64_t tokens, env::Nanos now) noexcept {
  if (rate_ == 0) return;
  const Wide owing = owed(now);
  const Wide given = Wide{tokens} * kUnit;
  owed_ = owing > given ? owing - given : 0;
  at_ = std::max(at_, now);
}

std::uint64_t TokenBucket::available(env::Nanos now) const noexcept {
  if (rate_ == 0) return burst_;
  const Wide full = Wide{burst_} * kUnit;
  const Wide owing = owed(now);
  return owing < full ? static_cast<std::uint64_t>((full - owing) / kUnit) : 0;
}

// ---- gates ----

Admission::Gate Admission::make_gate(const AdmissionLimits& limits) noexcept {
  return {limits,
          TokenBucket(limits.ops_per_s, burst_of(limits.ops_burst, limits.ops_per_s, 1)),
          TokenBucket(limits.bytes_per_s,
                      burst_of(limits.bytes_burst, limits.bytes_per_s, kBytesBurstMin)),
          {}};
}

bool Admission::has_room(const Gate& gate, std::uint64_t bytes) noexcept {
  const AdmissionLimits& limits = gate.limits;
  const AdmissionCounts& counts = gate.counts;
  if (limits.ops_in_flight != 0 && counts.ops_in_flight >= limits.ops_in_flight) return false;
  if (limits.bytes_in_flight == 0 || counts.ops_in_flight == 0) return true;
  return counts.bytes_in_flight < limits.bytes_in_flight &&
         bytes <= limits.bytes_in_flight - counts.bytes_in_flight;
}

env::Nanos Admission::wait_for(const Gate& gate, std::uint64_t bytes, env::Nanos now) noexcept {
  return std::max(gate.ops.wait_for(1, now), gate.bytes.wait_for(bytes, now));
}

void Admission::begin(Gate& gate, std::uint64_t bytes, env::Nanos now) noexcept {
  gate.ops.take(1, now);
  gate.bytes.take(bytes, now);
  ++gate.counts.ops_in_flight;
  gate.counts.bytes_in_flight += bytes;
  ++gate.counts.begun;
}

// ---- admission ----

Result<Admission> Admission::create(const AdmissionOptions& options) {
  LARDER_TRY(check(options.node, "node"));
  LARDER_TRY(check(options.device, "device"));
  if (options.devices_max == 0 || options.devices_max > kDevicesMax) {
    return fail(Code::kInvalidArgument, fmt::format("devices_max {} must be from 1 to {}",
                                                    options.devices_max, kDevicesMax));
  }
  if (options.pause < 0) return fail(Code::kInvalidArgument, "pause must not be negative");
  Admission made;
  made.options_ = options;
  made.node_ = make_gate(options.node);
  try {
    made.devices_.resize(options.devices_max);
  } catch (const std::exception&) {
    return fail(Code::kExhausted, "no memory for the admission of devices");
  }
  for (Device& device : made.devices_) device.gate = make_gate(options.device);
  return made;
}

Admitted Admission::look(const Device& device, std::uint64_t bytes, env::Nanos now) const noexcept {
  if (device.probing) return {Refusal::kProbing, kAfterEnd};
  if (device.paused && now < device.paused_until) return {Refusal::kPaused, device.paused_until};
  if (!has_room(node_, bytes) || !has_room(device.gate, bytes)) {
    return {Refusal::kInFlight, kAfterEnd};
  }
  const env::Nanos wait = std::max(wait_for(node_, bytes, now), wait_for(device.gate, bytes, now));
  if (wait > 0) return {Refusal::kRate, later(now, wait)};
  return {};
}

Admitted Admission::try_begin(std::uint32_t device, std::uint64_t bytes, env::Nanos now) noexcept {
  if (device >= devices_.size()) return {Refusal::kNoDevice, kAfterEnd};
  Device& chosen = devices_[device];
  bytes = std::min(bytes, TokenBucket::kMax);
  const Admitted answer = look(chosen, bytes, now);
  if (!answer.ok()) {
    ++node_.counts.refused;
    ++chosen.gate.counts.refused;
    return answer;
  }
  begin(node_, bytes, now);
  begin(chosen.gate, bytes, now);
  chosen.probing = chosen.paused;
  return {Refusal::kNone, now};
}

bool Admission::leave(std::uint32_t device, std::uint64_t bytes) noexcept {
  if (device >= devices_.size()) return false;
  AdmissionCounts& counts = devices_[device].gate.counts;
  if (counts.ops_in_flight == 0 || counts.bytes_in_flight < bytes) return false;
  for (AdmissionCounts* side : {&counts, &node_.counts}) {
    --side->ops_in_flight;
    side->bytes_in_flight -= bytes;
  }
  return true;
}

void Admission::judge(Device& device, bool ok, env::Nanos now) noexcept {
  device.probing = false;
  if (ok) {
    device.errors = 0;
    device.paused = false;
    return;
  }
  ++device.gate.counts.errors;
  ++node_.counts.errors;
  if (device.errors < options_.errors_max) ++device.errors;
  if (options_.errors_max == 0 || device.errors < options_.errors_max) return;
  if (!device.paused || now >= device.paused_until) {
    ++device.gate.counts.pauses;
    ++node_.counts.pauses;
  }
  device.paused = true;
  device.paused_until = std::max(device.paused_until, later(now, options_.pause));
}

bool Admission::end(std::uint32_t device, std::uint64_t bytes, bool ok, env::Nanos now) noexcept {
  bytes = std::min(bytes, TokenBucket::kMax);
  if (!leave(device, bytes)) return false;
  judge(devices_[device], ok, now);
  return true;
}

bool Admission::give_back(std::uint32_t device, std::uint64_t bytes, env::Nanos now) noexcept {
  bytes = std::min(bytes, TokenBucket::kMax);
  if (!leave(device, bytes)) return false;
  Device& chosen = devices_[device];
  for (Gate* gate : {&node_, &chosen.gate}) {
    gate->ops.give_back(1, now);
    gate->bytes.give_back(bytes, now);
  }
  // It may have been the probe: let another be one.
  chosen.probing = false;
  return true;
}

void Admission::forgive(std::uint32_t device) noexcept {
  if (device >= devices_.size()) return;
  devices_[device].errors = 0;
  devices_[device].paused = devices_[device].probing = false;
}

bool Admission::is_paused(std::uint32_t device) const noexcept {
  return device < devices_.size() && devices_[device].paused;
}

AdmissionCounts Admission::device_counts(std::uint32_t device) const noexcept {
  return device < devices_.size() ? devices_[device].gate.counts : AdmissionCounts{};
}

}  // namespace larder::tier
