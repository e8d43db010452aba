// SPDX-License-Identifier: Apache-2.0
// What of the hot tier goes to the disks, and until when it may not leave DRAM.
//
// A slot of the hot tier *owes* a copy from before its value is published until its record is
// durable (or it was given up): while it does, the value is not evicted. So a value that was
// accepted is always somewhere, and DRAM fills up when disks are slower than puts: those who put
// wait for room (wait_for_room).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "larder/status.h"
#include "route/spaces.h"
#include "tier/cold/cold_device.h"
#include "tier/cold/cold_options.h"
#include "tier/hot/hot_store.h"

namespace larder::tier {

struct OffloadStats {
  std::atomic<std::uint64_t> owed{0};        // slots
  std::atomic<std::uint64_t> owed_bytes{0};  // lengths of their values
  std::atomic<std::uint64_t> unwanted{0};    // not worth it (ReuseFilter)
  std::atomic<std::uint64_t> given_up{0};    // failed too often, or there was no disk
  std::atomic<std::uint64_t> too_late{0};    // written for a value that was gone by then
  std::atomic<std::uint64_t> room_waits{0};  // puts that waited
};

class Offloader final : public LowerTier {
 public:
  // All of these outlive it.
  struct Links {
    HotStore* hot = nullptr;
    route::RouteAuthority* routes = nullptr;
    const route::Spaces* spaces = nullptr;
  };
  static Result<std::unique_ptr<Offloader>> create(const ColdOptions& options, const Links& links);
  ~Offloader() override;

  void on_install(const route::Entry& entry, bool fresh) noexcept override;
  void on_publish(const route::Entry& entry) noexcept override;
  void on_release(const route::Entry& entry) noexcept override;
  bool may_evict(const route::Entry& entry) noexcept override;

  // A request asked for this key, if anybody wants to know. Any thread.
  bool watches_lookups() const noexcept { return reuse_->mode() != ReuseMode::kAll; }
  void looked_up(std::uint64_t hash) noexcept { reuse_->looked_up(hash); }
  // Some disk takes records. While none does nothing is owed. `room`: and nothing must go for it.
  void set_accepting(bool accepting, bool room) noexcept;
  // Called when there is work and a lane found none before.
  void set_wake(std::function<void()> wake) { wake_ = std::move(wake); }

  // A version that is no route any more may be on its way to a disk all the same, and be durable
  // there in a moment. Asked after the route changed: none begins to be written later.
  bool is_writing(std::uint64_t version) const;
  // If it is: `gone` is called once that has ended and its record is given up durably, with how
  // that went. False: it is not, and `gone` is not called.
  using Gone = std::function<void(Result<void>)>;
  bool wait_gone(std::uint64_t version, Gone gone);

  // The record of this value was dropped to make room: it is not to be written again for its hot
  // copy's sake.
  void let_go(const route::Entry& entry) noexcept;
  bool accepting() const noexcept { return accepting_.load(std::memory_order_relaxed); }

  // Writes a second record of a value that has a hot copy and a record, in place of that: the disk
  // it is on is to be emptied. False: it has no record, or nothing takes it now.
  bool move(const route::EntryRef& entry);

  // For the lane of `device`: as WriteSource. `need_room` is how much the device lacks, if that is
  // why there is no job.
  std::optional<WriteJob> next(ColdDevice& device, env::Nanos now, env::Nanos& again,
                               std::uint64_t& need_room);
  // The value is copied: to `place`. Kept: its route leads there. Else the record is nobody's, and
  // `waiters` are to be told when it has been given up.
  struct Written {
    bool kept = false;
    std::vector<Gone> waiters;
  };
  Written written(ColdDevice& device, WriteJob& job, std::uint64_t place, env::Nanos now);
  void failed(ColdDevice& device, WriteJob job, const Error& error, env::Nanos now);

  // Calls `done` when about `bytes` that are owed now are not any more, or at `deadline`, on some
  // thread, once. False: waiting is in vain (nothing is owed, or too many wait), and it is not
  // called.
  static constexpr std::size_t kWaitersMax = 4096;
  bool wait_for_room(std::uint64_t bytes, env::Nanos deadline, std::function<void()> done);
  void tick(env::Nanos now);
  // True: nothing is queued or being written; false: that is still so at `deadline`.
  bool wait_idle(env::Nanos deadline);

  const OffloadStats& stats() const noexcept { return stats_; }
  OffloadCounts queue_counts() const;
  AdmissionCounts admission_counts() const;
  void forgive(std::uint8_t device);
  std::uint64_t memory_bytes() const;

 private:
  enum Owed : std::uint8_t {
    kNothing = 0,  // perhaps: looked at again when DRAM wants to drop it
    kOwed = 1,
    kQueued = 2,
    kLetGo = 3,  // given up, or dropped from disk for want of room: DRAM may drop it
  };
  struct Waiter {
    std::uint64_t bytes = 0;
    env::Nanos deadline = 0;
    std::function<void()> done;
  };
  Offloader(const ColdOptions& options, const Links& links);
  bool wanted(std::uint64_t hash) const noexcept;
  void owe(const route::Entry& entry) noexcept;
  void queue(const route::Entry& entry) noexcept;
  void settle(const route::Entry& entry, Owed then = kNothing) noexcept;
  void give_back(const ColdDevice& device, const OffloadItem& item, env::Nanos now, bool again);
  void room_came(std::uint64_t bytes);
  bool take_off(const route::Entry& entry);
  std::vector<Gone> landed(std::uint64_t version);
  Result<extent::Reservation> reserve(ColdDevice& device, std::uint64_t bytes) const;
  void doubt(std::uint64_t version, const Error& error);
  void too_large(const ColdDevice& device, const OffloadItem& item, const route::Entry& entry,
                 env::Nanos now);
  std::uint64_t left_by(std::uint32_t slot) const;
  std::optional<OffloadItem> admitted(const ColdDevice& device, env::Nanos now, env::Nanos& again);
  WriteJob job_for(const OffloadItem& item, route::EntryRef entry) const;

  const ColdOptions options_;
  const Links links_;
  OffloadStats stats_;
  std::unique_ptr<ReuseFilter> reuse_;
  std::vector<std::atomic<std::uint8_t>> owed_;  // by slot
  std::atomic<bool> accepting_{false};
  std::atomic<bool> room_{true};
  std::atomic<bool> hungry_{true};  // a lane found nothing to do
  std::function<void()> wake_;
  mutable std::mutex mutex_;  // of queue and admission; taken under the hot store's
  std::unique_ptr<OffloadQueue> queue_;
  std::unique_ptr<Admission> admission_;
  std::unordered_map<std::uint32_t, std::uint64_t> moving_;         // slot: the place to be left
  std::unordered_map<std::uint64_t, std::vector<Gone>> in_flight_;  // by version; who waits
  // Versions whose write failed so that nobody knows what of them is on the disk.
  static constexpr std::size_t kDoubtfulMax = 65536;
  std::unordered_map<std::uint64_t, Error> doubtful_;
  std::uint64_t writing_ = 0;
  std::condition_variable idle_;
  mutable std::mutex waiters_mutex_;
  std::deque<Waiter> waiters_;
  std::uint64_t came_ = 0;  // room since the first of them began to wait
};

}  // namespace larder::tier
