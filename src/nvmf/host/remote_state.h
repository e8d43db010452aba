// SPDX-License-Identifier: Apache-2.0
// What the device of every kind of host knows of its tie to a controller (here an association,
// over SPDK the driver's controller): that it was lost and why, what that means for flushes, and
// when the next attempt is due.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "block/block_device.h"
#include "nvmf/host/flush_rule.h"
#include "nvmf/host/options.h"
#include "nvmf/host/stats.h"
#include "nvmf/host/waker.h"

namespace larder::nvmf {

// Any thread, but for what says otherwise.
class RemoteState {
 public:
  virtual ~RemoteState() = default;
  RemoteState(const RemoteState&) = delete;
  RemoteState& operator=(const RemoteState&) = delete;

  virtual const NvmeDeviceOptions& remote() const noexcept = 0;
  const std::shared_ptr<block::DeviceBooks>& books() const noexcept { return books_; }
  NvmeCounters& counters() noexcept { return *counters_; }
  FlushRule& flushes() noexcept { return flushes_; }
  // Something changed that the background thread should look at: a queue wants a connection.
  void tell() noexcept { waker_.notify(); }
  // A change ended well on the tie with that flag.
  void note_write(const std::atomic<bool>& lost) noexcept;
  // Why, and the end of the device.
  void fail_flush();
  void set_witness(block::Witness witness);

 protected:
  // What people are told was lost.
  RemoteState(Waker waker, std::string tie) : waker_(std::move(waker)), tie_(std::move(tie)) {}

  // First of a loss: false when it is known already. The log has it as `event`.
  bool begin_loss(std::atomic<bool>& lost, const char* event, const std::string& reason);
  // Last, but before queues hear of it: when nobody shall try again, the end of the device; and the
  // background thread hears.
  void end_loss(const std::string& reason);
  // After a new tie: kConflict, and the end of the device, when it is not the same namespace.
  Result<void> check_same(const block::Geometry& geometry, const block::Identity& identity);
  // And when the witness does not find what it looks for. `read` fills a block from an offset; its
  // errors are given back as they are.
  using ReadBlock = std::function<Result<void>(std::uint64_t offset, std::span<std::byte> into)>;
  Result<void> ask_witness(const ReadBlock& read);

  // ---- by the background thread: attempts. Each operation that waits sees some in its time,
  // however long the target was away.
  void put_off();
  void end_attempts() noexcept { attempt_pause_ = attempt_next_ = 0; }
  env::Nanos attempt_next() const noexcept { return attempt_next_; }

  const Waker waker_;
  std::shared_ptr<block::DeviceBooks> books_;
  std::unique_ptr<NvmeCounters> counters_;
  FlushRule flushes_;
  std::atomic<bool> stopping_{false};

  mutable std::mutex mutex_;  // guards what follows, and more of the derived
  std::string lost_because_;
  block::Witness witness_;

 private:
  const std::string tie_;
  env::Nanos attempt_next_ = 0;
  env::Nanos attempt_pause_ = 0;
};

}  // namespace larder::nvmf
