// SPDX-License-Identifier: Apache-2.0
// What a FileDevice and its queues share.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "block/block_device.h"
#include "fileio/file_queue.h"

namespace larder::block {

// Zeros to write from, which take no memory until somebody writes to them, which nobody may.
inline constexpr std::uint32_t kZeroesAlignment = 4096;
std::span<std::byte> zeroes() noexcept;

// Any thread.
class FileDeviceState {
 public:
  FileDeviceState(fileio::File lock, fileio::File file, bool reserved)
      : lock_(std::move(lock)), file_(std::move(file)), reserved_(reserved) {}

  const fileio::File& file() const noexcept { return file_; }
  // See kDiscard and kWriteZeroes; both block. 0, or an errno. EOPNOTSUPP of zero(): write them.
  int discard(std::uint64_t offset, std::uint64_t bytes) const;
  int zero(std::uint64_t offset, std::uint64_t bytes);

  // The kernel tells of lost writes once, and there may be several devices (FileDevice::grown()).
  void note_flush_failed() noexcept { flush_failed_.store(true); }
  bool flush_failed() const noexcept { return flush_failed_.load(); }

  // Tells the queue of all buffers, now and later. kExhausted: kQueuesMax are there.
  Result<void> enter(fileio::FileQueue* queue);
  void leave(fileio::FileQueue* queue);
  bool add_buffer(std::span<std::byte> memory);
  void remove_buffer(std::span<std::byte> memory);

 private:
  fileio::File lock_;  // never read or written: its descriptor holds the lock
  fileio::File file_;
  const bool reserved_;
  std::atomic<bool> cannot_zero_{false};
  std::atomic<bool> flush_failed_{false};
  // Guards the lists. Held while queues are told, although that asks the kernel: a queue that came
  // or went meanwhile would keep memory pinned that is not there any more. Not on the path of I/O.
  std::mutex mutex_;
  std::vector<fileio::FileQueue*> queues_;
  std::vector<std::span<std::byte>> buffers_;
};

// kExhausted: no memory.
Result<std::unique_ptr<BlockQueue>> make_file_queue(std::shared_ptr<DeviceBooks> books,
                                                    std::shared_ptr<FileDeviceState> state,
                                                    std::unique_ptr<fileio::IoBackend> backend,
                                                    std::size_t depth);

}  // namespace larder::block
