// SPDX-License-Identifier: Apache-2.0
// The disks of the node that this client can read by itself: files and disks of its own host that
// it may open, and remote namespaces that it reaches. And readers that nobody uses just now.
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

#include "client/disk_reader.h"
#include "client/remote_disk.h"
#include "env/clock.h"
#include "fileio/file.h"
#include "larder/status.h"

namespace larder::client {

// A disk as the node names it.
struct DiskName {
  std::uint32_t number = 0;  // of this node, for not_wanted()
  std::string path;          // a file's, or the URL of a namespace
  fileio::FileIdentity identity;
  std::string id;  // of a namespace: block::Identity::id

  bool is_remote() const noexcept { return !id.empty(); }
};

// One of both.
struct ReadableDisk {
  std::shared_ptr<const fileio::File> file;
  std::shared_ptr<RemoteDisk> remote;
};

// Any thread.
class ReadableDisks {
 public:
  static constexpr env::Nanos kRetryAfter = 10 * env::kSecond;

  // `retry_after`: how long a disk that could not be opened, or failed, is left to the node.
  explicit ReadableDisks(env::Nanos retry_after = kRetryAfter) : retry_after_(retry_after) {}

  // Null: this process cannot open it, what is there is another file (in a container, say), or the
  // way to it is still being made.
  std::shared_ptr<const ReadableDisk> find(const DiskName& name);
  // Numbers of disks that the node need not name just now.
  std::vector<std::uint32_t> not_wanted();
  // Another node may have others.
  void clear();

  // Reads all of them, many parts at a time, of all their disks side by side, until `deadline`:
  // comes back only once nothing touches the memory any more, however long that takes. Those that
  // are not good() then are for the node.
  void read(std::span<DiskRead> reads, qos::Purpose purpose, env::Nanos deadline);

  // Memory that many reads will go to. No read uses it when it is removed.
  void add_buffer(std::span<std::byte> memory);
  void remove_buffer(std::span<std::byte> memory);

 private:
  static constexpr std::size_t kDisksMax = 256;
  static constexpr std::size_t kReadersKept = 8;  // of a disk; of all files together
  using Readers = std::vector<std::unique_ptr<DiskReader>>;
  struct Known {
    DiskName name;
    std::shared_ptr<const ReadableDisk> disk;  // null: cannot be opened
    Readers idle;                              // of a namespace
    env::Nanos retry_at = 0;                   // of one that is of no use: then it is forgotten
    bool usable() const noexcept;
    bool opening() const noexcept;
  };
  // What one thread reads with just now.
  struct Lent {
    std::unique_ptr<DiskReader> reader;
    std::shared_ptr<const ReadableDisk> disk;
    std::vector<DiskRead*> reads;
    bool broken = false;
  };
  static std::shared_ptr<const ReadableDisk> open(const DiskName& name);
  std::vector<Lent> lend(std::span<DiskRead> reads);
  std::unique_ptr<DiskReader> reader_of(const ReadableDisk& disk);
  void give_back(Lent lent);
  Readers* idle_of(const ReadableDisk& disk);

  const env::Nanos retry_after_;
  std::mutex mutex_;
  std::atomic<std::size_t> count_{0};  // of known_
  std::vector<Known> known_;
  Readers idle_;                       // of files
  std::vector<DiskReader*> of_files_;  // idle and lent
  std::vector<std::span<std::byte>> buffers_;
};

}  // namespace larder::client
