// SPDX-License-Identifier: Apache-2.0
// What a person at a terminal sees: errors, progress, tables.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "env/clock.h"
#include "larder/status.h"

namespace larder::apps {

// "larder: error: ..." on stderr; returns the exit code that goes with the error.
int report_error(const Error& error);
void print_note(std::string_view text);  // "larder: ..." on stderr
// All of `text` to stdout. A closed pipe or a full disk is kInternal.
Result<void> print(std::string_view text);
Result<void> write_all(int fd, std::span<const std::byte> bytes, std::string_view what);

bool stdout_is_terminal() noexcept;
bool stderr_is_terminal() noexcept;
// Control bytes as \xNN: a key cannot send escape codes to the terminal.
std::string printable(std::string_view text);
// "1,234,567"
std::string grouped(std::uint64_t number);

// One line on stderr that is rewritten at most every half second. Silent unless `enabled` and
// stderr is a terminal. Not thread safe.
class ProgressLine {
 public:
  explicit ProgressLine(bool enabled);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  // `fraction` within 0..1; the time left is judged from it and the time gone.
  void update(double fraction, std::string_view text);
  void clear();

 private:
  bool enabled_;
  bool shown_ = false;
  env::Nanos start_;
  env::Nanos next_;
};

// Columns padded to their widest cell; the first is left-aligned, the others right-aligned.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace larder::apps
