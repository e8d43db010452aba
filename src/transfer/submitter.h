// SPDX-License-Identifier: Apache-2.0
// From requests to work: checks each request, selects a transport, copies what is small at once,
// merges neighbours, and starts jobs for the rest.
//
// Cost of a small copy within the host (4 KiB): a check against one range each side, a selection
// that is usually the last request's, the copy, two relaxed stores. Locks, atomics of counters and
// the clock are per submit, not per request.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qos/telemetry.h"
#include "transfer/batch.h"
#include "transfer/copy_transport.h"
#include "transfer/dispatcher.h"
#include "transfer/memory_table.h"
#include "transfer/merge.h"
#include "transfer/peer.h"
#include "transfer/segment.h"
#include "transfer/submit_group.h"

namespace larder::transfer {

struct SubmitterParts {
  MemoryTable& memory;
  SegmentTable& segments;
  const Selector& selector;
  Breakers& breakers;
  Dispatcher& dispatcher;
  qos::Telemetry& telemetry;
};

// Any thread; one submit of a batch at a time.
class Submitter {
 public:
  Submitter(const SubmitterParts& parts, std::uint64_t quarantine_bytes_max)
      : parts_(parts), quarantine_bytes_max_(quarantine_bytes_max) {}
  // `then` runs when all accepted requests have completed; empty: nothing does.
  Result<std::vector<SubmitResult>> submit(const BatchRef& batch,
                                           std::span<const TransferRequest> requests,
                                           std::function<void()> then);

 private:
  struct Planned {
    std::size_t request = 0;
    std::uint32_t task = 0;
    MemoryRangeRecord* local = nullptr;
    MemoryRangeRecord* target = nullptr;  // in this process
    RangePin local_pin;                   // for jobs; copies share pins
    RangePin target_pin;
    const std::shared_ptr<const Segment>* segment = nullptr;
    const std::shared_ptr<const RemoteDescription>* remote = nullptr;  // of a peer
    const RemoteBuffer* buffer = nullptr;
    std::byte* near = nullptr;  // see Piece
    const SharedMapping* mapping = nullptr;
    Query query;
    Selection selection;
    std::int64_t deadline = 0;
    bool copy_now = false;
    std::unique_ptr<Error> failure;  // of a copy that was made
  };
  struct Call;

  Result<void> plan(Call& call, const TransferRequest& request, Planned& out) const;
  Result<void> find_target(Call& call, const TransferRequest& request, Planned& out) const;
  static Result<void> find_remote(Call& call, const TransferRequest& request, Planned& out);
  Result<void> select(Call& call, const TransferRequest& request, Planned& out) const;
  bool unmapped(const Planned& item) const;
  static Error not_mapped_now(const Planned& item);
  void accept(Call& call, Planned& planned) const;
  static void choose_copies(Call& call);
  void plan_all(Call& call, std::vector<SubmitResult>& results) const;
  void copy_small(Call& call) const;
  static void end_copies(Call& call);
  void start_jobs(Call& call) const;
  static MergeItem merge_item(const Call& call, const Planned& item);
  Job* make_job(Call& call, Planned& item, const MergedRun& run) const;
  void refuse_start(Call& call, std::size_t first, std::size_t count) const;

  const SubmitterParts parts_;
  const std::uint64_t quarantine_bytes_max_;
};

}  // namespace larder::transfer
