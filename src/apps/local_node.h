// SPDX-License-Identifier: Apache-2.0
// A node process of our own, in a directory of its own, gone when we are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/child_process.h"
#include "env/clock.h"
#include "env/temp_directory.h"
#include "larder/status.h"

namespace larder::apps {

struct LocalNodeOptions {
  std::uint64_t hot_capacity = 0;           // bytes; 0: the node's default
  std::vector<std::string> flags;           // further flags of `larder node`
  env::Nanos patience = 30 * env::kSecond;  // for its memory to be ready and its socket to answer
};

// Start it from the main thread (see ChildProcess). Not thread safe.
class LocalNode {
 public:
  // Runs `larder node` from this very program in a new directory under $TMPDIR (else /tmp), on a
  // Unix socket and free ports. Errors: kExhausted (memory), kUnavailable (it ended or did not
  // answer; the message carries the end of its log), kCancelled (a stop signal came).
  static Result<std::unique_ptr<LocalNode>> start(const LocalNodeOptions& options);
  ~LocalNode();  // stops the process and removes the directory
  LocalNode(const LocalNode&) = delete;
  LocalNode& operator=(const LocalNode&) = delete;

  std::string address() const;  // "unix:..."
  const std::string& directory() const noexcept { return directory_.path(); }
  std::string log_tail() const;  // its last lines
  // SIGKILL, then the same command line on the same directory again, until it answers. Errors as of
  // start().
  Result<void> kill_and_restart();
  // Ends it in good order; kInternal when it did not exit 0.
  Result<void> stop();

 private:
  explicit LocalNode(env::TempDirectory directory) : directory_(std::move(directory)) {}
  Result<void> launch(const LocalNodeOptions& options);
  Result<void> wait_ready(env::Nanos patience);
  Error died(const std::string& how) const;

  env::TempDirectory directory_;
  LocalNodeOptions options_;
  std::optional<ChildProcess> child_;
};

// Bytes that a new node may take here without pushing this machine into swap or its cgroup into
// the killer; 0 when unknown.
std::uint64_t spare_memory();

}  // namespace larder::apps
