// SPDX-License-Identifier: Apache-2.0
// A block device that misbehaves on purpose, around another one: for tests and the simulator. From
// its seed: used by one thread, a run is the same every time.
//
// It has a volatile cache like a real disk's: what is written or discarded stays in it until a
// flush (or until it is full) carries them to the device below. cut_power() loses it but for a part
// that the seed chooses, by sectors; what is below is then what a machine finds when it starts
// again, so a test goes on with a new FaultDevice around the same device. Destroyed without a cut,
// it carries all down: the end of a process loses nothing of what a disk has taken.
#pragma once

#include <cstdint>
#include <memory>

#include "block/block_device.h"
#include "block/write_cache.h"

namespace larder::block {

// Probabilities are 0 to 1, drawn once per operation. All zero: nothing is changed.
struct FaultOptions {
  std::uint64_t seed = 1;
  double read_error = 0;  // EIO
  double write_error =
      0;  // EIO, of zeroes, too, after a part from the front, to any sector, was written
  double flush_error = 0;    // EIO, and of the cache only a part is kept, as after a cut
  double discard_error = 0;  // EIO, nothing is discarded
  double late = 0;           // ends only some polls later
  double reorder = 0;        // not the oldest of those that could end is next
  double lost_write = 0;     // ends well and is nowhere
  double rot = 0;            // a write of which one bit is stored wrong
  double misread = 0;        // a read of which one bit is wrong, once
  double lying_flush = 0;    // ends well and carries nothing down
  unsigned late_polls_max = 8;
  // Power goes when the change (write of any kind, discard or flush) of this number, from 1, is
  // taken; it is in flight then. 0: never.
  std::uint64_t cut_at = 0;
  CutKind cut_kind = CutKind::kAny;
  std::uint64_t cache_bytes_max = 64U << 20U;  // beyond it the cache is carried down
  HealthLimits health = {};
};

// How often each fault happened.
struct FaultCounts {
  std::uint64_t changes = 0;  // taken; what cut_at counts
  std::uint64_t errors = 0;
  std::uint64_t torn = 0;  // writes that failed with a part written
  std::uint64_t late = 0;
  std::uint64_t reordered = 0;
  std::uint64_t lost = 0;
  std::uint64_t rotten = 0;
  std::uint64_t misread = 0;
  std::uint64_t lies = 0;
};

class FaultMedium;

// Operations are carried out by the poll() or wait() that gives them back, under one lock.
class FaultDevice final : public BlockDevice {
 public:
  // Has the geometry of `inner`, which nobody else may use meanwhile. kInvalidArgument: no device;
  // else as open_queue().
  static Result<std::shared_ptr<FaultDevice>> create(std::shared_ptr<BlockDevice> inner,
                                                     const FaultOptions& options);
  ~FaultDevice() override;

  bool add_buffer(std::span<std::byte> memory) override;
  void remove_buffer(std::span<std::byte> memory) override;
  void set_witness(Witness witness) override;

  // At once; what is in flight ends with kUnavailable, and a part of it may be below. The device
  // has failed then. Errors: of the device below.
  Result<void> cut_power(CutKind kind = CutKind::kAny);
  // Nothing ends, and quiesce() says false, until resume(). A queue that is destroyed meanwhile has
  // its operations carried out first.
  void stall();
  void resume();
  // Reads and writes that meet the range fail with EIO, for good.
  void set_bad(std::uint64_t offset, std::uint64_t bytes);
  // While it is, writes end with kExhausted (ENOSPC), after a part from the front, to any sector,
  // was written: a file that was not reserved, on a full disk.
  void set_full(bool full);
  // One bit at rest goes wrong. Carries the cache down first.
  Result<void> flip_bit(std::uint64_t byte, unsigned bit);
  FaultCounts counts() const;

 private:
  FaultDevice(std::shared_ptr<DeviceBooks> books, std::shared_ptr<BlockDevice> inner,
              std::shared_ptr<FaultMedium> medium);
  Result<std::unique_ptr<BlockQueue>> make_queue(std::size_t depth) override;

  std::shared_ptr<BlockDevice> inner_;
  std::shared_ptr<FaultMedium> medium_;
};

}  // namespace larder::block
