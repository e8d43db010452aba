// SPDX-License-Identifier: Apache-2.0
// A block device in memory: for tests and the simulator. Nothing of it survives the process.
#pragma once

#include <memory>

#include "block/block_device.h"

namespace larder::block {

struct MemoryDeviceOptions {
  std::uint64_t bytes = 0;  // rounded down to whole blocks
  std::uint32_t block_bytes = 4096;
  std::uint32_t sector_bytes = 512;
  std::uint32_t memory_alignment = 512;
  std::uint64_t transfer_max = 64U << 20U;
  HealthLimits health = {};
};

// Operations are carried out in order by the poll() or wait() that gives them back.
class MemoryDevice final : public BlockDevice {
 public:
  // kInvalidArgument: the geometry. kExhausted: no memory.
  static Result<std::shared_ptr<MemoryDevice>> create(const MemoryDeviceOptions& options);

  bool add_buffer(std::span<std::byte>) override { return false; }
  void remove_buffer(std::span<std::byte>) override {}

 private:
  struct Medium;
  class Queue;
  MemoryDevice(std::shared_ptr<DeviceBooks> books, std::shared_ptr<Medium> medium)
      : BlockDevice(std::move(books)), medium_(std::move(medium)) {}
  Result<std::unique_ptr<BlockQueue>> make_queue(std::size_t depth) override;

  std::shared_ptr<Medium> medium_;
};

}  // namespace larder::block
