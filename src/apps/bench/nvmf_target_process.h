// SPDX-License-Identifier: Apache-2.0
// Our target in a process of its own, with one namespace in memory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "env/clock.h"
#include "larder/status.h"

namespace larder::apps {

// Not thread safe.
class NvmfTargetProcess {
 public:
  // Forks: call it before this process starts threads. Serves when it returns.
  static Result<std::unique_ptr<NvmfTargetProcess>> start(std::uint64_t bytes);
  ~NvmfTargetProcess();  // ends and reaps it
  NvmfTargetProcess(const NvmfTargetProcess&) = delete;
  NvmfTargetProcess& operator=(const NvmfTargetProcess&) = delete;

  const std::string& url() const noexcept { return url_; }
  pid_t pid() const noexcept { return pid_; }

 private:
  NvmfTargetProcess() = default;
  pid_t pid_ = -1;
  std::string url_;
};

// From now on this thread, and what it starts, runs on that core of those it may run on, counted
// from 0; with fewer of them, wherever it did. False then.
bool pin_to_core(unsigned core);

// What a process took of all cores since it began; 0 when it is gone.
env::Nanos cpu_time_of(pid_t pid);

}  // namespace larder::apps
