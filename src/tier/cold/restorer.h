// SPDX-License-Identifier: Apache-2.0
// Values from records into memory: one read for all who ask at a time, bounded, verified; where
// policy says so, into DRAM to stay.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "block/aligned_buffer.h"
#include "larder/status.h"
#include "qos/managed.h"
#include "route/entry.h"
#include "tier/cold/cold_device.h"
#include "tier/cold/place.h"
#include "tier/hot/hot_store.h"

namespace larder::tier {

// The bytes of one value, kept in memory as long as this lives. Immutable.
class Restored {
 public:
  const std::byte* data() const noexcept { return data_; }
  std::uint64_t length() const noexcept { return length_; }
  // The route with its new hot copy; empty: the bytes are here alone.
  const route::EntryRef& hot() const noexcept { return hot_; }

 private:
  friend class Restorer;
  const std::byte* data_ = nullptr;
  std::uint64_t length_ = 0;
  route::EntryRef hot_;
  Reservation reservation_;
  block::AlignedBuffer buffer_;
};
using RestoredRef = std::shared_ptr<const Restored>;

// Gives away disks by their number, as long as the node has them.
class DeviceTable {
 public:
  virtual ~DeviceTable() = default;
  virtual std::shared_ptr<ColdDevice> device(std::uint8_t number) const = 0;
};

// What a reader can read by itself.
struct DirectWish {
  bool files = false;  // and disks, of this host
  bool remote = false;
  std::bitset<kDevicesMax> not_these;  // by number
};

// Where a client finds a record by itself. Nothing holds it there: whoever reads it
// believes what has the checksum of its route, and no other bytes.
struct DirectPlace {
  std::shared_ptr<ColdDevice> device;
  std::array<extent::Extent, extent::kExtentsMax> extents;
  std::size_t extent_count = 0;
};

struct RestoreStats {
  std::atomic<std::uint64_t> flights{0};   // reads begun
  std::atomic<std::uint64_t> joined{0};    // that found one under way
  std::atomic<std::uint64_t> waited{0};    // that had to wait for others to end
  std::atomic<std::uint64_t> refused{0};   // too many waited
  std::atomic<std::uint64_t> promoted{0};  // values that got a hot copy
  std::atomic<std::uint64_t> missed{0};    // the record was gone or bad
  std::atomic<std::uint64_t> bytes_in_flight{0};
};

// Any thread.
class Restorer {
 public:
  struct Links {
    HotStore* hot = nullptr;
    route::RouteAuthority* routes = nullptr;
    const DeviceTable* devices = nullptr;
    qos::ManagedTransfers* transfers = nullptr;
  };
  using Done = std::function<void(Result<RestoredRef>)>;
  static constexpr std::size_t kWaitingMax = 65536;

  Restorer(const ColdOptions& options, const Links& links) : options_(options), links_(links) {}
  ~Restorer();

  // Reads the record of `entry`, a route without a hot copy. `done` is called once, on the device's
  // lane or at once, and must be short:
  //   kNotFound      the record is gone, or its bytes are not what they should be (then the route
  //                  has forgotten it): look the key up again
  //   kUnavailable   the disk failed
  //   kBackpressure  too many wait
  //   kCancelled     the disk is being closed
  // `into_dram`: it gets a hot copy whatever the policy says, if there is room.
  void restore(route::EntryRef entry, qos::Purpose purpose, bool into_dram, Done done);
  // Where the record of `entry` is, when by policy the value need not come into DRAM and its disk
  // is one of those wished for. Empty: restore() it. Counts as a read.
  std::optional<DirectPlace> offer(const route::EntryRef& entry, const DirectWish& wish);
  // Into DRAM, for one that will be asked for next; nobody waits.
  void prefetch(route::EntryRef entry, qos::Purpose purpose);
  DirectReads direct() const noexcept { return options_.direct; }
  // Values that are read stay in DRAM, mostly.
  bool promotes() const noexcept { return options_.promotion != Promotion::kNever; }

  const RestoreStats& stats() const noexcept { return stats_; }

 private:
  struct Flight {
    route::EntryRef entry;
    std::uint64_t place = 0;
    qos::Purpose purpose;
    bool into_dram = false;
    std::vector<Done> waiters;
    std::shared_ptr<ColdDevice> device;
    std::shared_ptr<Restored> value;
    bool in_hot = false;  // its memory is a reservation of the hot store
  };
  using FlightRef = std::shared_ptr<Flight>;

  void take_off(FlightRef flight);
  void begin(const FlightRef& flight);
  Result<std::span<std::byte>> make_room(Flight& flight);
  bool worth_dram(const Flight& flight);
  bool read_lately(ColdDevice& device, extent::RecordId id, std::uint64_t bytes);
  void on_read(const FlightRef& flight, Result<void> result);
  void promote(Flight& flight);
  void on_bad(Flight& flight, const Error& error);
  void land(const FlightRef& flight, Result<RestoredRef> result);
  void begin_ready();
  bool has_waiters(const Flight& flight) const;
  bool asked_into_dram(const Flight& flight) const;

  const ColdOptions options_;
  const Links links_;
  RestoreStats stats_;
  std::atomic<std::uint64_t> read_bytes_{0};  // from disks, ever
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, FlightRef>
      flights_;                    // by place, from the first asker to the end
  std::deque<FlightRef> waiting_;  // of those, not begun
  std::uint64_t bytes_ = 0;        // of those that are begun
  std::deque<FlightRef> ready_;    // to be begun by the thread that drains
  bool draining_ = false;
};

}  // namespace larder::tier
