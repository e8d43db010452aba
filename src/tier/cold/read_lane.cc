// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/read_lane.h"

#include <array>
#include <utility>

#include "block/block_types.h"
#include "env/thread.h"

namespace larder::tier {

Result<std::unique_ptr<ReadLane>> ReadLane::start(extent::RecordStore& store,
                                                  const extent::ReaderOptions& options) {
  LARDER_ASSIGN(auto reader, extent::RecordReader::create(store, options));
  std::unique_ptr<ReadLane> lane(new ReadLane(std::move(reader)));
  lane->calls_.resize(options.records_max);
  for (std::size_t i = options.records_max; i > 0; --i) lane->free_tags_.push_back(i - 1);
  lane->thread_ = std::thread([raw = lane.get()] { raw->run(); });
  return lane;
}

void ReadLane::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  if (reader_) reader_->wake();
  if (thread_.joinable()) thread_.join();
  for (ReadJob& job : std::exchange(inbox_, {})) cancel(job);
  reader_.reset();  // the store can be closed then
}

void ReadLane::cancel(ReadJob& job) {
  job.pin = {};
  finish(job.done, fail(Code::kCancelled, "the disk is being closed"));
}

void ReadLane::submit(ReadJob job) {
  outstanding_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      inbox_.push_back(std::move(job));
      reader_->wake();
      return;
    }
  }
  cancel(job);
}

void ReadLane::run() {
  env::set_thread_name("larder-read");
  std::array<extent::ReadDone, 32> done;
  while (take_new()) {
    const std::size_t count = reader_->wait(done, block::kNoDeadline);
    for (std::size_t i = 0; i < count; ++i) {
      const auto call = std::exchange(calls_[done[i].tag], nullptr);
      free_tags_.push_back(done[i].tag);
      finish(call, std::move(done[i].result));
    }
  }
}

// False: the end, and nothing is under way.
bool ReadLane::take_new() {
  while (!free_tags_.empty()) {
    ReadJob job;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return reader_->under_way() > 0;
      if (inbox_.empty()) return true;
      job = std::move(inbox_.front());
      inbox_.pop_front();
    }
    begin(std::move(job));
  }
  return true;
}

void ReadLane::begin(ReadJob job) {
  const std::uint64_t tag = free_tags_.back();
  const Result<void> taken =
      reader_->read(std::move(job.pin), job.into, job.checksum, tag, job.purpose);
  if (!taken) return finish(job.done, taken);
  free_tags_.pop_back();
  calls_[tag] = std::move(job.done);
}

void ReadLane::finish(const std::function<void(Result<void>)>& done, Result<void> result) {
  outstanding_.fetch_sub(1, std::memory_order_relaxed);
  done(std::move(result));
}

}  // namespace larder::tier
