// SPDX-License-Identifier: Apache-2.0
// The local-disk tier: disks, what goes to them, what comes back, and what is on them at the start.
//
// Life of a record: published hot -> owed -> written (durable) -> the route names it -> read, maybe
// many times -> its route is removed, replaced, or it is dropped to make room -> forgotten: given
// up durably, and only then is its space used again.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "extent/scrubber.h"
#include "larder/status.h"
#include "route/authority.h"
#include "route/spaces.h"
#include "tier/cold/cold_device.h"
#include "tier/cold/cold_options.h"
#include "tier/cold/offloader.h"
#include "tier/cold/restorer.h"
#include "tier/hot/hot_store.h"

namespace larder::tier {

class ColdTier final : public route::RecordOwner, public DeviceTable {
 public:
  // All of these outlive it.
  struct Links {
    HotStore* hot = nullptr;
    route::RouteAuthority* routes = nullptr;
    route::Spaces* spaces = nullptr;
    qos::ManagedTransfers* transfers = nullptr;
  };
  // Makes itself the hot store's lower tier; who makes the routes makes it their record owner.
  static constexpr std::uint64_t kLengthMax = 4ULL << 30U;  // of a value: larder/client.h
  static constexpr std::size_t kRemovedMax = 1U << 20U;     // keys remembered while scans run
  static Result<std::unique_ptr<ColdTier>> create(const ColdOptions& options, const Links& links);
  ~ColdTier() override;

  // ---- disks ----
  // Takes the disk into service; its records are found in the background and served as they are
  // found. kExhausted: kDevicesMax were added. Else as ColdDevice::start().
  Result<void> add(std::shared_ptr<ColdDevice> device);
  // Whether there is a number for one more; kExhausted, for good. Ask before a disk is opened: who
  // opens one makes it his.
  Result<void> can_add() const;
  // Those in service, by number.
  std::vector<std::shared_ptr<ColdDevice>> devices() const;
  std::shared_ptr<ColdDevice> device(std::uint8_t number) const override;
  // A change of state by an operator or by what happened to the disk.
  void set_state(ColdDevice& device, DeviceState state);
  // Takes the disk out of service: its routes are forgotten, its records stay on it. Waits for its
  // threads.
  Result<void> take_out(const std::shared_ptr<ColdDevice>& device);
  bool recovering() const noexcept { return recovering_.load(std::memory_order_acquire) != 0; }
  // Waits for the scans; for tests and tools.
  void finish_recovery();

  // ---- what is stored ----
  Offloader& offloader() noexcept { return *offloader_; }
  Restorer& restorer() noexcept { return *restorer_; }
  const Offloader& offloader() const noexcept { return *offloader_; }
  const Restorer& restorer() const noexcept { return *restorer_; }
  // The value was read from DRAM, or asked for: its record is worth keeping.
  void touch(std::uint64_t place) noexcept;
  // A version whose route was replaced or is being deleted has a record, at `place`, or may get one
  // in a moment: a crash could bring it back until forget() has done its work.
  bool lingers(std::uint64_t version, std::uint64_t place) const;
  // Gives that up and says when it is so durably. On an error it may still be there.
  void forget(std::uint64_t version, std::uint64_t place, Offloader::Gone done);
  // A key is about to be removed: what a scan that runs finds of it later is dropped. False: too
  // many were while it runs; it cannot be now.
  bool note_removed(std::uint64_t hash);

  void on_forgotten(std::uint64_t place) noexcept override;

  // Watermarks, states, those who wait, draining. Often (20 ms); waits for no disk.
  void tick(env::Nanos now);
  // Writes what is owed until it is done or `deadline`, then ends all threads and closes the disks.
  // Idempotent.
  void stop(env::Nanos deadline);
  std::uint64_t memory_bytes() const;

 private:
  class Writes;
  // A disk in service, by number.
  struct Seat {
    std::uint8_t number = 0;
    std::shared_ptr<ColdDevice> device;  // null: taken out; under the lock of the seats
    std::unique_ptr<Writes> writes;      // outlives the device's threads
    std::thread scan;                    // finds what is on the disk, and then scrubs it
    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::condition_variable woken;
    std::unique_ptr<extent::Scrubber> scrubber;
    env::Nanos scrub_due = 0;
    std::uint32_t drain_cell = 0;  // where the next step of a drain begins
  };
  ColdTier(const ColdOptions& options, const Links& links);
  std::vector<Seat*> seats() const;
  Result<void> number_is_left() const;  // under the lock of the seats
  void recover(Seat& seat, const std::shared_ptr<ColdDevice>& device);
  void keep_scrubbing(Seat& seat, const std::shared_ptr<ColdDevice>& device);
  void end_scan(Seat& seat);
  extent::RecordStore::Verdict on_found(ColdDevice& device,
                                        const extent::RecordStore::Found& found);
  bool publish_found(ColdDevice& device, const extent::RecordStore::Found& found);
  bool publish_newest(const route::EntryFields& fields);
  bool take_back(const route::EntryFields& fields);
  bool was_removed(std::uint64_t hash);
  std::uint64_t make_room(ColdDevice& device, std::uint64_t bytes);
  void keep_within_marks(ColdDevice& device, env::Nanos now);
  void look_at_health(ColdDevice& device);
  void update_accepting();
  void forget_routes(ColdDevice& device);
  void forget_record(std::uint64_t place, const Offloader::Gone& done);
  void release_forgotten();
  void wake_lanes();
  void scrub(Seat& seat, const std::shared_ptr<ColdDevice>& of, env::Nanos now);
  void drain(Seat& seat, const std::shared_ptr<ColdDevice>& device);

  const ColdOptions options_;
  const Links links_;
  std::unique_ptr<Offloader> offloader_;
  std::unique_ptr<Restorer> restorer_;
  mutable std::shared_mutex seats_mutex_;
  std::vector<std::unique_ptr<Seat>> seats_;  // by device number; never shrinks
  std::atomic<std::uint32_t> recovering_{0};
  std::mutex removed_mutex_;
  std::condition_variable recovered_;
  std::unordered_set<std::uint64_t> removed_;  // hashes of keys removed while scans run
  std::mutex forgotten_mutex_;
  std::vector<std::uint64_t> forgotten_;  // places that are to be released
  bool stopped_ = false;
};

}  // namespace larder::tier
