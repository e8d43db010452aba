// SPDX-License-Identifier: Apache-2.0
// The thread that a block device's queue belongs to. Reactors hand it jobs and get them back
// through their inbox.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "block/block_device.h"
#include "larder/status.h"
#include "nvmf/pdu/command.h"

namespace larder::nvmf {

struct DiskJob;

// Where finished jobs go. Any thread; it outlives the job.
class DiskJobTaker {
 public:
  virtual void take_finished(DiskJob& job) = 0;

 protected:
  ~DiskJobTaker() = default;
};

// One command for a device. Whoever submits it keeps it, and all memory in it, until it is back.
struct DiskJob {
  enum class Kind : std::uint8_t { kRead, kWrite, kFlush, kZero, kDiscard };
  static constexpr std::size_t kPiecesMax = 32;

  Kind kind = Kind::kRead;
  bool flush_after = false;  // a write that must be durable before it ends
  std::uint64_t offset = 0;  // bytes
  std::uint64_t bytes = 0;
  std::vector<block::Piece> pieces;  // reads and writes
  std::vector<DsmRange> ranges;      // discards: in blocks, within the device
  DiskJobTaker* taker = nullptr;
  void* owner = nullptr;  // the taker's

  // The worker's own.
  std::size_t next_range = 0;
  std::uint64_t done_bytes = 0;  // of the range, or of the zeros
  bool flushing = false;
  std::array<block::Piece, 16> zeros{};

  // When it is back.
  Code code = Code::kOk;
};

class DiskWorker {
 public:
  // As BlockDevice::open_queue().
  static Result<std::shared_ptr<DiskWorker>> create(std::shared_ptr<block::BlockDevice> device);
  // All jobs are back.
  ~DiskWorker();
  DiskWorker(const DiskWorker&) = delete;
  DiskWorker& operator=(const DiskWorker&) = delete;

  // Any thread.
  void submit(DiskJob& job);
  block::BlockDevice& device() noexcept { return *device_; }

 private:
  DiskWorker(std::shared_ptr<block::BlockDevice> device, std::unique_ptr<block::BlockQueue> queue)
      : device_(std::move(device)), queue_(std::move(queue)) {}

  void run();
  bool collect();
  void begin(DiskJob& job);
  void next(DiskJob& job);
  bool next_op(DiskJob& job, block::BlockOp& op);
  bool next_zero(DiskJob& job, block::BlockOp& op);
  bool next_discard(DiskJob& job, block::BlockOp& op);
  static void finish(DiskJob& job);

  std::shared_ptr<block::BlockDevice> device_;
  std::unique_ptr<block::BlockQueue> queue_;
  std::mutex mutex_;  // guards the following
  std::condition_variable arrived_;
  std::vector<DiskJob*> inbox_;
  bool stopping_ = false;
  // The worker's.
  std::vector<DiskJob*> waiting_;  // for room in the queue, from front_ on
  std::size_t front_ = 0;
  std::vector<DiskJob*> taken_;
  std::thread thread_;
};

}  // namespace larder::nvmf
