// SPDX-License-Identifier: Apache-2.0
#include "obs/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace larder::obs {
namespace {

constexpr std::array<std::string_view, 6> kLevelNames = {"trace", "debug", "info",
                                                         "warn",  "error", "off"};
constexpr std::size_t kEventBytesMax = 64;
constexpr std::size_t kKeyBytesMax = 64;

class CallbackSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit CallbackSink(std::function<void(std::string_view)> take) : take_(std::move(take)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& msg) override {
    spdlog::memory_buf_t line;
    formatter_->format(msg, line);
    take_(std::string_view(line.data(), line.size()));
  }
  void flush_() override {}

  std::function<void(std::string_view)> take_;
};

struct Backend {
  LogFormat format = LogFormat::kLogfmt;
  std::shared_ptr<spdlog::logger> logger;
};

std::shared_ptr<const Backend> make_backend(LogOptions options) {
  std::shared_ptr<spdlog::sinks::sink> sink;
  if (options.sink) {
    sink = std::make_shared<CallbackSink>(std::move(options.sink));
  } else {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  }
  auto backend = std::make_shared<Backend>();
  backend->format = options.format;
  backend->logger = std::make_shared<spdlog::logger>("larder", std::move(sink));
  backend->logger->set_level(spdlog::level::trace);  // the threshold is ours, one relaxed load
  backend->logger->flush_on(spdlog::level::trace);
  backend->logger->set_error_handler([](const std::string&) {});
  const bool json = options.format == LogFormat::kJson;
  backend->logger->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      json ? "{\"time\":\"%Y-%m-%dT%H:%M:%S.%fZ\",%v}" : "time=%Y-%m-%dT%H:%M:%S.%fZ %v",
      spdlog::pattern_time_type::utc, "\n"));
  return backend;
}

struct Global {
  std::mutex mutex;
  std::shared_ptr<const Backend> backend = make_backend({});
};

// Never destroyed: static destructors may still log.
Global& global() {
  static Global* const instance = new Global;
  return *instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  return static_cast<spdlog::level::level_enum>(level);  // the numbers agree up to error
}

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

// A key or an event name: never anything that could end a token.
std::string word(std::string_view text, std::size_t bytes_max) {
  std::string out(text.substr(0, bytes_max));
  for (char& c : out) {
    if (!is_word_char(c)) c = '_';
  }
  return out.empty() ? "_" : out;
}

// A JSON string in ASCII: control, DEL and non-ASCII characters are escaped, invalid UTF-8 becomes
// U+FFFD.
std::string json_string(std::string_view text) {
  using Json = nlohmann::json;
  return Json(std::string(text)).dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string text_value(std::string_view text, LogFormat format) {
  std::string cut;
  if (text.size() > kLogValueBytesMax) {
    cut = fmt::format("{}...(+{} bytes)", text.substr(0, kLogValueBytesMax),
                      text.size() - kLogValueBytesMax);
    text = cut;
  }
  constexpr std::string_view kBare = "/:@+%,()[]";
  const bool bare = !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_word_char(c) || kBare.find(c) != std::string_view::npos;
  });
  return bare && format == LogFormat::kLogfmt ? std::string(text) : json_string(text);
}

struct ValueWriter {
  LogFormat format;
  std::string operator()(std::string_view text) const { return text_value(text, format); }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(std::uint64_t value) const { return fmt::format("{}", value); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(double value) const {
    if (format == LogFormat::kJson && !std::isfinite(value)) return "null";
    return fmt::format("{}", value);
  }
};

class Line {
 public:
  explicit Line(LogFormat format) : format_(format) {}

  // False once the line is full.
  bool add(std::string_view key, const LogValue& value) {
    const std::string name = word(key, kKeyBytesMax);
    const std::string text = std::visit(ValueWriter{format_}, value.variant());
    if (text_.size() + name.size() + text.size() + 8 > kLogLineBytesMax) return false;
    const bool json = format_ == LogFormat::kJson;
    if (!text_.empty()) text_ += json ? ',' : ' ';
    text_ += json ? '"' + name + "\":" : name + '=';
    text_ += text;
    return true;
  }

  const std::string& text() const { return text_; }

 private:
  LogFormat format_;
  std::string text_;
};

std::string render(LogFormat format, Level level, std::string_view event, LogFields fields,
                   std::uint64_t suppressed) {
  Line line(format);
  line.add("level", level_name(level));
  line.add("event", word(event, kEventBytesMax));
  if (suppressed > 0) line.add("suppressed", suppressed);
  std::size_t written = 0;
  for (const LogField& field : fields) {
    if (written == kLogFieldsMax || !line.add(field.key, field.value)) break;
    ++written;
  }
  if (written < fields.size()) line.add("fields_left_out", fields.size() - written);
  return line.text();
}

void write(Level level, std::string_view event, LogFields fields,
           std::uint64_t suppressed) noexcept {
  try {
    std::shared_ptr<const Backend> backend;
    {
      const std::lock_guard lock(global().mutex);
      backend = global().backend;
    }
    const std::string text = render(backend->format, level, event, fields, suppressed);
    backend->logger->log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
  } catch (...) {  // out of memory: a lost line is better than a lost process
  }
}

}  // namespace

namespace detail {

std::atomic<Level> log_threshold{Level::kInfo};

void write_log(Level level, std::string_view event, LogFields fields) noexcept {
  write(level, event, fields, 0);
}

}  // namespace detail

std::string_view level_name(Level level) noexcept {
  const auto index = static_cast<std::size_t>(level);
  return index < kLevelNames.size() ? kLevelNames[index] : "unknown";
}

Result<Level> parse_level(std::string_view text) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == text) return static_cast<Level>(i);
  }
  return fail(Code::kInvalidArgument,
              fmt::format("log level {} is not one of trace, debug, info, warn, error, off",
                          base::quoted(text)));
}

Result<LogFormat> parse_log_format(std::string_view text) {
  if (text == "logfmt") return LogFormat::kLogfmt;
  if (text == "json") return LogFormat::kJson;
  return fail(Code::kInvalidArgument,
              fmt::format("log format {} is not one of logfmt, json", base::quoted(text)));
}

void configure_log(LogOptions options) {
  const Level level = options.level;
  auto backend = make_backend(std::move(options));
  {
    const std::lock_guard lock(global().mutex);
    global().backend.swap(backend);
  }
  set_log_level(level);
}

void set_log_level(Level level) noexcept {
  detail::log_threshold.store(level, std::memory_order_relaxed);
}

Level log_level() noexcept {
  return detail::log_threshold.load(std::memory_order_relaxed);
}

LogEvery::Pass LogEvery::admit(std::uint64_t now_ns) noexcept {
  std::uint64_t next = next_.load(std::memory_order_relaxed);
  const bool due = now_ns >= next;
  if (!due || !next_.compare_exchange_strong(next, now_ns + interval_, std::memory_order_relaxed)) {
    suppressed_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  return {true, suppressed_.exchange(0, std::memory_order_relaxed)};
}

void log_every(LogEvery& every, std::uint64_t now_ns, Level level, std::string_view event,
               LogFields fields) noexcept {
  if (!log_enabled(level)) return;
  if (const auto pass = every.admit(now_ns)) write(level, event, fields, pass.suppressed);
}

}  // namespace larder::obs
