// SPDX-License-Identifier: Apache-2.0
// Memory that engines on one machine share: a memfd with a control page behind the data. The page
// says whether the owner still lends it; whoever maps it looks before and after each copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "env/fd.h"
#include "larder/status.h"

namespace larder::transfer {

// The owner's side.
class SharedMemory {
 public:
  // `bytes` is rounded up to whole pages. Zeros; pages are touched now. kInvalidArgument (0 bytes),
  // kTooLarge (beyond 64 TiB), kExhausted.
  static Result<std::unique_ptr<SharedMemory>> create(std::uint64_t bytes);
  // Takes the memory back: mappings elsewhere stay, and say so.
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  int fd() const noexcept { return fd_.get(); }
  std::uint64_t inode() const noexcept { return inode_; }

 private:
  SharedMemory() = default;
  env::Fd fd_;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t inode_ = 0;
};

// Another process's memory, here.
class SharedMapping {
 public:
  // Maps a descriptor that claims to be a SharedMemory of `bytes` bytes. kCorrupt: it is something
  // else, or could shrink (a read would end in SIGBUS). kExhausted.
  static Result<std::shared_ptr<SharedMapping>> map(const env::Fd& fd, std::uint64_t bytes);
  static std::uint64_t inode_of(const env::Fd& fd) noexcept;  // 0: unknown
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  std::byte* data() const noexcept { return data_; }
  // The owner has not taken the memory back, as far as it could say so.
  bool lent() const noexcept;

 private:
  SharedMapping(std::byte* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* const data_;
  const std::uint64_t bytes_;  // without the control page
};

}  // namespace larder::transfer
