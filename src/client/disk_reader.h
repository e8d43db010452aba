// SPDX-License-Identifier: Apache-2.0
// Values read from a disk by the client itself, as the node said where they are: into the
// destination, no other thread, no copy.
//
// Nothing holds the records there meanwhile. What has the checksum of the route that the node gave
// is the value, whatever became of the record; what has not is asked of the node again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "client/bounce_blocks.h"
#include "client/part_queue.h"
#include "larder/client.h"
#include "larder/status.h"

namespace larder::client {

struct ReadableDisk;

struct DiskExtent {
  std::uint64_t offset = 0;  // bytes from the start of the file or namespace
  std::uint64_t bytes = 0;
};

struct DiskRead {
  std::shared_ptr<const ReadableDisk> disk;
  std::vector<DiskExtent> extents;  // the value lies in these, in order
  std::uint64_t bytes = 0;          // of the value; the extents have them, so do the pieces
  std::uint64_t checksum = 0;       // XXH3-64
  std::span<const MutableBytes> into;
  bool good = false;  // out: read, and with that checksum
};

// Reads of one queue. One thread at a time.
class DiskReader {
 public:
  explicit DiskReader(std::unique_ptr<PartQueue> queue) : queue_(std::move(queue)) {}

  // Takes them on; they stay where they are until done() or let_go(). `large`: many bytes are read
  // together, here and elsewhere.
  void begin(std::vector<DiskRead*> reads, bool large, qos::Purpose purpose);
  // Submits, takes what has come, digests one part. False: there was nothing to digest.
  // kUnavailable: the queue is of no further use.
  Result<bool> step();
  bool done() const noexcept { return digested_ == parts_.size(); }
  // Sleeps until something has come, or `deadline`.
  void wait(env::Nanos deadline);
  // Gives up the rest. Comes back only once nothing touches the memory any more, however long that
  // takes.
  void let_go();

  // Any thread; see PartQueue.
  void add_buffer(std::span<std::byte> memory) noexcept { queue_->add_buffer(memory); }
  void remove_buffer(std::span<std::byte> memory) noexcept { queue_->remove_buffer(memory); }

 private:
  // Bytes that lie together on the disk.
  struct Part {
    std::uint32_t read = 0;
    std::uint32_t segment = 0;  // its first
    std::uint32_t segments = 0;
    std::uint64_t offset = 0;
    bool there = false;
  };
  // And together in memory: in a piece of the destination, or in a block beside it for what begins
  // or ends within a block, to be copied into the pieces from `piece` on.
  struct Segment {
    std::span<std::byte> value;
    bool bounced = false;
    std::uint32_t piece = 0;
    std::size_t piece_at = 0;
  };
  // How far a value has come.
  struct Progress {
    std::uint32_t next = 0;  // its part to be digested
    std::uint32_t end = 0;   // behind its last
    bool failed = false;
    std::unique_ptr<Checksum64> sum;  // of one with several parts, between them
  };
  // A place in the destination.
  struct Cursor {
    std::uint32_t piece = 0;
    std::size_t at = 0;
  };
  bool cut(std::uint32_t number);
  std::uint64_t cut_part(const DiskRead& read, Cursor& cursor, Part& part, std::uint64_t bytes);
  std::uint64_t add_segment(const DiskRead& read, Cursor& cursor, std::uint64_t bytes);
  Result<void> submit();
  void take(std::size_t count);
  void arrived(std::uint32_t number, bool ok);
  bool digest_one();
  void digest(Progress& progress, const Part& part, DiskRead& read);
  void copy_out(const Segment& segment, const DiskRead& read);
  void reset();

  std::unique_ptr<PartQueue> queue_;
  PartQueue::Limits limits_;
  std::uint64_t part_bytes_ = 0;
  qos::Purpose purpose_;
  std::vector<DiskRead*> reads_;
  std::vector<Part> parts_;
  std::vector<Segment> segments_;
  std::vector<block::Piece> pieces_;  // by segment: what is read, whole blocks
  BounceBlocks bounces_;
  std::vector<Progress> progress_;    // by read
  std::vector<std::uint32_t> ready_;  // reads whose next part is there
  std::size_t submitted_ = 0;         // parts
  std::size_t digested_ = 0;
  std::size_t in_flight_ = 0;
  std::vector<std::unique_ptr<Checksum64>> sums_;  // that nobody uses
  std::array<PartDone, PartQueue::kDepth> done_;
};

}  // namespace larder::client
