// SPDX-License-Identifier: Apache-2.0
// What a remote device did, for tools and metrics (names in docs/operations.md).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "block/block_types.h"
#include "obs/metrics.h"
#include "qos/charge.h"
#include "qos/managed.h"

namespace larder::nvmf {

struct NvmeStats {
  struct Line {
    std::uint64_t commands = 0;  // ended well
    std::uint64_t bytes = 0;     // of those
    std::uint64_t errors = 0;
  };
  std::array<Line, block::kOpKindCount> kinds;  // by block::OpKind
  std::vector<Line> queues;                     // by number of the I/O queue, less one
  std::uint64_t reattached = 0;                 // new associations after the first
  std::uint64_t lost = 0;                       // associations that ended early
  std::uint64_t retried = 0;                    // operations that were sent again after that
  std::uint64_t keep_alive_misses = 0;
  std::uint64_t digest_errors = 0;
  std::uint64_t events = 0;  // asynchronous events
  // Of commands that were sent, each time: payload, without headers of PDUs.
  std::array<qos::ChargeVector, 2> charges;  // by TrafficClass: kHigh, kLow
  std::array<std::array<qos::ChargeVector, kIntentCount>, 2> by_intent;  // the same, and by Intent
};

// Any thread.
class NvmeCounters {
 public:
  // `registry` null: nothing is exported. Series are labelled with the subsystem's NQN.
  NvmeCounters(obs::Registry* registry, const std::string& nqn, std::uint16_t queues);

  void command(block::OpKind kind, std::uint16_t qid, std::uint64_t bytes, bool well) noexcept;
  // Of a read or write that is sent. The first of its class and intent makes their series: 5
  // resources, so 70 series at most.
  void charge(block::OpKind kind, const qos::Purpose& purpose, std::uint64_t bytes);
  void took(block::OpKind kind, env::Nanos time) noexcept;
  NvmeStats read() const;

  std::atomic<std::uint64_t> reattached{0};
  std::atomic<std::uint64_t> lost{0};
  std::atomic<std::uint64_t> retried{0};
  std::atomic<std::uint64_t> keep_alive_misses{0};
  std::atomic<std::uint64_t> digest_errors{0};
  std::atomic<std::uint64_t> events{0};

 private:
  struct Line {
    std::atomic<std::uint64_t> commands{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> errors{0};
    NvmeStats::Line read() const noexcept;
  };
  // What one class and intent had moved by commands that were sent.
  struct Moved {
    std::atomic<std::uint64_t> read{0};
    std::atomic<std::uint64_t> written{0};
    std::atomic<bool> exported{false};
    qos::ChargeVector charges() const noexcept;
  };
  void publish();
  void export_charges(std::size_t low, std::size_t intent);
  void expose(const char* name, const char* help, std::function<double()> value,
              obs::Labels labels);
  void expose(const char* name, const char* help, const std::atomic<std::uint64_t>& value,
              obs::Labels labels);

  std::array<Line, block::kOpKindCount> kinds_;
  std::vector<Line> queues_;
  std::array<std::array<Moved, kIntentCount>, 2> moved_;  // by class: high, low
  std::array<obs::Histogram*, block::kOpKindCount> latency_{};
  obs::Registry* const registry_;
  const std::string nqn_;
  std::mutex handles_mutex_;
  std::vector<obs::CallbackHandle> handles_;  // last: they read the rest
};

}  // namespace larder::nvmf
