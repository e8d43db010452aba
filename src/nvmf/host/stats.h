// SPDX-License-Identifier: Apache-2.0
// What a remote device did, for tools and metrics (names in docs/operations.md).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "block/block_types.h"
#include "obs/metrics.h"
#include "qos/charge.h"

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
  std::uint64_t events = 0;                  // asynchronous events
  std::array<qos::ChargeVector, 2> charges;  // by TrafficClass: kHigh, kLow
};

// Any thread.
class NvmeCounters {
 public:
  // `registry` null: nothing is exported. Series are labelled with the subsystem's NQN.
  NvmeCounters(obs::Registry* registry, const std::string& nqn, std::uint16_t queues);

  void command(block::OpKind kind, std::uint16_t qid, std::uint64_t bytes, bool well) noexcept;
  void charge(block::OpKind kind, TrafficClass traffic_class, std::uint64_t bytes) noexcept;
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
  void publish(obs::Registry& registry, const std::string& nqn);
  void expose(obs::Registry& registry, const char* name, const char* help,
              const std::atomic<std::uint64_t>& value, obs::Labels labels);

  std::array<Line, block::kOpKindCount> kinds_;
  std::vector<Line> queues_;
  // Of what was sent: 0 to 1 the class, then read and written bytes.
  std::array<std::array<std::atomic<std::uint64_t>, 2>, 2> moved_{};
  std::array<obs::Histogram*, block::kOpKindCount> latency_{};
  std::vector<obs::CallbackHandle> handles_;  // last: they read the rest
};

}  // namespace larder::nvmf
