// SPDX-License-Identifier: Apache-2.0
// The thread that reads records of one device. All reads of a device go through one lane, so that
// those of many calls fill the device's depth together.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "extent/record_reader.h"
#include "larder/status.h"
#include "qos/managed.h"

namespace larder::tier {

struct ReadJob {
  extent::Pin pin;
  std::span<std::byte> into;  // as of RecordReader::read()
  std::uint64_t checksum = 0;
  qos::Purpose purpose;
  // On the lane's thread: short. kCancelled: the lane ended first.
  std::function<void(Result<void>)> done;
};

class ReadLane {
 public:
  static Result<std::unique_ptr<ReadLane>> start(extent::RecordStore& store,
                                                 const extent::ReaderOptions& options);
  ~ReadLane() { stop(); }
  // Ends what is under way; what has not begun, and what comes later, is cancelled.
  void stop();
  ReadLane(const ReadLane&) = delete;
  ReadLane& operator=(const ReadLane&) = delete;

  // Any thread.
  void submit(ReadJob job);
  // Submitted and not done.
  std::size_t outstanding() const noexcept { return outstanding_.load(std::memory_order_relaxed); }

 private:
  explicit ReadLane(std::unique_ptr<extent::RecordReader> reader) : reader_(std::move(reader)) {}
  void run();
  bool take_new();
  void begin(ReadJob job);
  void cancel(ReadJob& job);
  void finish(const std::function<void(Result<void>)>& done, Result<void> result);

  std::unique_ptr<extent::RecordReader> reader_;
  std::atomic<std::size_t> outstanding_{0};
  std::mutex mutex_;
  std::deque<ReadJob> inbox_;  // under the lock, with:
  bool stopping_ = false;
  std::vector<std::function<void(Result<void>)>> calls_;  // by tag; the lane's thread only
  std::vector<std::uint64_t> free_tags_;
  std::thread thread_;
};

}  // namespace larder::tier
