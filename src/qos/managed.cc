// SPDX-License-Identifier: Apache-2.0
#include "qos/managed.h"

#include <string>
#include <utility>

#include "env/clock.h"

namespace larder::qos {

Purpose purpose_of(std::uint8_t intent, std::uint8_t traffic_class) noexcept {
  Purpose purpose;
  if (intent < kIntentCount) purpose.intent = static_cast<Intent>(intent);
  const auto said = static_cast<TrafficClass>(traffic_class);
  const bool known = said == TrafficClass::kHigh || said == TrafficClass::kLow;
  purpose.traffic_class = known ? said : class_of(purpose.intent);
  return purpose;
}

ManagedTransfers::Transfer::Transfer(ManagedTransfers& books, const Label& label)
    : books_(&books), label_(label), begun_(env::monotonic_now()) {
  books_->telemetry_.in_flight(label_, 1);
}

ManagedTransfers::Transfer::Transfer(Transfer&& other) noexcept
    : books_(std::exchange(other.books_, nullptr)), label_(other.label_), begun_(other.begun_) {}

ManagedTransfers::Transfer& ManagedTransfers::Transfer::operator=(Transfer&& other) noexcept {
  if (this == &other) return *this;
  end(Outcome::kFailed);
  books_ = std::exchange(other.books_, nullptr);
  label_ = other.label_;
  begun_ = other.begun_;
  return *this;
}

void ManagedTransfers::Transfer::completed(std::uint64_t requests, std::uint64_t bytes) {
  if (books_ == nullptr) return;
  Telemetry& telemetry = std::exchange(books_, nullptr)->telemetry_;
  telemetry.completed(label_, requests, bytes);
  telemetry.took(label_, 0, env::monotonic_now() - begun_);
  telemetry.in_flight(label_, -1);
}

void ManagedTransfers::Transfer::end(Outcome outcome) noexcept {
  if (books_ == nullptr) return;
  Telemetry& telemetry = std::exchange(books_, nullptr)->telemetry_;
  telemetry.failed(label_, outcome, 1);
  telemetry.in_flight(label_, -1);
}

void ManagedTransfers::completed(const Label& label, std::uint64_t requests, std::uint64_t bytes) {
  telemetry_.completed(label, requests, bytes);
}

void ManagedTransfers::failed(const Label& label, std::uint64_t requests) {
  telemetry_.failed(label, Outcome::kFailed, requests);
}

Result<obs::CallbackHandle> ManagedTransfers::export_unmanaged(
    std::string_view path, Resource resource, std::function<std::uint64_t()> moved) {
  const std::atomic<std::uint64_t>& known = known_[static_cast<std::size_t>(resource)];
  return registry().callback(
      "larder_unmanaged_transfer_bytes",
      "Bytes that moved without the transfer engine's books knowing why.",
      [&known, moved = std::move(moved)] {
        // In this order: what moves in between, and is known, must not look unknown.
        const std::uint64_t all = moved();
        const std::uint64_t booked = known.load(std::memory_order_acquire);
        return all > booked ? static_cast<double>(all - booked) : 0.0;
      },
      {{"path", std::string(path)}, {"resource", std::string(resource_name(resource))}});
}

Result<std::array<obs::CallbackHandle, 2>> ManagedTransfers::export_unmanaged_payload(
    std::string_view path, const std::atomic<std::uint64_t>& in,
    const std::atomic<std::uint64_t>& out) {
  const auto read = [](const std::atomic<std::uint64_t>& moved) {
    return [&moved] { return moved.load(std::memory_order_relaxed); };
  };
  LARDER_ASSIGN(obs::CallbackHandle received, export_unmanaged(path, Resource::kNicRx, read(in)));
  LARDER_ASSIGN(obs::CallbackHandle sent, export_unmanaged(path, Resource::kNicTx, read(out)));
  return std::array<obs::CallbackHandle, 2>{std::move(received), std::move(sent)};
}

}  // namespace larder::qos
