// SPDX-License-Identifier: Apache-2.0
#include "apps/replay/trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.h"
#include "env/fd.h"

namespace larder::apps {
namespace {

constexpr int kDepthMax = 32;  // of members we ignore
constexpr std::size_t kReadBytes = 1U << 20;

// Takes the members we know straight from the token stream: no document is built, so that a
// hostile line costs no more memory than its ids.
class LineHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit LineHandler(TraceRequest& request) : request_(request) {}

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool number_integer(number_integer_t) override {
    return field_ == kIgnored ? true : refuse("a negative number");
  }
  bool number_unsigned(number_unsigned_t value) override;
  bool number_float(number_float_t value, const string_t& text) override;
  bool string(string_t&) override { return other("a string"); }
  bool binary(binary_t&) override { return other("binary data"); }
  bool start_object(std::size_t) override;
  bool key(string_t& name) override;
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override;
  bool end_array() override {
    --depth_;
    in_ids_ = false;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    error_ = fmt::format("not valid JSON at byte {}", position);
    return false;
  }

  // What is wrong with the line after a parse that ended well or badly; empty when nothing is.
  std::string verdict(bool parsed) const;

 private:
  enum Field { kTimestamp, kInput, kOutput, kIds, kFields, kIgnored };
  static constexpr const char* kNames[kFields] = {"timestamp", "input_length", "output_length",
                                                  "hash_ids"};

  bool refuse(std::string_view what) {
    if (depth_ == 0) {
      error_ = fmt::format("{} instead of an object", what);
    } else if (field_ == kIds && in_ids_) {
      error_ = fmt::format("{} among 'hash_ids' (entry {}): ids are integers from 0 to 2^64-1",
                           what, request_.ids.size() + 1);
    } else {
      error_ = fmt::format("'{}' is {}", kNames[field_], what);
    }
    return false;
  }
  bool other(std::string_view what) { return field_ == kIgnored ? true : refuse(what); }
  bool scalar(std::uint64_t value);

  TraceRequest& request_;
  std::string error_;
  int depth_ = 0;
  Field field_ = kFields;
  bool in_ids_ = false;
  bool seen_[kFields] = {};
};

bool LineHandler::scalar(std::uint64_t value) {
  switch (field_) {
    case kTimestamp:
      if (value > kTraceTimestampMax) return refuse("too large (it counts milliseconds)");
      request_.timestamp_ms = value;
      return true;
    case kInput:
      request_.input_length = value;
      return true;
    case kOutput:
      request_.output_length = value;
      return true;
    default:
      return true;
  }
}

bool LineHandler::number_unsigned(number_unsigned_t value) {
  if (field_ == kIgnored) return true;
  if (depth_ == 0) return refuse("a number");
  if (field_ != kIds) return scalar(value);
  if (!in_ids_) return refuse("a number, not a list");
  if (request_.ids.size() == kTraceIdsMax) {
    error_ = fmt::format("more than {} 'hash_ids' in one request", kTraceIdsMax);
    return false;
  }
  request_.ids.push_back(value);
  return true;
}

bool LineHandler::number_float(number_float_t value, const string_t&) {
  if (field_ == kIgnored) return true;
  // Generated traces have fractions of a millisecond; lengths and ids are whole or wrong.
  const bool fits =
      std::isfinite(value) && value >= 0 && value <= static_cast<double>(kTraceTimestampMax);
  if (field_ == kTimestamp && fits) return scalar(static_cast<std::uint64_t>(value));
  return refuse("not a whole number in range");
}

bool LineHandler::start_object(std::size_t) {
  if (depth_ > 0 && field_ != kIgnored) return refuse("an object");
  if (++depth_ <= kDepthMax) return true;
  error_ = "nested too deeply";
  return false;
}

bool LineHandler::start_array(std::size_t) {
  if (field_ == kIds && !in_ids_ && depth_ == 1) {
    in_ids_ = true;
  } else if (field_ != kIgnored) {
    return refuse("a list");
  }
  if (++depth_ <= kDepthMax) return true;
  error_ = "nested too deeply";
  return false;
}

bool LineHandler::key(string_t& name) {
  if (depth_ != 1) return true;
  field_ = kIgnored;
  for (int i = 0; i < kFields; ++i) {
    if (name != kNames[i]) continue;
    field_ = static_cast<Field>(i);
    if (seen_[i]) {
      error_ = fmt::format("'{}' appears twice", name);
      return false;
    }
    seen_[i] = true;
  }
  return true;
}

std::string LineHandler::verdict(bool parsed) const {
  if (!error_.empty()) return error_;
  if (!parsed) return "not valid JSON";
  for (int i = 0; i < kFields; ++i) {
    if (!seen_[i]) return fmt::format("'{}' is missing", kNames[i]);
  }
  return {};
}

bool blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

Result<void> parse_trace_line(std::string_view line, TraceRequest& request) {
  request.timestamp_ms = request.input_length = request.output_length = 0;
  request.ids.clear();
  LineHandler handler(request);
  bool parsed = false;
  try {
    parsed = nlohmann::json::sax_parse(line.begin(), line.end(), &handler);
  } catch (const std::exception& e) {
    return fail(Code::kInvalidArgument, e.what());
  }
  if (auto wrong = handler.verdict(parsed); !wrong.empty()) {
    return fail(Code::kInvalidArgument, std::move(wrong));
  }
  return {};
}

std::string format_trace_line(const TraceRequest& request) {
  return fmt::format(
      R"({{"timestamp": {}, "input_length": {}, "output_length": {}, "hash_ids": [{}]}})",
      request.timestamp_ms, request.input_length, request.output_length,
      fmt::join(request.ids, ", "));
}

struct TraceReader::State {
  std::string path;
  TraceOptions options;
  env::Fd file;
  std::string buffer;       // read but not yet consumed, from `begin`
  std::size_t begin = 0;    // of the current line
  std::size_t scanned = 0;  // bytes after `begin` known to hold no newline
  bool at_end = false;
  std::uint64_t line = 0;
  std::uint64_t requests = 0;
  std::uint64_t broken = 0;
  std::string first_broken;

