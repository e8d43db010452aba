// SPDX-License-Identifier: Apache-2.0
#include "obs/metrics.h"

#include <algorithm>
#include <cmath>

namespace larder::obs {
namespace {

constexpr std::uint64_t rank_of(double percent, std::uint64_t count) noexcept {
  if (!(percent > 0)) return 1;  // NaN too
  if (percent >= 100) return count;
  const double rank = percent / 100 * static_cast<double>(count);
  const auto whole = static_cast<std::uint64_t>(rank);
  const std::uint64_t up = static_cast<double>(whole) < rank ? whole + 1 : whole;
  return std::clamp<std::uint64_t>(up, 1, count);
}

}  // namespace

void LatencyRecorder::record(std::uint64_t ns, std::uint64_t times) noexcept {
  ns = std::min(ns, LatencyBuckets::kValueMax);
  counts_[LatencyBuckets::index(ns)] += times;
  count_ += times;
  sum_ += ns * times;
}

void LatencyRecorder::merge(const LatencyRecorder& other) noexcept {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
}

void LatencyRecorder::clear() noexcept {
  *this = LatencyRecorder();
}

double LatencyRecorder::mean_ns() const noexcept {
  return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
}

std::uint64_t LatencyRecorder::percentile(double percent) const noexcept {
  if (count_ == 0) return 0;
  std::uint64_t left = rank_of(percent, count_);
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] >= left) {
      // The middle of the bucket: at most half its width, 1/32, away from the true value.
      const std::uint64_t low = LatencyBuckets::lower(i);
      return low + (LatencyBuckets::lower(i + 1) - 1 - low) / 2;
    }
    left -= counts_[i];
  }
  return LatencyBuckets::kValueMax;
}

std::uint64_t LatencyRecorder::count_below_power(unsigned bits) const noexcept {
  if (bits >= LatencyBuckets::kValueBits) return count_;
  const auto end = counts_.begin() +
                   static_cast<std::ptrdiff_t>(LatencyBuckets::index(std::uint64_t{1} << bits));
  std::uint64_t total = 0;
  for (auto at = counts_.begin(); at != end; ++at) total += *at;
  return total;
}

void Histogram::merge(const LatencyRecorder& other) noexcept {
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (other.counts_[i] != 0) counts_[i].fetch_add(other.counts_[i], std::memory_order_relaxed);
  }
  sum_.fetch_add(other.sum_, std::memory_order_relaxed);
}

LatencyRecorder Histogram::snapshot() const noexcept {
  LatencyRecorder out;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    out.counts_[i] = counts_[i].load(std::memory_order_relaxed);
    out.count_ += out.counts_[i];
  }
  out.sum_ = sum_.load(std::memory_order_relaxed);
  return out;
}

CallbackHandle& CallbackHandle::operator=(CallbackHandle&& other) noexcept {
  if (this != &other) {
    reset();
    remove_ = std::exchange(other.remove_, nullptr);
  }
  return *this;
}

void CallbackHandle::reset() noexcept {
  if (auto remove = std::exchange(remove_, nullptr)) remove();
}

}  // namespace larder::obs
