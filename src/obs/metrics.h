// SPDX-License-Identifier: Apache-2.0
// Counters, gauges and latency histograms that cost one or two relaxed atomics to update.
//
// Set-up: ask a Registry once for each series and keep the pointer; it stays valid as long as the
// registry. Hot path: add(), set() and record() are wait-free and never allocate. Reading: text()
// for Prometheus, stats_json() for people and scripts.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "larder/status.h"

namespace larder::obs {

// Only grows. Any thread.
class Counter {
 public:
  void add(std::uint64_t n = 1) noexcept { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Goes up and down. Any thread.
class Gauge {
 public:
  void set(std::int64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  void add(std::int64_t n) noexcept { value_.fetch_add(n, std::memory_order_relaxed); }
  void sub(std::int64_t n) noexcept { value_.fetch_sub(n, std::memory_order_relaxed); }
  std::int64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

// The buckets that histograms share: exact below 16 ns, then 16 per power of two, so that no bucket
// is wider than 1/16 of its lower edge. Values above about 1100 s count as that.
struct LatencyBuckets {
  static constexpr unsigned kSubBits = 4;
  static constexpr unsigned kValueBits = 40;
  static constexpr std::uint64_t kValueMax = (1ULL << kValueBits) - 1;  // ns
  static constexpr std::size_t kCount = (kValueBits - kSubBits + 1) << kSubBits;

  static constexpr std::size_t index(std::uint64_t ns) noexcept {
    if (ns > kValueMax) ns = kValueMax;
    if (ns < (1U << kSubBits)) return static_cast<std::size_t>(ns);
    const unsigned shift = static_cast<unsigned>(std::bit_width(ns)) - 1 - kSubBits;
    return (static_cast<std::size_t>(shift) << kSubBits) + static_cast<std::size_t>(ns >> shift);
  }
  // Smallest value of a bucket; `index` may be kCount, one past the last.
  static constexpr std::uint64_t lower(std::size_t index) noexcept {
    if (index < (1U << kSubBits)) return index;
    const std::size_t shift = (index >> kSubBits) - 1;
    return (index - (shift << kSubBits)) << shift;
  }
};

// A plain histogram of durations for one thread: benchmarks, and snapshots of Histogram.
class LatencyRecorder {
 public:
  void record(std::uint64_t ns, std::uint64_t times = 1) noexcept;
  void record(std::chrono::nanoseconds value) noexcept {
    record(value.count() > 0 ? static_cast<std::uint64_t>(value.count()) : 0);
  }
  void merge(const LatencyRecorder& other) noexcept;
  void clear() noexcept;

  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t sum_ns() const noexcept { return sum_; }
  double mean_ns() const noexcept;
  // The value that `percent` (0..100) of the records do not exceed, within 1/16 of the true one.
  // 0 when nothing was recorded.
  std::uint64_t percentile(double percent) const noexcept;
  std::uint64_t min_ns() const noexcept { return percentile(0); }
  std::uint64_t max_ns() const noexcept { return percentile(100); }
  // How many records were below 2^`bits` ns. Exact.
  std::uint64_t count_below_power(unsigned bits) const noexcept;

 private:
  friend class Histogram;
  std::array<std::uint64_t, LatencyBuckets::kCount> counts_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
};

// The same, for any number of threads at once. About 5 KiB.
class Histogram {
 public:
  void record(std::uint64_t ns) noexcept {
    if (ns > LatencyBuckets::kValueMax) ns = LatencyBuckets::kValueMax;
    counts_[LatencyBuckets::index(ns)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(ns, std::memory_order_relaxed);
  }
  void record(std::chrono::nanoseconds value) noexcept {
    record(value.count() > 0 ? static_cast<std::uint64_t>(value.count()) : 0);
  }
  void merge(const LatencyRecorder& other) noexcept;
  // Each bucket is read once; records that arrive meanwhile may or may not be in it.
  LatencyRecorder snapshot() const noexcept;
  std::uint64_t count() const noexcept { return snapshot().count(); }
  std::uint64_t sum_ns() const noexcept { return sum_.load(std::memory_order_relaxed); }
  std::uint64_t percentile(double percent) const noexcept { return snapshot().percentile(percent); }

 private:
  std::array<std::atomic<std::uint64_t>, LatencyBuckets::kCount> counts_{};
  std::atomic<std::uint64_t> sum_{0};
};

using Labels = std::vector<std::pair<std::string, std::string>>;

// Removes a callback gauge when it dies; after the destructor returned, the callback neither runs
// nor will. Do not destroy one while holding a lock that its callback takes. May outlive the
// registry.
class [[nodiscard]] CallbackHandle {
 public:
  CallbackHandle() = default;
  explicit CallbackHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  CallbackHandle(CallbackHandle&& other) noexcept
      : remove_(std::exchange(other.remove_, nullptr)) {}
  CallbackHandle& operator=(CallbackHandle&& other) noexcept;
  ~CallbackHandle() { reset(); }
  void reset() noexcept;

 private:
  std::function<void()> remove_;
};

// Owns every series of a process (or of one node in a test). Any thread may call anything.
//
// Asking twice for the same name and labels (in any order) gives the same object. kInvalidArgument:
// a name or label that Prometheus forbids, or a name already used for another kind. kExhausted:
// the bound on series is reached (labels must not carry keys, addresses or other open sets).
class Registry {
 public:
  static constexpr std::size_t kSeriesMax = 10000;
  static constexpr std::size_t kLabelsMax = 8;
  static constexpr std::size_t kLabelBytesMax = 256;

  explicit Registry(std::size_t series_max = kSeriesMax);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Never null. Prometheus wants counters to end in _total and histograms, here, in _seconds.
  Result<Counter*> counter(std::string_view name, std::string_view help, Labels labels = {});
  Result<Gauge*> gauge(std::string_view name, std::string_view help, Labels labels = {});
  Result<Histogram*> histogram(std::string_view name, std::string_view help, Labels labels = {});
  // A gauge that is asked for its value at each scrape, one call at a time; a counter when the name
  // ends in _total. kAlreadyExists while the same series is registered. A callback that throws
  // leaves its series out of that scrape.
  Result<CallbackHandle> callback(std::string_view name, std::string_view help,
                                  std::function<double()> read, Labels labels = {});

  std::size_t series() const;
  // Prometheus text format 0.0.4. Histograms have `le` buckets at 2^10, 2^12 ... 2^36 ns (about
  // 1 us to 69 s, factor 4).
  std::string text() const;
  // {"name": {"type": "counter", "help": "...", "series": [{"labels": {}, "value": 1}]}}; a
  // histogram's series carry count, sum_ns, p50_ns, p99_ns, p999_ns and max_ns.
  std::string stats_json() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace larder::obs
