// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/reservoir.h"

#include <algorithm>
#include <cmath>

namespace larder::apps {

Reservoir::Reservoir(std::size_t samples_max)
    : samples_max_(std::max<std::size_t>(samples_max, 1)) {
  samples_.reserve(std::min<std::size_t>(samples_max_, 1 << 16));
}

std::uint64_t Reservoir::random() noexcept {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_;
}

void Reservoir::add(env::Nanos sample) {
  ++seen_;
  if (samples_.size() < samples_max_) {
    samples_.push_back(sample);
    return;
  }
  const std::uint64_t at = random() % seen_;
  if (at < samples_max_) samples_[at] = sample;
}

void Reservoir::merge(const Reservoir& other) {
  const std::uint64_t unsampled = other.seen_ - other.samples_.size();
  for (const env::Nanos sample : other.samples_) add(sample);
  seen_ += unsampled;
}

Percentiles Reservoir::percentiles() const {
  std::vector<env::Nanos> sorted = samples_;
  std::sort(sorted.begin(), sorted.end());
  const auto us = [&](double fraction) {
    return static_cast<double>(nearest_rank(sorted, fraction)) / env::kMicro;
  };
  return {us(0.5), us(0.99), us(0.999)};
}

env::Nanos nearest_rank(std::span<const env::Nanos> sorted, double fraction) noexcept {
  if (sorted.empty()) return 0;
  // The small term keeps 0.99 * 100 = 99.00000000000001 from becoming rank 100.
  const double rank = std::ceil(fraction * static_cast<double>(sorted.size()) - 1e-9);
  const auto at = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(at, sorted.size() - 1)];
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace larder::apps