  Result<void> refill();
  Result<std::optional<std::string_view>> next_line(bool& too_long);
  Result<void> skip_long_line();
  Result<void> note_broken(std::string_view why);
};

// Moves the rest of the buffer to its front and reads more behind it.
Result<void> TraceReader::State::refill() {
  buffer.erase(0, begin);
  begin = 0;
  const std::size_t had = buffer.size();
  buffer.resize(had + kReadBytes);
  ssize_t got = 0;
  do {
    got = ::read(file.get(), buffer.data() + had, kReadBytes);
  } while (got < 0 && errno == EINTR);
  const int error = errno;
  buffer.resize(had + static_cast<std::size_t>(got > 0 ? got : 0));
  if (got < 0) {
    return fail(Code::kInternal,
                fmt::format("{}: cannot read after line {}: {}", path, line, std::strerror(error)));
  }
  at_end = got == 0;
  return {};
}

// Drops bytes up to the next newline without keeping them.
Result<void> TraceReader::State::skip_long_line() {
  for (;;) {
    const std::size_t newline = buffer.find('\n', begin);
    if (newline != std::string::npos) {
      begin = newline + 1;
      return {};
    }
    begin = buffer.size();
    if (at_end) return {};
    LARDER_TRY(refill());
  }
}

Result<std::optional<std::string_view>> TraceReader::State::next_line(bool& too_long) {
  too_long = false;
  scanned = 0;
  for (;;) {
    const std::size_t newline = buffer.find('\n', begin + scanned);
    std::size_t length = newline == std::string::npos ? buffer.size() - begin : newline - begin;
    if (length > kTraceLineBytesMax) {
      ++line;
      too_long = true;
      LARDER_TRY(skip_long_line());
      return std::string_view{};
    }
    if (newline != std::string::npos || (at_end && length > 0)) {
      ++line;
      const std::string_view text(buffer.data() + begin, length);
      begin += length + (newline == std::string::npos ? 0 : 1);
      return text;
    }
    if (at_end) return std::nullopt;
    scanned = length;
    LARDER_TRY(refill());
  }
}

Result<void> TraceReader::State::note_broken(std::string_view why) {
  std::string where = fmt::format("{}:{}: {}", path, line, why);
  if (!options.skip_broken) {
    return fail(Code::kInvalidArgument,
                where + " (mend the line, or leave broken lines out with --skip-broken)");
  }
  if (++broken == 1) first_broken = std::move(where);
  return {};
}

TraceReader::TraceReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
TraceReader::~TraceReader() = default;

std::uint64_t TraceReader::broken_lines() const noexcept {
  return state_->broken;
}
const std::string& TraceReader::first_broken() const noexcept {
  return state_->first_broken;
}

Result<std::unique_ptr<TraceReader>> TraceReader::open(const std::string& path,
                                                       TraceOptions options) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->options = options;
  // O_NONBLOCK so that a FIFO is refused below instead of blocking here for its writer.
  state->file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!state->file.valid()) {
    const Code code = errno == ENOENT   ? Code::kNotFound
                      : errno == EACCES ? Code::kPermissionDenied
                                        : Code::kInvalidArgument;
    return fail(code, fmt::format("cannot open the trace {}: {}", base::quoted(path, 256),
                                  std::strerror(errno)));
  }
  struct stat info {};
  if (::fstat(state->file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return fail(Code::kInvalidArgument,
                fmt::format("the trace {} is not a regular file; it is read twice (once to check "
                            "it), so save it to a file first",
                            base::quoted(path, 256)));
  }
  return std::unique_ptr<TraceReader>(new TraceReader(std::move(state)));
}

Result<bool> TraceReader::next(TraceRequest& request) {
  State& s = *state_;
  if (s.options.requests_max > 0 && s.requests == s.options.requests_max) return false;
  for (;;) {
    bool too_long = false;
    LARDER_ASSIGN(const auto line, s.next_line(too_long));
    if (!line) return false;
    if (too_long) {
      LARDER_TRY(
          s.note_broken(fmt::format("the line is longer than {} bytes", kTraceLineBytesMax)));
      continue;
    }
    if (blank(*line)) continue;
    if (auto parsed = parse_trace_line(*line, request); !parsed) {
      LARDER_TRY(s.note_broken(parsed.error().message()));
      continue;
    }
    if (s.requests == kTraceRequestsMax) {
      return fail(Code::kTooLarge,
                  fmt::format("{}:{}: more than {} requests; play part of it with --requests",
                              s.path, s.line, kTraceRequestsMax));
    }
    ++s.requests;
    return true;
  }
}

}  // namespace larder::apps
