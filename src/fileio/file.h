// SPDX-License-Identifier: Apache-2.0
// An open file or block device, and what it asks of those who read and write it directly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "env/fd.h"
#include "larder/status.h"

namespace larder::fileio {

// Past the page cache (O_DIRECT)?
enum class Direct : std::uint8_t {
  kAuto = 0,  // where the file system takes it; File::direct() tells
  kYes = 1,   // or open() fails
  kNo = 2,
};

// How FileQueue writes what covers a block of a direct file only in part.
enum class EdgeWrites : std::uint8_t {
  kAuto = 0,      // kBuffered for files, kRewrite for devices
  kBuffered = 1,  // exactly those bytes, through the page cache
  // Read the block, change it, write it; a block over the end of a file as kBuffered. What another
  // queue or process writes into the same block meanwhile may be lost.
  kRewrite = 2,
};

struct FileOptions {
  bool read = true;
  bool write = false;
  bool create = false;     // if it is not there; for its user only (mode 0600)
  bool exclusive = false;  // it must be new; of a device: nobody else may hold it, as mounts do
  // Bytes it shall have, no more and no less. Needs `write`; not for devices.
  std::optional<std::uint64_t> size = std::nullopt;
  bool reserve = false;  // with `size`: also take the blocks, so that a full disk shows now
  Direct direct = Direct::kAuto;
  EdgeWrites edge_writes = EdgeWrites::kAuto;
};

struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

// Any thread may use the const calls. Queues hold a pointer to it: neither move nor destroy it
// while operations on it have not ended.
class File {
 public:
  // Errors name the path and what to do:
  //   kNotFound          no such file or folder
  //   kAlreadyExists     `exclusive`, and it is there
  //   kPermissionDenied  the user may not, or the file system is read-only
  //   kInvalidArgument   a folder, a pipe and the like; options that contradict each other
  //   kUnsupported       Direct::kYes, and the file system cannot
  //   kConflict          the path was replaced while we opened it; a device that others hold
  //   kExhausted         no descriptor, no space
  //   kUnavailable       the disk fails
  static Result<File> open(const std::string& path, const FileOptions& options);

  const std::string& path() const noexcept { return path_; }
  bool readable() const noexcept { return options_.read; }
  bool writable() const noexcept { return options_.write; }
  bool is_device() const noexcept { return is_device_; }
  FileIdentity identity() const noexcept { return identity_; }

  // What transfers use: O_DIRECT where direct() says so.
  int fd() const noexcept { return direct_ ? direct_fd_.get() : fd_.get(); }
  // The same file through the page cache.
  int buffered_fd() const noexcept { return fd_.get(); }

  bool direct() const noexcept { return direct_; }
  // Of memory, and of offsets and lengths, in bytes, for whoever uses fd() himself; 1 without
  // O_DIRECT. Powers of two.
  std::uint32_t memory_alignment() const noexcept { return memory_alignment_; }
  std::uint32_t offset_alignment() const noexcept { return offset_alignment_; }
  // Writes that begin and end at multiples of this many bytes go without edges. A multiple of
  // offset_alignment().
  std::uint32_t write_unit() const noexcept { return write_unit_; }
  bool rewrites_edges() const noexcept { return rewrites_edges_; }

  // Bytes it has now, as the kernel says. kUnavailable: the disk fails.
  Result<std::uint64_t> size() const;
  // Whether its path still names this file. kNotFound: it was removed; kConflict: it was replaced.
  // What is open stays usable in both cases.
  Result<void> still_there() const;

 private:
  File(std::string path, const FileOptions& options) : path_(std::move(path)), options_(options) {}
  Result<void> open_first();
  Result<void> open_direct();
  void use_direct(std::uint32_t memory_alignment, std::uint32_t offset_alignment,
                  std::uint32_t preferred_block);
  Result<void> set_size() const;

  std::string path_;
  FileOptions options_;
  env::Fd fd_;
  env::Fd direct_fd_;
  FileIdentity identity_;
  std::uint32_t preferred_block_ = 0;
  bool is_device_ = false;
  bool direct_ = false;
  bool rewrites_edges_ = false;
  std::uint32_t memory_alignment_ = 1;
  std::uint32_t offset_alignment_ = 1;
  std::uint32_t write_unit_ = 1;
};

}  // namespace larder::fileio
