// SPDX-License-Identifier: Apache-2.0
#include "apps/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "larder/client.h"

namespace larder::apps {
namespace {

using nlohmann::ordered_json;

constexpr int kJsonVersion = 1;  // raised when a name goes or changes its meaning
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

ordered_json optional_number(std::optional<std::uint64_t> value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json host_json(const env::HostReport& host) {
  const auto& [kernel, major, minor, cpu, memory, huge, memfd, ring, dir, limits, net] = host;
  return {
      {"kernel", kernel},
      {"cores", cpu.usable},
      {"cores_cgroup", cpu.quota ? ordered_json(*cpu.quota) : ordered_json(nullptr)},
      {"numa_nodes", cpu.numa_nodes},
      {"avx2", cpu.has("avx2")},
      {"avx512", cpu.has("avx512f")},
      {"memory_bytes", memory.total},
      {"memory_available_bytes", memory.available},
      {"memory_cgroup_bytes", optional_number(memory.cgroup_limit)},
      {"dev_shm_bytes", memory.shm_size},
      {"huge_pages", huge.total},
      {"huge_pages_free", huge.free},
      {"huge_page_bytes", huge.page_size},
      {"thp", huge.thp},
      {"thp_shared", huge.shmem},
      {"huge_memfd", huge.memfd_errno == 0},
      {"memfd", memfd.create_errno == 0},
      {"memfd_seal", memfd.seal_held},
      {"io_uring", ring.setup_errno == 0},
      {"io_uring_disabled", ring.disabled ? ordered_json(*ring.disabled) : ordered_json(nullptr)},
      {"directory", dir.path},
      {"directory_writable", dir.write_errno == 0},
      {"directory_filesystem", dir.filesystem},
      {"directory_free_bytes", dir.free},
      {"o_direct", dir.direct_errno == 0},
      {"memlock_bytes", optional_number(limits.memlock_soft)},
      {"open_files", optional_number(limits.files_soft)},
      {"tcp_rmem_max_bytes", net.tcp_rmem_max},
      {"tcp_wmem_max_bytes", net.tcp_wmem_max},
      {"socket_folder", net.socket_dir},
      {"socket_folder_works", net.socket_errno == 0},
  };
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

std::string render_json(const env::HostReport& report, const std::vector<Check>& checks) {
  ordered_json list = ordered_json::array();
  for (const Check& check : checks) {
    list.push_back({{"id", check.id},
                    {"mark", mark_name(check.mark)},
                    {"found", check.found},
                    {"cost", check.cost},
                    {"mend", check.mend}});
  }
  const ordered_json all{{"version", kJsonVersion},
                         {"verdict", mark_name(worst(checks))},
                         {"checks", std::move(list)},
                         {"host", host_json(report)}};
  // A path may hold any bytes; what is no UTF-8 is replaced instead of refused.
  return all.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
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
