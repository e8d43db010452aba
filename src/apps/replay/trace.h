// SPDX-License-Identifier: Apache-2.0
// Request traces: one JSON object per line with `timestamp` (ms), `input_length`, `output_length`
// (tokens) and `hash_ids` (equal ids are the same block of 512 tokens). Other members are ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "larder/status.h"

namespace larder::apps {

inline constexpr std::size_t kTraceLineBytesMax = 16U << 20;
inline constexpr std::size_t kTraceIdsMax = 1'000'000;  // of one request
inline constexpr std::uint64_t kTraceRequestsMax = 10'000'000;
inline constexpr std::uint64_t kTraceTimestampMax = 1ULL << 40;  // ms; some 34 years

struct TraceRequest {
  std::uint64_t timestamp_ms = 0;
  std::uint64_t input_length = 0;   // tokens
  std::uint64_t output_length = 0;  // tokens
  std::vector<std::uint64_t> ids;
};

// One line of a trace. The error (kInvalidArgument) says what is wrong, without file and line.
Result<void> parse_trace_line(std::string_view line, TraceRequest& request);
// The inverse; no newline at the end.
std::string format_trace_line(const TraceRequest& request);

struct TraceOptions {
  bool skip_broken = false;        // count broken lines instead of failing on the first
  std::uint64_t requests_max = 0;  // stop after so many; 0: no limit but kTraceRequestsMax
};

// Where requests come from, in order. Not thread safe.
class TraceSource {
 public:
  virtual ~TraceSource() = default;
  // Fills `request`, reusing its memory; false at the end.
  virtual Result<bool> next(TraceRequest& request) = 0;
};

// Reads a file line by line; its memory is bounded by the longest line. Empty lines are skipped.
class TraceReader final : public TraceSource {
 public:
  // Errors: kNotFound, kInvalidArgument (not a regular file), kPermissionDenied.
  static Result<std::unique_ptr<TraceReader>> open(const std::string& path, TraceOptions options);
  ~TraceReader() override;
  Result<bool> next(TraceRequest& request) override;

  std::uint64_t broken_lines() const noexcept;
  const std::string& first_broken() const noexcept;  // "FILE:LINE: why", empty when none

 private:
  struct State;
  explicit TraceReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Plays a vector; the vector must outlive it.
class TraceVector final : public TraceSource {
 public:
  explicit TraceVector(const std::vector<TraceRequest>& requests) : requests_(requests) {}
  Result<bool> next(TraceRequest& request) override {
    if (at_ == requests_.size()) return false;
    request = requests_[at_++];
    return true;
  }

 private:
  const std::vector<TraceRequest>& requests_;
  std::size_t at_ = 0;
};

}  // namespace larder::apps
