// SPDX-License-Identifier: Apache-2.0
// A bounded set of raw latency samples and the percentiles in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "env/clock.h"

namespace larder::apps {

inline constexpr std::size_t kReservoirSamplesMax = 1'000'000;

struct Percentiles {
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
};

// Keeps every sample until it is full, then a uniform choice of all it has seen (reservoir
// sampling). Not thread safe: one per measuring thread, merged afterwards.
class Reservoir {
 public:
  explicit Reservoir(std::size_t samples_max = kReservoirSamplesMax);
  void add(env::Nanos sample);
  void merge(const Reservoir& other);
  std::uint64_t seen() const noexcept { return seen_; }
  std::span<const env::Nanos> samples() const noexcept { return samples_; }
  // All zero when nothing was added.
  Percentiles percentiles() const;

 private:
  std::uint64_t random() noexcept;

  std::vector<env::Nanos> samples_;
  std::size_t samples_max_;
  std::uint64_t seen_ = 0;
  std::uint64_t state_ = 0x9E3779B97F4A7C15ULL;
};

// Nearest-rank percentile of sorted samples; `fraction` in (0, 1]. 0 for an empty span.
env::Nanos nearest_rank(std::span<const env::Nanos> sorted, double fraction) noexcept;
// The middle value, or the mean of the two in the middle. 0 for an empty list.
double median(std::vector<double> values);

}  // namespace larder::apps
