// SPDX-License-Identifier: Apache-2.0
#include "qos/telemetry.h"

#include <string>

namespace larder::qos {
namespace {

std::size_t dense(TransportType type) noexcept {
  switch (type) {
    case TransportType::kShm:
      return 1;
    case TransportType::kGds:
      return 2;
    case TransportType::kIoUring:
      return 3;
    case TransportType::kTcp:
      return 4;
    case TransportType::kNds:
      return 5;
    case TransportType::kMemcpy:
      return 6;
    case TransportType::kNvmeTcp:
      return 7;
    case TransportType::kUnspecified:
      break;
  }
  return 0;
}

std::string_view direction(Opcode opcode) noexcept {
  return opcode == Opcode::kRead ? "read" : "write";
}

}  // namespace

Telemetry::Telemetry(obs::Registry* registry)
    : own_(registry == nullptr ? std::make_unique<obs::Registry>() : nullptr),
      registry_(registry == nullptr ? own_.get() : registry) {}

Telemetry::Series* Telemetry::series(const Label& label) {
  if (detached_.load(std::memory_order_relaxed)) return nullptr;
  const std::size_t intent =
      std::min<std::size_t>(static_cast<std::size_t>(label.intent), kIntentCount - 1);
  std::size_t at = dense(label.transport);
  at = at * 2 + (label.traffic_class == TrafficClass::kHigh ? 1 : 0);
  at = at * kIntentCount + intent;
  at = at * 2 + (label.opcode == Opcode::kWrite ? 1 : 0);  // refused requests may say anything
  if (Series* const known = series_[at].load(std::memory_order_acquire)) return known;
  const std::lock_guard lock(mutex_);
  if (Series* const known = series_[at].load(std::memory_order_relaxed)) return known;
  made_.push_back(make_series(label));
  series_[at].store(made_.back().get(), std::memory_order_release);
  return made_.back().get();
}

std::unique_ptr<Telemetry::Series> Telemetry::make_series(const Label& label) {
  const obs::Labels labels = {{"transport", std::string(transport_name(label.transport))},
                              {"class", std::string(class_name(label.traffic_class))},
                              {"intent", std::string(intent_name(label.intent))},
                              {"direction", std::string(direction(label.opcode))}};
  auto series = std::make_unique<Series>();
  series->requests =
      registry_->counter("larder_transfer_requests_total", "Requests that completed.", labels)
          .value_or(&spare_);
  series->bytes =
      registry_->counter("larder_transfer_bytes_total", "Bytes of requests that completed.", labels)
          .value_or(&spare_);
  for (const Outcome outcome : {Outcome::kFailed, Outcome::kCancelled, Outcome::kTimedOut}) {
    obs::Labels with = labels;
    with.emplace_back("outcome", std::string(outcome_name(outcome)));
    series->ended[static_cast<std::size_t>(outcome)] =
        registry_
            ->counter("larder_transfer_failures_total", "Requests that did not complete.", with)
            .value_or(&spare_);
  }
  series->wait = registry_
                     ->histogram("larder_transfer_wait_seconds",
                                 "From submit to the first piece with a transport.", labels)
                     .value_or(&spare_histogram_);
  series->total =
      registry_->histogram("larder_transfer_seconds", "From submit to quiescence.", labels)
          .value_or(&spare_histogram_);
  series->in_flight = registry_
                          ->gauge("larder_transfer_in_flight",
                                  "Requests that a transport has at the moment.", labels)
                          .value_or(&spare_gauge_);
  return series;
}

void Telemetry::completed(const Label& label, std::uint64_t requests, std::uint64_t bytes) {
  Series* const to = series(label);
  if (to == nullptr) return;
  to->requests->add(requests);
  to->bytes->add(bytes);
}

void Telemetry::failed(const Label& label, Outcome outcome, std::uint64_t requests) {
  Series* const to = series(label);
  if (to == nullptr) return;
  obs::Counter* const counter = to->ended[static_cast<std::size_t>(outcome)];
  if (counter != nullptr) counter->add(requests);
}

void Telemetry::took(const Label& label, std::int64_t waited, std::int64_t total) {
  Series* const to = series(label);
  if (to == nullptr) return;
  to->wait->record(std::chrono::nanoseconds(waited));
  to->total->record(std::chrono::nanoseconds(total));
}

void Telemetry::in_flight(const Label& label, std::int64_t requests) {
  Series* const to = series(label);
  if (to != nullptr) to->in_flight->add(requests);
}

void Telemetry::failed_over(TransportType from) {
  if (detached_.load(std::memory_order_relaxed)) return;
  const auto counter =
      registry_->counter("larder_transfer_failovers_total",
                         "Jobs that went on with another transport, by the one that failed.",
                         {{"transport", std::string(transport_name(from))}});
  if (counter) (*counter)->add();
}

void Telemetry::notification_lost(const Error& error) {
  if (detached_.load(std::memory_order_relaxed)) return;
  const auto counter =
      registry_->counter("larder_transfer_notifications_lost_total",
                         "Notifications after a transfer that the peer did not take.",
                         {{"code", std::string(code_name(error.code()))}});
  if (counter) (*counter)->add();
}

}  // namespace larder::qos
