// SPDX-License-Identifier: Apache-2.0
// The memory that a ring knows: pinned once, named by number in its reads and writes.
#pragma once

#include <liburing.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "fileio/io_backend.h"

namespace larder::fileio {

// Any thread.
class FixedBuffers {
 public:
  static constexpr std::size_t kCountMax = 1024;

  // Kernels before 5.19 have no such table: then nothing is ever added.
  void set_up(io_uring& ring);
  // See IoBackend.
  bool add(std::span<std::byte> memory) noexcept;
  void remove(std::span<std::byte> memory) noexcept;

  // To look several operations up.
  class Lookup {
   public:
    explicit Lookup(FixedBuffers& buffers);
    // The number of the buffer that holds all of its memory; -1: there is none.
    int index_of(const IoOp& op) const noexcept;

   private:
    FixedBuffers& buffers_;
    std::unique_lock<std::mutex> lock_;
  };

 private:
  struct Buffer {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    unsigned index = 0;  // the kernel's
  };
  std::vector<Buffer>::iterator after(const std::byte* address) noexcept;

  io_uring* ring_ = nullptr;
  std::atomic<std::size_t> count_{0};
  std::mutex mutex_;             // the rest
  std::vector<Buffer> buffers_;  // by address
  std::vector<unsigned> free_;
};

}  // namespace larder::fileio
