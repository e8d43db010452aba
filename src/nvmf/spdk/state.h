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
#include "nvmf/host/remote_state.h"
#include "nvmf/spdk/channel.h"
#include "nvmf/spdk/controller.h"
#include "nvmf/spdk/dma_memory.h"

namespace larder::nvmf {

// Any thread.
class SpdkState final : public RemoteState {
 public:
  // Errors as SpdkDevice::open().
  static Result<std::shared_ptr<SpdkState>> open(const SpdkDeviceOptions& options);
  // Once no queue is left.
  ~SpdkState() override;

  const SpdkDeviceOptions& options() const noexcept { return options_; }
  const NvmeDeviceOptions& remote() const noexcept override { return options_.remote; }
  DmaMemory& memory() noexcept { return memory_; }
  std::uint32_t nsid() const noexcept { return nsid_; }
  std::uint32_t command_bytes_max() const noexcept { return command_bytes_max_.load(); }
  std::uint64_t zeroes_bytes_max() const noexcept { return zeroes_bytes_max_.load(); }

  // A queue comes: a channel that is open. kExhausted: the controller grants no more.
  Result<std::shared_ptr<SpdkChannel>> enter();
  void leave(SpdkChannel& channel);
  // The controller is of no use any more; the thread and all queues hear of it. The first reason
  // counts.
  void lose(std::atomic<bool>& lost, const std::string& reason);

 private:
  SpdkState(SpdkDeviceOptions options, HostIdentity host, Waker waker)
      : RemoteState(std::move(waker), "controller"),
        options_(std::move(options)),
        host_(std::move(host)) {}

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
  void refuse(const Error& error, env::Nanos now);
  env::Nanos next_due() const;

  const SpdkDeviceOptions options_;
  const HostIdentity host_;
  DmaMemory memory_;
  std::uint32_t nsid_ = 0;
  std::atomic<std::uint32_t> command_bytes_max_{0};
  std::atomic<std::uint64_t> zeroes_bytes_max_{0};

  // Under mutex_.
  std::uint16_t granted_ = 0;  // I/O queues
  std::vector<std::shared_ptr<SpdkChannel>> channels_;

  // Of the thread, and of who opens before it begins.
  std::unique_ptr<SpdkController> controller_;  // nullptr: it was let go
  std::thread thread_;
};

}  // namespace larder::nvmf
