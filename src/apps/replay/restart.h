// SPDX-License-Identifier: Apache-2.0
// A replay with a crash in the middle: half of the trace, SIGKILL, the same node again, the rest.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/local_node.h"
#include "apps/replay/report.h"
#include "apps/replay/session.h"
#include "larder/status.h"

namespace larder::apps {

// The requests [from, to) of another source, with their times counted from the first of them.
class TracePart final : public TraceSource {
 public:
  TracePart(std::unique_ptr<TraceSource> whole, std::uint64_t from, std::uint64_t to)
      : whole_(std::move(whole)), from_(from), to_(to) {}
  Result<bool> next(TraceRequest& request) override;

 private:
  std::unique_ptr<TraceSource> whole_;
  std::uint64_t from_;
  std::uint64_t to_;
  std::uint64_t at_ = 0;
  std::uint64_t first_ms_ = 0;
};

struct RestartReport {
  ReplayReport first;             // the ideal starts empty
  ReplayReport second;            // and goes on here without the blocks that were lost
  std::uint64_t kept_blocks = 0;  // on a disk when the node was killed
  std::uint64_t lost_blocks = 0;  // in DRAM only: they set the ideal back, too
  double restart_seconds = 0;     // from the kill until the node answered again

  // Of both halves.
  double hit_rate() const noexcept;
  double ideal_hit_rate() const noexcept;
};

std::string restart_json(const RestartReport& report);
std::string restart_table(const RestartReport& report);

// What fits the session's node, DRAM and devices together, in blocks.
Result<std::uint64_t> capacity_with_disks(const SessionOptions& session);

// `session` is of the whole trace and of `node`; its capacity_blocks is that of all tiers together,
// 0: the node's DRAM and its devices'. Errors as of run_session(), and kUnavailable when the node
// does not come back.
Result<RestartReport> run_restart(const SessionOptions& session, LocalNode& node);

}  // namespace larder::apps
