// SPDX-License-Identifier: Apache-2.0
// Reads what nobody asked for, to find rot while there are still other copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "block/aligned_buffer.h"
#include "block/block_device.h"
#include "extent/record_store.h"

namespace larder::extent {

struct ScrubStats {
  std::uint64_t records = 0;  // verified, in all rounds
  std::uint64_t bytes = 0;    // read for that
  std::uint64_t bad = 0;      // reported
  std::uint64_t rounds = 0;   // through the whole device
};

// One thread at a time. Goes through the records in order of cells, again and again, and compares
// each payload with the checksum in its header. A record that is being verified is pinned, also
// between steps.
class Scrubber {
 public:
  enum class Fault : std::uint8_t {
    kPayload = 0,     // not what was written
    kHeader = 1,      // the same of the header: the record would not be found again
    kUnreadable = 2,  // the device says so
  };
  // In step(). The callee decides: release the record, fetch another copy.
  using Report = std::function<void(RecordId, Fault)>;

  // `piece_bytes` of one read, rounded up to the block. Errors as open_queue(); kExhausted.
  static Result<std::unique_ptr<Scrubber>> create(RecordStore& store, Report report,
                                                  std::size_t piece_bytes = 1U << 20U);

  // Reads up to `bytes_max`, at least one piece; waits for the device. True: it has come to the end
  // of a round. kUnavailable: the device has failed.
  Result<bool> step(std::uint64_t bytes_max);
  const ScrubStats& stats() const noexcept { return stats_; }

 private:
  struct Job;
  Scrubber(RecordStore& store, Report report);
  Result<bool> begin(std::uint64_t& read);
  Result<void> go_on(std::uint64_t bytes_max, std::uint64_t& read);
  void finish(std::optional<Fault> fault);

 public:
  ~Scrubber();

 private:
  RecordStore& store_;
  const Report report_;
  std::unique_ptr<block::BlockQueue> queue_;
  block::AlignedBuffer piece_;
  block::AlignedBuffer header_;
  std::unique_ptr<Job> job_;  // none: between records
  std::uint32_t cell_ = 0;    // where the next is looked for
  ScrubStats stats_;
};

}  // namespace larder::extent
