// SPDX-License-Identifier: Apache-2.0
#include "apps/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "larder/client.h"

namespace larder::apps {
namespace {

constexpr std::size_t kColumns = 5;
constexpr std::array<std::size_t, kColumns> kWidths{4, 13, 32, 34, 34};
constexpr std::array<std::string_view, kColumns> kTitles{"", "check", "found",
                                                         "what the lack costs", "how to mend"};

// Breaks at blanks; a word longer than the width is cut.
std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (text.size() > width) {
    const auto blank = text.rfind(' ', width);
    const bool cut = blank == std::string_view::npos || blank == 0;
    lines.emplace_back(text.substr(0, cut ? width : blank));
    text.remove_prefix(cut ? width : blank + 1);
  }
  lines.emplace_back(text);
  return lines;
}

void append_row(std::string& out, const std::array<std::string_view, kColumns>& cells) {
  std::array<std::vector<std::string>, kColumns> wrapped;
  std::size_t height = 1;
  for (std::size_t i = 0; i < kColumns; ++i) {
    wrapped[i] = wrap(cells[i], kWidths[i]);
    height = std::max(height, wrapped[i].size());
  }
  for (std::size_t line = 0; line < height; ++line) {
    std::string row;
    for (std::size_t i = 0; i < kColumns; ++i) {
      std::string_view cell;
      if (line < wrapped[i].size()) cell = wrapped[i][line];
      row += fmt::format("{:<{}}  ", cell, kWidths[i]);
    }
    row.resize(row.find_last_not_of(' ') + 1);
    out += row + "\n";
  }
}

// The folder of a path; "." for a bare name.
std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::string_view mark_name(Mark mark) noexcept {
  switch (mark) {
    case Mark::kOk:
      return "ok";
    case Mark::kWarn:
      return "warn";
    case Mark::kFail:
      return "fail";
  }
  return "fail";
}

Mark worst(const std::vector<Check>& checks) noexcept {
  Mark mark = Mark::kOk;
  for (const Check& check : checks) mark = std::max(mark, check.mark);
  return mark;
}

std::string render_table(const std::vector<Check>& checks) {
  std::string out;
  append_row(out, kTitles);
  std::array<std::size_t, 3> counts{};
  for (const Check& check : checks) {
    append_row(out, {mark_name(check.mark), check.id, check.found, check.cost, check.mend});
    ++counts[static_cast<std::size_t>(check.mark)];
  }
  out += fmt::format("\n{} ok, {} could be better, {} must be mended: {}\n", counts[0], counts[1],
                     counts[2],
                     counts[2] == 0 ? "Larder runs here" : "Larder cannot run here as it is");
  return out;
}

int run_doctor(const DoctorOptions& options) {
  const std::string socket = options.socket.empty() ? default_socket_path() : options.socket;
  const std::string dir = options.dir.empty() ? "." : options.dir;
  const env::HostReport report = env::probe_host(dir, folder_of(socket));
  const std::vector<Check> checks = judge_host(report);
  const std::string text = options.json ? render_json(report, checks) : render_table(checks);
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return written && worst(checks) != Mark::kFail ? 0 : 1;
}

}  // namespace larder::apps
