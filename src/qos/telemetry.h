// SPDX-License-Identifier: Apache-2.0
// The engine's metrics (names in docs/operations.md). Series are made when first used.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "larder/transfer.h"
#include "obs/metrics.h"

namespace larder::qos {

// What the counters of a request are labelled with.
struct Label {
  TransportType transport = TransportType::kUnspecified;
  TrafficClass traffic_class = TrafficClass::kLow;
  Intent intent = Intent::kUnknown;
  Opcode opcode = Opcode::kRead;
  bool operator==(const Label&) const = default;
};

// Any thread. Two relaxed atomics per call, once a series is there.
class Telemetry {
 public:
  // `registry` null: one of its own.
  explicit Telemetry(obs::Registry* registry);

  void completed(const Label& label, std::uint64_t requests, std::uint64_t bytes);
  // Also for requests that never got a transport.
  void failed(const Label& label, Outcome outcome, std::uint64_t requests);
  // Nanoseconds from submit to the first piece, and from submit to the end.
  void took(const Label& label, std::int64_t waited, std::int64_t total);
  void in_flight(const Label& label, std::int64_t requests);
  void failed_over(TransportType from);
  void notification_lost(const Error& error);
  obs::Registry& registry() noexcept { return *registry_; }
  // Nothing is counted from now on: the registry may go.
  void detach() noexcept { detached_.store(true, std::memory_order_relaxed); }

 private:
  struct Series {
    obs::Counter* requests = nullptr;
    obs::Counter* bytes = nullptr;
    std::array<obs::Counter*, 5> ended{};  // by Outcome
    obs::Histogram* wait = nullptr;
    obs::Histogram* total = nullptr;
    obs::Gauge* in_flight = nullptr;
  };
  static constexpr std::size_t kTransports = 8;
  static constexpr std::size_t kSeries = kTransports * 2 * kIntentCount * 2;

  // Null once detached.
  Series* series(const Label& label);
  std::unique_ptr<Series> make_series(const Label& label);

  std::atomic<bool> detached_{false};
  std::unique_ptr<obs::Registry> own_;
  obs::Registry* registry_;
  std::array<std::atomic<Series*>, kSeries> series_{};
  std::mutex mutex_;  // making series
  std::vector<std::unique_ptr<Series>> made_;
  obs::Counter spare_;  // where the registry has no room
  obs::Gauge spare_gauge_;
  obs::Histogram spare_histogram_;
};

}  // namespace larder::qos
