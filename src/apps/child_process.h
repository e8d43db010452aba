// SPDX-License-Identifier: Apache-2.0
// A process of our own that never outlives us.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "env/clock.h"
#include "larder/status.h"

namespace larder::apps {

struct ChildOptions {
  std::string program;                 // path; not searched for
  std::vector<std::string> arguments;  // without the program's name
  std::string output_file;             // gets stdout and stderr (created, truncated)
};

// Not thread safe. The kernel kills the child when the *thread* that started it ends, so start it
// from one that lives long enough (main).
class ChildProcess {
 public:
  // Errors: kInvalidArgument (cannot open the output file), kExhausted (cannot fork), kNotFound
  // (cannot execute the program).
  static Result<ChildProcess> start(const ChildOptions& options);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();  // stop() with two seconds

  // SIGTERM, then SIGKILL when it has not ended after `patience`; returns when it is gone.
  void stop(env::Nanos patience) noexcept;
  // How it ended ("exit code 2", "signal 9"); nothing while it runs. Reaps, never blocks.
  std::optional<std::string> ended() noexcept;
  pid_t pid() const noexcept { return pid_; }
  // The exit code once ended; 128 + N for signal N.
  int code() const noexcept;

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  bool reap(bool block) noexcept;

  pid_t pid_;  // of a child not yet reaped; -1 after
  int status_ = 0;
};

// The path of the running program.
Result<std::string> own_program();

}  // namespace larder::apps
