// SPDX-License-Identifier: Apache-2.0
// One disk of a node: its record store, the two threads that use it, and what is known of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "block/block_device.h"
#include "extent/record_store.h"
#include "larder/status.h"
#include "tier/cold/cold_options.h"
#include "tier/cold/device_record.h"
#include "tier/cold/read_lane.h"
#include "tier/cold/record_index.h"
#include "tier/cold/write_lane.h"

namespace larder::tier {

struct ColdCounters {
  std::atomic<std::uint64_t> offloaded{0};  // records
  std::atomic<std::uint64_t> offloaded_bytes{0};
  std::atomic<std::uint64_t> restored{0};
  std::atomic<std::uint64_t> restored_bytes{0};
  std::atomic<std::uint64_t> direct{0};  // records that clients were told to read by themselves
  std::atomic<std::uint64_t> direct_bytes{0};
  std::atomic<std::uint64_t> write_errors{0};
  std::atomic<std::uint64_t> read_errors{0};
  std::atomic<std::uint64_t> corrupt{0};  // payloads that failed their checksum
  std::atomic<std::uint64_t> evicted{0};  // records that went to make room
  std::atomic<std::uint64_t> evicted_bytes{0};
  std::atomic<std::uint64_t> recovered{0};
  std::atomic<std::uint64_t> orphans{0};  // found at recovery, wanted by nobody
};

// What clients can open for themselves: processes of this host a file or a disk, whoever reaches
// its target a remote namespace.
struct DirectName {
  std::string path;  // absolute, or a URL
  // Of a file, as stat() says: st_dev and st_ino.
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::string id;  // of a namespace: block::Identity::id, not empty
};

class ColdDevice {
 public:
  // Opens the disk, and makes a store on it where it is blank. `owner` and `epoch`: as OpenOptions.
  // `make_device` null: a FileDevice; tests wrap it. Errors: as FileDevice::open(),
  // extent::format() and RecordStore::open(), with what to do.
  using WrapDevice =
      std::function<std::shared_ptr<block::BlockDevice>(std::shared_ptr<block::BlockDevice>)>;
  static Result<std::shared_ptr<ColdDevice>> open(const DiskSpec& spec, const ColdOptions& options,
                                                  const std::string& owner, std::uint64_t epoch,
                                                  const WrapDevice& wrap = {});
  // The highest epoch of those who had it; 0: it is new.
  static Result<std::uint64_t> last_epoch(const DiskSpec& spec);
  ~ColdDevice();
  ColdDevice(const ColdDevice&) = delete;
  ColdDevice& operator=(const ColdDevice&) = delete;

  // Once, before all that follows.
  Result<void> start(std::uint8_t number, WriteSource& source, const ColdOptions& options);
  // Ends the threads and closes the store; what was written is durable then. Idempotent; one
  // thread. Lanes answer "cancelled" from then on.
  Result<void> stop();

  std::uint8_t number() const noexcept { return number_; }
  const std::string& id() const noexcept { return id_; }  // the store's uuid
  const std::string& path() const noexcept { return path_; }
  extent::RecordStore& store() noexcept { return *store_; }
  RecordIndex& index() noexcept { return *index_; }
  ReadLane& reads() noexcept { return *reads_; }
  WriteLane& writes() noexcept { return *writes_; }
  block::BlockDevice& device() noexcept { return store_->device(); }
  // Behind a network: it may come back after it failed.
  bool is_remote() const noexcept { return remote_; }
  // How its bytes are booked, and why some are written to it.
  TransportType transport() const noexcept {
    return remote_ ? TransportType::kNvmeTcp : TransportType::kIoUring;
  }
  qos::Purpose write_purpose() const noexcept;
  // What a client may read by itself; empty: only the node can.
  const std::optional<DirectName>& direct_name() const noexcept { return direct_name_; }
  // A client was told to read so much by itself: for as long as that may take, writes stand back.
  void note_direct_read(std::uint64_t bytes) noexcept;
  // Somebody waits for a read.
  bool reads_waiting() const noexcept;
  const ColdCounters& counters() const noexcept { return counters_; }
  ColdCounters& counters() noexcept { return counters_; }

  DeviceState state() const noexcept { return state_.load(std::memory_order_acquire); }
  void set_state(DeviceState state) noexcept { state_.store(state, std::memory_order_release); }
  // New records may go there.
  bool accepts() const noexcept { return state() == DeviceState::kHealthy && !is_out(); }
  // Its records can be read.
  bool readable() const noexcept {
    return state() != DeviceState::kFailed && state() != DeviceState::kDisabledByAdmin && !is_out();
  }
  // Taken out of service, for good.
  bool is_out() const noexcept { return out_.load(std::memory_order_acquire); }
  void set_out() noexcept { out_.store(true, std::memory_order_release); }
  // What is behind it had no space for a write (a sparse file, a target's): it counts as full for a
  // while, then the next write tries.
  static constexpr env::Nanos kNoSpace = 10 * env::kSecond;
  void note_no_space(env::Nanos now) noexcept {
    no_space_until_.store(now + kNoSpace, std::memory_order_relaxed);
  }
  bool lacks_space(env::Nanos now) const noexcept {
    return now < no_space_until_.load(std::memory_order_relaxed);
  }
  // It failed, or could not be scanned, so that it is of no use until it is opened again.
  bool is_broken() const noexcept { return broken_.load(std::memory_order_acquire); }
  void set_broken() noexcept { broken_.store(true, std::memory_order_release); }
  // The highest of those who had it, this one included.
  std::uint64_t epoch() const noexcept { return epoch_; }
  std::string last_error() const;
  void set_last_error(std::string text);

 private:
  ColdDevice() = default;

  std::uint8_t number_ = 0;
  bool stopped_ = false;
  std::string id_;
  std::string path_;
  std::unique_ptr<extent::RecordStore> store_;
  std::unique_ptr<RecordIndex> index_;
  std::unique_ptr<ReadLane> reads_;
  std::unique_ptr<WriteLane> writes_;
  ColdCounters counters_;
  std::atomic<DeviceState> state_{DeviceState::kHealthy};
  std::atomic<bool> out_{false};
  std::atomic<bool> broken_{false};
  std::uint64_t epoch_ = 0;
  bool remote_ = false;
  std::optional<DirectName> direct_name_;
  std::atomic<env::Nanos> direct_until_{0};
  std::atomic<env::Nanos> no_space_until_{0};
  mutable std::mutex mutex_;
  std::string last_error_;
};

}  // namespace larder::tier
