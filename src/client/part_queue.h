// SPDX-License-Identifier: Apache-2.0
// Where parts of values are read from: a ring for the files of this host, or an I/O queue of one
// remote namespace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "block/block_device.h"
#include "env/clock.h"
#include "fileio/file.h"
#include "larder/status.h"

namespace larder::client {

struct PartOp {
  const fileio::File* file = nullptr;  // of a ring; a namespace has but itself
  std::uint64_t offset = 0;            // a multiple of Limits::block_bytes
  // 1 to Limits::pieces_max, each of a multiple of block_bytes; they stay until the part has ended.
  std::span<const block::Piece> into;
  std::uint64_t tag = 0;
  qos::Purpose purpose;
};

struct PartDone {
  std::uint64_t tag = 0;
  bool ok = false;
};

// One thread at a time, but for the buffers.
class PartQueue {
 public:
  static constexpr std::size_t kDepth = 32;
  struct Limits {
    std::uint32_t block_bytes = 1;
    std::size_t pieces_max = 1;
  };
  virtual ~PartQueue() = default;

  virtual Limits limits() const noexcept = 0;
  // At most kDepth in flight. kUnavailable: the queue is of no further use. Others: this part.
  virtual Result<void> submit(const PartOp& op) = 0;
  virtual void start() = 0;
  virtual std::size_t poll(std::span<PartDone> into) = 0;
  virtual std::size_t wait(std::span<PartDone> into, env::Nanos deadline) = 0;
  // True: nothing touches any memory.
  virtual bool quiesce(env::Nanos deadline) = 0;
  // Any thread: memory that many reads will go to, pinned once. Best effort.
  virtual void add_buffer(std::span<std::byte> memory) noexcept {}
  virtual void remove_buffer(std::span<std::byte> memory) noexcept {}
};

Result<std::unique_ptr<PartQueue>> ring_for_files();
std::unique_ptr<PartQueue> queue_of_namespace(std::unique_ptr<block::BlockQueue> queue);

}  // namespace larder::client
