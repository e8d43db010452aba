// SPDX-License-Identifier: Apache-2.0
// One line per event, for machines first: `log(Level::kInfo, "node_started", {{"port", 7411}})`
// writes   time=2024-05-01T12:00:00.000000Z level=info event=node_started port=7411
//
// Any thread. A call below the level costs one relaxed load. Never throws. Values are data: control
// characters, quotes and non-ASCII text are escaped, so a key or a peer's name cannot forge a line,
// and every line is bounded. Not for hot paths above the level.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

#include "larder/status.h"

namespace larder::obs {

enum class Level : std::uint8_t { kTrace = 0, kDebug, kInfo, kWarn, kError, kOff };
enum class LogFormat : std::uint8_t { kLogfmt = 0, kJson };

std::string_view level_name(Level level) noexcept;
// "trace", "debug", "info", "warn", "error" or "off"; else kInvalidArgument with that list.
Result<Level> parse_level(std::string_view text);
// "logfmt" or "json".
Result<LogFormat> parse_log_format(std::string_view text);

// A value to log. Holds a view: it must live until log() returned.
class LogValue {
 public:
  using Variant = std::variant<std::string_view, std::int64_t, std::uint64_t, double, bool>;

  LogValue(std::string_view text) : value_(text) {}
  LogValue(const std::string& text) : value_(std::string_view(text)) {}
  LogValue(const char* text) : value_(text != nullptr ? std::string_view(text) : "") {}
  LogValue(bool value) : value_(value) {}
  LogValue(double value) : value_(value) {}
  template <std::signed_integral T>
  LogValue(T value) : value_(static_cast<std::int64_t>(value)) {}
  template <std::unsigned_integral T>
  LogValue(T value) : value_(static_cast<std::uint64_t>(value)) {}

  const Variant& variant() const noexcept { return value_; }

 private:
  Variant value_;
};

struct LogField {
  std::string_view key;
  LogValue value;
};
using LogFields = std::initializer_list<LogField>;

inline constexpr std::size_t kLogValueBytesMax = 1024;  // longer text is cut and marked
inline constexpr std::size_t kLogFieldsMax = 32;        // further fields are left out
inline constexpr std::size_t kLogLineBytesMax = 8192;   // further fields are left out

struct LogOptions {
  Level level = Level::kInfo;
  LogFormat format = LogFormat::kLogfmt;
  // Takes each finished line (with its newline), one at a time, instead of stderr.
  std::function<void(std::string_view line)> sink;
};

// Replaces the process-wide set-up. Before the first call: level info, logfmt, stderr.
void configure_log(LogOptions options);
void set_log_level(Level level) noexcept;
Level log_level() noexcept;

namespace detail {
extern std::atomic<Level> log_threshold;
void write_log(Level level, std::string_view event, LogFields fields) noexcept;
}  // namespace detail

inline bool log_enabled(Level level) noexcept {
  return level >= detail::log_threshold.load(std::memory_order_relaxed) && level < Level::kOff;
}

// `event` is a fixed lower_snake name to search for; what varies goes into fields.
inline void log(Level level, std::string_view event, LogFields fields = {}) noexcept {
  if (log_enabled(level)) detail::write_log(level, event, fields);
}

// Lets one line through per interval and counts the rest: one per call site or per cause.
//   static LogEvery every(10'000'000'000);  // 10 s
//   log_every(every, now_ns, Level::kWarn, "peer_lost", {{"peer", name}});
class LogEvery {
 public:
  explicit constexpr LogEvery(std::uint64_t interval_ns) noexcept : interval_(interval_ns) {}

  struct Pass {
    bool admitted = false;
    std::uint64_t suppressed = 0;  // calls held back since the last one let through
    explicit operator bool() const noexcept { return admitted; }
  };
  // `now_ns` comes from a monotonic clock (env's). The first call always passes. Any thread; of
  // racing calls one passes.
  Pass admit(std::uint64_t now_ns) noexcept;

 private:
  const std::uint64_t interval_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> suppressed_{0};
};

// log() through `every`; adds suppressed=N where lines were held back since the last.
void log_every(LogEvery& every, std::uint64_t now_ns, Level level, std::string_view event,
               LogFields fields = {}) noexcept;

}  // namespace larder::obs
