// SPDX-License-Identifier: Apache-2.0
// Values read from a disk of this host by the client itself, as the node said where they are: one
// read into the destination, no other thread, no copy.
//
// Nothing holds the records there meanwhile. What has the checksum of the route that the node gave
// is the value, whatever became of the record; what has not is asked of the node again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "env/clock.h"
#include "fileio/file.h"
#include "fileio/file_queue.h"
#include "larder/client.h"
#include "larder/status.h"

namespace larder::client {

struct DiskExtent {
  std::uint64_t offset = 0;  // bytes from the start of the file
  std::uint64_t bytes = 0;
};

struct DiskRead {
  std::shared_ptr<const fileio::File> file;
  std::vector<DiskExtent> extents;  // the value lies in these, in order
  std::uint64_t bytes = 0;          // of the value; the extents have them, so do the pieces
  std::uint64_t checksum = 0;       // XXH3-64
  std::span<const MutableBytes> into;
  bool good = false;  // out: read, and with that checksum
};

// One thread at a time.
class DiskReader {
 public:
  static Result<std::unique_ptr<DiskReader>> create();

  // Reads all of them, many parts at a time. kDeadlineExceeded: only once nothing touches the
  // memory any more, however long that takes. kUnavailable: the reader is of no further use.
  Result<void> read(std::span<DiskRead> reads, env::Nanos deadline);

  // Any thread: memory that many reads will go to, pinned once. Best effort.
  void add_buffer(std::span<std::byte> memory) noexcept { queue_->add_buffer(memory); }
  void remove_buffer(std::span<std::byte> memory) noexcept { queue_->remove_buffer(memory); }

 private:
  struct Part {
    std::uint32_t read = 0;
    std::uint64_t offset = 0;
    std::span<std::byte> memory;
    bool there = false;
  };
  // How far a value has come.
  struct Progress {
    std::uint32_t next = 0;  // its part to be digested
    std::uint32_t end = 0;   // behind its last
    bool failed = false;
    std::unique_ptr<Checksum64> sum;  // of one with several parts, between them
  };
  explicit DiskReader(std::unique_ptr<fileio::FileQueue> queue) : queue_(std::move(queue)) {}
  void cut(std::uint32_t number, const DiskRead& read);
  Result<void> submit(std::span<DiskRead> reads);
  void take(std::size_t count);
  bool digest_one(std::span<DiskRead> reads);
  void digest(Progress& progress, const Part& part, DiskRead& read);
  void let_go();

  std::unique_ptr<fileio::FileQueue> queue_;
  std::uint64_t part_bytes_ = 0;
  std::vector<Part> parts_;
  std::vector<Progress> progress_;    // by read
  std::vector<std::uint32_t> ready_;  // reads whose next part is there
  std::size_t submitted_ = 0;         // parts
  std::size_t digested_ = 0;
  std::size_t in_flight_ = 0;
  std::vector<std::unique_ptr<Checksum64>> sums_;  // that nobody uses
  std::vector<fileio::FileDone> done_;
};

// The files that this client can open, and readers that nobody uses just now. Any thread.
class DiskFiles {
 public:
  // Null: this process cannot open it, or what is there is another file (in a container, say). It
  // is not tried again until clear().
  std::shared_ptr<const fileio::File> find(const std::string& path, fileio::FileIdentity identity);
  // One of them could not be opened: asking for more of them is not worth it.
  bool barred() const noexcept { return barred_.load(std::memory_order_relaxed); }
  // Another node may have others.
  void clear();

  // Readers know the buffers that are registered.
  Result<std::unique_ptr<DiskReader>> borrow();
  void give_back(std::unique_ptr<DiskReader> reader);
  // Of a reader that is of no further use.
  void drop(std::unique_ptr<DiskReader> reader);
  void add_buffer(std::span<std::byte> memory);
  void remove_buffer(std::span<std::byte> memory);  // no read uses it

 private:
  static constexpr std::size_t kFilesMax = 256;
  static constexpr std::size_t kReadersKept = 8;
  struct Known {
    std::string path;
    fileio::FileIdentity identity;
    std::shared_ptr<const fileio::File> file;
  };
  std::mutex mutex_;
  std::atomic<bool> barred_{false};
  std::vector<Known> files_;
  std::vector<std::unique_ptr<DiskReader>> idle_;
  std::vector<DiskReader*> readers_;  // idle and lent
  std::vector<std::span<std::byte>> buffers_;
};

}  // namespace larder::client
