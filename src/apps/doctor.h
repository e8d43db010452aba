// SPDX-License-Identifier: Apache-2.0
// `larder doctor`: what this host gives, what the lack of the rest costs, and how to mend it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "env/host_probe.h"

namespace larder::apps {

struct DoctorOptions {
  bool json = false;
  std::string dir = ".";  // where data would be kept; files are tried there and removed
  std::string socket;     // path of the node's Unix socket; empty: default_socket_path()
};

// Probes the host, prints the report to stdout, and returns the exit status: 0, or 1 when
// something is missing that Larder cannot run without.
int run_doctor(const DoctorOptions& options);

enum class Mark : std::uint8_t { kOk, kWarn, kFail };
std::string_view mark_name(Mark mark) noexcept;  // "ok", "warn", "fail"

// One line of the report. `cost` and `mend` are empty where there is nothing to mend.
struct Check {
  std::string id;  // stable, for scripts: "io_uring"
  Mark mark = Mark::kOk;
  std::string found;
  std::string cost;
  std::string mend;

  static Check ok(std::string id, std::string found);
  static Check warn(std::string id, std::string found, std::string cost, std::string mend);
  static Check fail(std::string id, std::string found, std::string cost, std::string mend);
};
std::string errno_text(int number);  // "Permission denied"

// Pure: the verdicts on a report, the worst of them, and the two forms in which they are printed.
std::vector<Check> judge_host(const env::HostReport& report);
Mark worst(const std::vector<Check>& checks) noexcept;
std::string render_table(const std::vector<Check>& checks);
std::string render_json(const env::HostReport& report, const std::vector<Check>& checks);

}  // namespace larder::apps
