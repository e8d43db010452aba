// SPDX-License-Identifier: Apache-2.0
// The thread that writes and releases records of one device.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "env/clock.h"
#include "extent/record_writer.h"
#include "larder/status.h"
#include "route/entry.h"
#include "tier/cold/offload_queue.h"

namespace larder::tier {

struct WriteJob {
  route::EntryRef entry;  // keeps the bytes in place
  std::span<const std::byte> payload;
  OffloadItem item;
  std::uint64_t replaces = 0;  // the place of the record that this one is to take the place of
  extent::Reservation space;
  extent::Manifest manifest;
};

// Where a lane gets its work. Called by the lane's thread.
class WriteSource {
 public:
  virtual ~WriteSource() = default;
  // The next job, with its space; empty: none now. `again` is then when to ask, unless the lane is
  // woken before.
  virtual std::optional<WriteJob> next_write(env::Nanos now, env::Nanos& again) = 0;
  // It ended; `id` is set when it is durable.
  virtual void on_written(WriteJob job, Result<extent::RecordId> result) = 0;
  // Reads are waiting for this device.
  virtual bool reads_waiting() const noexcept = 0;
};

class WriteLane {
 public:
  using Released = std::function<void(Result<void>)>;

  // `purpose`: of all values.
  static Result<std::unique_ptr<WriteLane>> start(extent::RecordStore& store, WriteSource& source,
                                                  const extent::WriterOptions& options,
                                                  qos::Purpose purpose);
  ~WriteLane() { stop(); }
  // Ends what is under way, and makes releases durable as far as pins allow. Later ones are
  // cancelled.
  void stop();
  WriteLane(const WriteLane&) = delete;
  WriteLane& operator=(const WriteLane&) = delete;

  // Any thread: there is work again.
  void wake() noexcept;
  // Any thread: gives the record up, and says when that is durable (also when somebody else gave it
  // up before). `done` may be called at once, else on the lane's thread.
  void release(extent::RecordId id, Released done);
  std::size_t under_way() const noexcept { return under_way_.load(std::memory_order_relaxed); }

 private:
  struct Release {
    extent::RecordId id;
    Released done;
  };
  WriteLane(extent::RecordStore& store, WriteSource& source,
            std::unique_ptr<extent::RecordWriter> writer)
      : store_(store), source_(source), writer_(std::move(writer)) {}
  void run();
  bool step();
  bool take_releases();
  void begin_release(Release release);
  env::Nanos take_writes();
  void finish(extent::WriteDone& done);

  extent::RecordStore& store_;
  WriteSource& source_;
  std::unique_ptr<extent::RecordWriter> writer_;
  qos::Purpose purpose_;
  std::size_t depth_ = 0;
  std::size_t records_max_ = 0;
  std::uint64_t bytes_max_ = 0;
  std::atomic<std::size_t> under_way_{0};
  std::mutex mutex_;
  std::deque<Release> inbox_;  // under the lock, with:
  bool stopping_ = false;
  // The lane's thread only.
  std::uint64_t next_tag_ = 1;
  std::unordered_map<std::uint64_t, WriteJob> writes_;  // by tag
  std::uint64_t write_bytes_ = 0;
  std::unordered_map<std::uint64_t, std::vector<Released>> releases_;  // by RecordId::pack()
  std::unordered_map<std::uint64_t, std::uint64_t> releases_by_tag_;   // to the key above
  std::unordered_map<std::uint64_t, Error> failed_releases_;  // likewise: they stay that way
  std::thread thread_;
};

}  // namespace larder::tier
