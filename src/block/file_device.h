// SPDX-License-Identifier: Apache-2.0
// A block device in a regular file, or a disk or partition of this host, over the file core
// (io_uring or threads), past the page cache where the file system allows it.
//
// Flush is fdatasync. On a file it also writes what the file system needs to find the blocks again:
// the first write to a reserved block turns "reserved" into "written" in the file system's journal,
// which fdatasync commits; and in both cases the disk is told to empty its cache. On a raw device
// it does the same to device and disk. (BLKFLSBUF would only empty the kernel's cache.)
//
// Discard frees the blocks of a file (a hole), or, where the file was reserved, marks them as not
// written, so that the space stays its own; on a raw device it is BLKDISCARD.
//
// Zeroes are written by marking the blocks of a file as not written (they may take space, as a
// write does), where the file system can, else from memory; on a raw device it is BLKZEROOUT.
//
// A queue that is destroyed while the disk hangs: as fileio::FileQueue, which gives it ten seconds,
// then logs that callers' memory may still be touched.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "block/block_device.h"
#include "fileio/file.h"
#include "fileio/io_backend.h"

namespace larder::block {

// One backend for each queue, of at least `depth`.
using MakeBackend = std::function<Result<std::unique_ptr<fileio::IoBackend>>(std::size_t depth)>;

struct FileDeviceOptions {
  std::string path = {};
  bool create = false;  // if it is not there; needs `bytes`
  // Of a file: created with, or grown to, this many bytes, a multiple of the block. It never
  // shrinks. Empty: it is used as it is, rounded down to blocks.
  std::optional<std::uint64_t> bytes = std::nullopt;
  bool reserve = true;            // with `bytes`: takes the space, so that a full disk shows now
  std::uint64_t bytes_min = 0;    // fewer is an error
  std::uint32_t block_bytes = 0;  // 0: 4096, or more where the file system asks for that
  fileio::Direct direct = fileio::Direct::kAuto;
  MakeBackend make_backend = nullptr;  // null: io_uring, threads where that is forbidden
  HealthLimits health = {};
};

class FileDeviceState;

class FileDevice final : public BlockDevice {
 public:
  static constexpr std::uint64_t kTransferMax = 1ULL << 30U;
  static constexpr std::uint64_t kZeroesMax = 64ULL << 20U;
  static constexpr std::size_t kBuffersMax = 1024;  // that are known at a time

  // The device is locked until it and its last queue are gone. A file that was created and could
  // not be used is removed again; one that was grown has its old size.
  //   kNotFound, kPermissionDenied, kUnavailable   as fileio::File::open()
  //   kExhausted        less space is free than is to be reserved; no descriptors
  //   kConflict         another process (named) or another device of this one has it
  //   kInvalidArgument  neither a file nor a block device; too small; larger than `bytes`;
  //                     block_bytes too small for it; options that contradict each other
  //   kUnsupported      Direct::kYes, and the file system cannot
  static Result<std::shared_ptr<FileDevice>> open(const FileDeviceOptions& options);
  ~FileDevice() override;

  // Bytes that the file or disk has by now, in whole blocks; geometry() stays what it was. Blocks
  // of a file that was cut short end reads with kConflict. Errors as fileio::File::size().
  Result<std::uint64_t> bytes_now() const;
  // The same as another device, with the size that it has by now; one lock holds it for both, and a
  // flush of either covers what either wrote. kUnavailable: this one has failed.
  // kInvalidArgument: it is not larger. Errors of bytes_now().
  Result<std::shared_ptr<FileDevice>> grown() const;

  bool add_buffer(std::span<std::byte> memory) override;
  void remove_buffer(std::span<std::byte> memory) override;

  bool direct() const noexcept;  // past the page cache

 private:
  FileDevice(std::shared_ptr<DeviceBooks> books, std::shared_ptr<FileDeviceState> state,
             MakeBackend make_backend, const HealthLimits& health);
  Result<std::unique_ptr<BlockQueue>> make_queue(std::size_t depth) override;

  std::shared_ptr<FileDeviceState> state_;
  const MakeBackend make_backend_;
  const HealthLimits health_limits_;
};

}  // namespace larder::block
