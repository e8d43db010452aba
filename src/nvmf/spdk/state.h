// SPDX-License-Identifier: Apache-2.0
// What an SpdkDevice and its queues share, and the thread that keeps the controller.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "block/block_device.h"
#include "nvmf/host/flush_rule.h"
#include "nvmf/host/stats.h"
#include "nvmf/spdk/channel.h"
#include "nvmf/spdk/controller.h"
#include "nvmf/spdk/dma_memory.h"

namespace larder::nvmf {

// Any thread.
class SpdkState {
 public:
  // Errors as SpdkDevice::open().
  static Result<std::shared_ptr<SpdkState>> open(const SpdkDeviceOptions& options);
  // Once no queue is left.
  ~SpdkState();

  const std::shared_ptr<block::DeviceBooks>& books() const noexcept { return books_; }
  const SpdkDeviceOptions& options() const noexcept { return options_; }
  NvmeCounters& counters() noexcept { return *counters_; }
  FlushRule& flushes() noexcept { return flushes_; }
  DmaMemory& memory() noexcept { return memory_; }
  std::uint32_t nsid() const noexcept { return nsid_; }
  std::uint32_t command_bytes_max() const noexcept { return command_bytes_max_.load(); }
  std::uint64_t zeroes_bytes_max() const noexcept { return zeroes_bytes_max_.load(); }

  // A queue comes: a channel that is open. kExhausted: the controller grants no more.
  Result<std::shared_ptr<SpdkChannel>> enter();
  void leave(SpdkChannel& channel);
  // Something changed that the thread should look at.
  void tell() noexcept { waker_.notify(); }
  // The controller is of no use any more; the thread and all queues hear of it. The first reason
  // counts.
  void lose(std::atomic<bool>& lost, const std::string& reason);
  // Why, and the end of the device.
  void fail_flush();

 private:
  SpdkState(SpdkDeviceOptions options, HostIdentity host, Waker waker)
      : options_(std::move(options)), host_(std::move(host)), waker_(std::move(waker)) {}

  struct Found {
    std::unique_ptr<SpdkController> controller;
    NamespaceFacts facts;
    block::Geometry geometry;
    block::Identity identity;
  };
  Result<Found> find();
  Result<void> begin();
  void adopt(Found found);
  Result<std::uint16_t> free_number();
  std::vector<std::shared_ptr<SpdkChannel>> channels() const;

  // ---- by the thread
  void run();
  void attend();
  void check_namespace();
  void let_go();
  void serve();
  bool open(SpdkChannel& channel);
  Result<void> reattach();
  void put_off();
  void refuse(const Error& error, env::Nanos now);
  env::Nanos next_due() const;

  const SpdkDeviceOptions options_;
  const HostIdentity host_;
  const Waker waker_;
  std::shared_ptr<block::DeviceBooks> books_;
  std::unique_ptr<NvmeCounters> counters_;
  FlushRule flushes_;
  DmaMemory memory_;
  std::uint32_t nsid_ = 0;
  std::atomic<std::uint32_t> command_bytes_max_{0};
  std::atomic<std::uint64_t> zeroes_bytes_max_{0};
  std::atomic<bool> stopping_{false};

  mutable std::mutex mutex_;  // guards what follows
  std::string lost_because_;
  std::uint16_t granted_ = 0;  // I/O queues
  std::vector<std::shared_ptr<SpdkChannel>> channels_;

  // Of the thread, and of who opens before it begins.
  std::unique_ptr<SpdkController> controller_;  // nullptr: it was let go
  env::Nanos attempt_next_ = 0;
  env::Nanos attempt_pause_ = 0;
  std::thread thread_;
};

}  // namespace larder::nvmf
