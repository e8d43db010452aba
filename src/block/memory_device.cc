// SPDX-License-Identifier: Apache-2.0
#include "block/memory_device.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <vector>

namespace larder::block {

struct MemoryDevice::Medium {
  std::mutex mutex;              // guards bytes
  std::vector<std::byte> bytes;  // of fixed size
  std::atomic<std::size_t> queues{0};
};

class MemoryDevice::Queue final : public BlockQueue {
 public:
  Queue(std::shared_ptr<DeviceBooks> books, std::shared_ptr<Medium> medium, std::size_t depth)
      : BlockQueue(std::move(books), depth), medium_(std::move(medium)) {}
  ~Queue() override { --medium_->queues; }

  void start() override {}
  void wake() noexcept override {}  // nobody ever sleeps
  bool quiesce(env::Nanos) override {
    for (const BlockOp& op : pending_) ended_.push_back(done_of(op, Code::kCancelled));
    pending_.clear();
    return true;
  }

 protected:
  Result<void> take(const BlockOp& op) override {
    pending_.push_back(op);
    return {};
  }
  std::size_t collect(std::span<BlockDone> into) override {
    std::size_t count = 0;
    for (; count < into.size() && !ended_.empty(); ended_.pop_front()) {
      into[count++] = ended_.front();
    }
    for (; count < into.size() && !pending_.empty(); pending_.pop_front()) {
      carry_out(pending_.front());
      into[count++] = done_of(pending_.front(), Code::kOk);
    }
    return count;
  }
  std::size_t collect_by(std::span<BlockDone> into, env::Nanos) override { return collect(into); }

 private:
  static BlockDone done_of(const BlockOp& op, Code code) {
    return {op.tag, code, 0, op.kind, op.offset, op.bytes(), op.trace_id};
  }
  void carry_out(const BlockOp& op) {
    const std::lock_guard lock(medium_->mutex);
    std::byte* at = medium_->bytes.data() + op.offset;
    if (op.pieces.empty() && op.kind != OpKind::kFlush) std::memset(at, 0, op.range_bytes);
    for (const Piece& piece : op.pieces) {
      if (op.kind == OpKind::kRead) {
        std::memcpy(piece.data, at, piece.bytes);
      } else {
        std::memcpy(at, piece.data, piece.bytes);
      }
      at += piece.bytes;
    }
  }

  std::shared_ptr<Medium> medium_;
  std::deque<BlockOp> pending_;
  std::deque<BlockDone> ended_;
};

Result<std::shared_ptr<MemoryDevice>> MemoryDevice::create(const MemoryDeviceOptions& options) {
  Geometry geometry;
  geometry.block_bytes = options.block_bytes;
  geometry.memory_alignment = options.memory_alignment;
  geometry.sector_bytes = options.sector_bytes;
  geometry.blocks = options.block_bytes == 0 ? 0 : options.bytes / options.block_bytes;
  geometry.transfer_max = options.transfer_max;
  geometry.optimal_bytes = options.block_bytes;
  geometry.discard_bytes = options.block_bytes;
  geometry.discard_zeroes = true;
  geometry.zeroes_max = geometry.bytes();
  geometry.volatile_cache = false;
  LARDER_TRY(check(geometry));
  auto medium = std::make_shared<Medium>();
  try {
    medium->bytes.resize(geometry.bytes());
  } catch (const std::exception&) {
    return fail(Code::kExhausted,
                "no memory for a block device of " + std::to_string(geometry.bytes()) + " bytes");
  }
  static std::atomic<std::uint64_t> counter{0};
  const std::string id = "memory-" + std::to_string(++counter);
  auto books = std::make_shared<DeviceBooks>(geometry, Identity{"memory", id, id}, options.health);
  return std::shared_ptr<MemoryDevice>(new MemoryDevice(std::move(books), std::move(medium)));
}

Result<std::unique_ptr<BlockQueue>> MemoryDevice::make_queue(std::size_t depth) {
  if (medium_->queues.fetch_add(1) >= kQueuesMax) {
    --medium_->queues;
    return fail(Code::kExhausted, "the block device has its most queues open; share some");
  }
  return std::unique_ptr<BlockQueue>(std::make_unique<Queue>(books(), medium_, depth));
}

}  // namespace larder::block
