// SPDX-License-Identifier: Apache-2.0
// Remote disks that are not in service: whose targets could not be reached at the start, or that
// failed. Tried again, at longer and longer intervals, until they are back, or until the node can
// take no disk any more: then they are left out, which the log says once of each.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "env/clock.h"
#include "larder/status.h"

namespace larder::node {

class AwayDisks {
 public:
  static constexpr env::Nanos kDelayMin = env::kSecond;
  static constexpr env::Nanos kDelayMax = 60 * env::kSecond;

  // Takes the disk of this name (a URL) into service; may block for as long as connecting takes.
  using Open = std::function<Result<void>(const std::string&)>;
  // Whether any disk can be taken at all: an error is for good. Must not block.
  using Admit = std::function<Result<void>()>;
  AwayDisks(Open open, Admit admit) : open_(std::move(open)), admit_(std::move(admit)) {}

  // Any thread. One that is known already stays as it is.
  void add(const std::string& disk, const Error& why, env::Nanos now);
  // Tries those that are due. One thread.
  void step(env::Nanos now);
  // Those that are left out are among them.
  std::vector<std::string> names() const;

 private:
  struct Away {
    std::string disk;
    env::Nanos due = 0;
    env::Nanos delay = kDelayMin;
    bool left_out = false;
  };
  std::vector<std::string> due(env::Nanos now) const;
  void note(const std::string& disk, const Result<void>& opened, env::Nanos now);
  void leave_all_out(const Error& why);
  static void leave_out(Away& one, const std::string& why);

  const Open open_;
  const Admit admit_;
  mutable std::mutex mutex_;
  std::vector<Away> away_;
};

}  // namespace larder::node
