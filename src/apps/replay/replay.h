// SPDX-License-Identifier: Apache-2.0
// Plays the requests of a trace against a store as an engine would: look for the longest prefix,
// fetch it and check every byte, store the rest.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/replay/content.h"
#include "apps/replay/report.h"
#include "apps/replay/store.h"
#include "apps/replay/trace.h"
#include "env/clock.h"
#include "larder/status.h"
#include "obs/metrics.h"

namespace larder::apps {

inline constexpr std::uint64_t kReplayBatchBytesMax = 64ULL << 20;
inline constexpr std::size_t kReplayWorkersMax = 256;

struct ReplaySettings {
  std::uint64_t block_bytes = 64 << 10;    // 1 byte .. 1 GiB
  std::uint64_t batch_bytes = 8ULL << 20;  // of one get or put; at least one block goes
  double speed = 0;                        // 1: as recorded, 100: faster; 0: no waiting
  std::uint64_t salt = 0;                  // of contents and keys
  env::Clock* clock = nullptr;             // outlives the replay
  const std::atomic<int>* stop = nullptr;  // anything but 0 ends the replay early; may be null
};

// What one worker counted; workers share nothing while they run.
struct ReplayTally {
  enum Op : std::size_t { kMatch, kGet, kPut, kOps };
  std::array<obs::LatencyRecorder, kOps> latency;
  std::array<std::uint64_t, kOps> max_ns{};
  ReplayReport counts;  // its counters only

  void merge(const ReplayTally& other);
  void note(std::string message);  // kept when it is the first
  void note_error(std::string message);
};

// Progress while run() works on another thread.
struct ReplayProgress {
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  std::uint64_t wrong_bytes = 0;
};

class Replay {
 public:
  // `source` must outlive the replay.
  Replay(ReplaySettings settings, TraceSource& source);
  ~Replay();
  // One thread per store, until the source ends. Fills the counters, times and operations of a
  // report. Errors: of the source, or of a store that failed as a whole (node gone). Call once.
  Result<ReplayReport> run(std::vector<std::unique_ptr<BlockStore>> stores);
  ReplayProgress progress() const noexcept;

 private:
  friend class ReplayWorker;
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace larder::apps
