// SPDX-License-Identifier: Apache-2.0
#include "apps/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "apps/exit_codes.h"
#include "base/units.h"

namespace larder::apps {
namespace {

void to_stderr(std::string_view text) {
  // Nobody is left to tell when stderr is gone.
  (void)write_all(STDERR_FILENO, std::as_bytes(std::span(text)), "stderr");
}

}  // namespace

int report_error(const Error& error) {
  const std::string& message = error.message();
  to_stderr(fmt::format("larder: error: {}\n",
                        message.empty() ? std::string(code_name(error.code())) : message));
  return exit_code(error.code());
}

void print_note(std::string_view text) {
  to_stderr(fmt::format("larder: {}\n", text));
}

Result<void> print(std::string_view text) {
  return write_all(STDOUT_FILENO, std::as_bytes(std::span(text)), "stdout");
}

Result<void> write_all(int fd, std::span<const std::byte> bytes, std::string_view what) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), 1U << 30));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      return fail(Code::kInternal,
                  fmt::format("cannot write to {}: {}", what, std::strerror(errno)));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return {};
}

bool stdout_is_terminal() noexcept {
  return ::isatty(STDOUT_FILENO) == 1;
}
bool stderr_is_terminal() noexcept {
  return ::isatty(STDERR_FILENO) == 1;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

ProgressLine::ProgressLine(bool enabled)
    : enabled_(enabled && stderr_is_terminal()), start_(env::monotonic_now()), next_(start_) {}

ProgressLine::~ProgressLine() {
  clear();
}

void ProgressLine::update(double fraction, std::string_view text) {
  const env::Nanos now = env::monotonic_now();
  if (!enabled_ || now < next_) return;
  next_ = now + 500 * env::kMilli;
  fraction = std::clamp(fraction, 0.0, 1.0);
  std::string left = "--";
  if (fraction > 0.001) {
    const double gone = static_cast<double>(now - start_);
    left = base::human_duration(
        std::chrono::nanoseconds(static_cast<env::Nanos>(gone * (1.0 - fraction) / fraction)));
  }
  // \x1b[K clears what a longer line left behind.
  to_stderr(fmt::format("\r{:5.1f}%  {}  {} left\x1b[K", fraction * 100, text, left));
  shown_ = true;
}

void ProgressLine::clear() {
  if (shown_) to_stderr("\r\x1b[K");
  shown_ = false;
}

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? fmt::format("{:<{}}", row[i], widths[i])
                     : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace larder::apps
