// SPDX-License-Identifier: Apache-2.0
// Parts of a round, each in a process of its own: nothing that a store keeps in memory helps it,
// and one that is to die does.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "larder/status.h"

namespace larder::vs_rocksdb {

struct Figures {
  double open_s = 0;
  double write_s = 0;
  double read_s = 0;
  double cpu_s = 0;              // of all threads, while it wrote or read
  std::uint64_t disk_bytes = 0;  // written by the process, as the kernel counts
};
using Phase = std::function<Result<Figures>()>;
enum class Ends : std::uint8_t {
  kWell,
  kKilled,  // by SIGKILL, right after its last figure
};

// Errors: of the phase; kInternal: its process ended otherwise.
Result<Figures> run_phase(const Phase& phase, Ends ends);

double cpu_seconds();  // of this process so far

// Writes what is dirty to disk and empties the caches of files: all of them where we may, else
// those of the files in the folder.
void drop_caches(const std::string& directory);

}  // namespace larder::vs_rocksdb
