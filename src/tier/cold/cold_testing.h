// SPDX-License-Identifier: Apache-2.0
// For the tests of this folder: a hot store with real disks (files) under it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "block/fault_device.h"
#include "env/clock.h"
#include "env/temp_directory.h"
#include "route/route_table.h"
#include "tier/cold/cold_tier.h"
#include "tier/cold/place.h"

namespace larder::tier {

using Bytes = std::vector<std::byte>;

inline Bytes make_value(std::uint64_t seed, std::size_t bytes) {
  Bytes value(bytes);
  for (std::byte& b : value) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    b = static_cast<std::byte>(seed >> 56U);
  }
  return value;
}

struct ColdBedOptions {
  std::uint64_t hot_bytes = 4U << 20U;
  ColdOptions cold = {};
};

// One incarnation of a node's two tiers. Its disks' files outlive it.
class ColdBed {
 public:
  explicit ColdBed(const std::string& directory, std::uint64_t epoch = 1,
                   ColdBedOptions options = {})
      : directory_(directory), epoch_(epoch), options_(std::move(options)) {
    HotOptions hot_options;
    hot_options.capacity = options_.hot_bytes;
    hot_options.pages = PageMode::k4K;
    hot_options.populate = false;
    hot = HotStore::create(hot_options).value();
    transfers = std::make_unique<qos::ManagedTransfers>(nullptr);
    // The tier outlives the routes, whose entries it is told of.
    routes = std::make_unique<route::RouteTable>(epoch);
    hot->set_authority(*routes);
    cold = ColdTier::create(options_.cold, {hot.get(), routes.get(), &spaces, transfers.get()})
               .value();
    routes->set_record_owner(cold.get());
    space = spaces.intern("t", "d", "o").value();
  }
  ~ColdBed() {
    cold->stop(0);
    routes.reset();
  }

  // In service, and scanned.
  std::shared_ptr<ColdDevice> add_disk(const std::string& name, std::uint64_t bytes,
                                       const ColdDevice::WrapDevice& wrap = {}) {
    auto device = open_disk(name, bytes, wrap);
    if (!device) ADD_FAILURE() << device.error().to_string();
    const auto added = cold->add(*device);
    if (!added) ADD_FAILURE() << added.error().to_string();
    cold->finish_recovery();
    return *device;
  }
  Result<std::shared_ptr<ColdDevice>> open_disk(const std::string& name, std::uint64_t bytes,
                                                const ColdDevice::WrapDevice& wrap = {}) {
    return ColdDevice::open({directory_ + "/" + name, bytes}, options_.cold, "test", epoch_, wrap);
  }
  // The same with faults; `fault` is set.
  std::shared_ptr<ColdDevice> add_faulty(const std::string& name, std::uint64_t bytes,
                                         std::shared_ptr<block::FaultDevice>& fault,
                                         const block::FaultOptions& faults = {}) {
    return add_disk(name, bytes, [&](std::shared_ptr<block::BlockDevice> inner) {
      fault = block::FaultDevice::create(std::move(inner), faults).value();
      return fault;
    });
  }

  route::KeyRef key(std::string_view name) const { return route::key_in(space, name); }
  route::EntryRef find(std::string_view name) { return routes->find(key(name)); }
  Code put(std::string_view name, const Bytes& value) {
    auto reservation = hot->reserve(value.size());
    if (!reservation) return reservation.error().code();
    std::memcpy(reservation->data(), value.data(), value.size());
    const route::EntryRef present = find(name);
    std::uint64_t version = 0;
    const auto done = hot->publish(key(name), present ? present->version() : 0, *reservation,
                                   checksum64(value), version);
    return done.applied ? Code::kOk : Code::kConflict;
  }
  // All that is owed has been written.
  bool settle() { return cold->offloader().wait_idle(env::monotonic_now() + 60 * env::kSecond); }
  // Puts, writes, and drops from DRAM.
  void put_cold(std::string_view name, const Bytes& value) {
    ASSERT_EQ(put(name, value), Code::kOk);
    ASSERT_TRUE(settle());
    evict(name);
    const route::EntryRef left = find(name);
    ASSERT_TRUE(left);
    ASSERT_FALSE(left->has_hot());
  }
  bool evict(std::string_view name) {
    const route::EntryRef entry = find(name);
    return entry && routes->evict(entry);
  }
  Result<RestoredRef> restore(std::string_view name, bool into_dram = false) {
    route::EntryRef entry = find(name);
    if (!entry) return fail(Code::kNotFound, "no route");
    return restore(std::move(entry), into_dram);
  }
  Result<RestoredRef> restore(route::EntryRef entry, bool into_dram = false) {
    std::promise<Result<RestoredRef>> promise;
    cold->restorer().restore(std::move(entry), {}, into_dram, [&](Result<RestoredRef> value) {
      promise.set_value(std::move(value));
    });
    return promise.get_future().get();
  }
  // The value as a reader gets it, from wherever it is; empty: none.
  Bytes read(std::string_view name) {
    const route::EntryRef entry = find(name);
    if (!entry) return {};
    if (entry->has_hot()) {
      const std::byte* data = hot->data(*entry);
      return {data, data + entry->length()};
    }
    const auto value = restore(entry);
    if (!value) return {};
    return {(*value)->data(), (*value)->data() + (*value)->length()};
  }
  Result<void> remove(std::string_view name) {
    cold->note_removed(key(name).hash);
    const route::EntryRef entry = routes->begin_remove(key(name));
    if (!entry) return fail(Code::kNotFound, "no such object");
    std::promise<Result<void>> promise;
    cold->forget(entry->version(), entry->cold(),
                 [&](Result<void> result) { promise.set_value(std::move(result)); });
    Result<void> result = promise.get_future().get();
    if (result) routes->end_remove(entry);
    return result;
  }
  void tick() { cold->tick(env::monotonic_now()); }

  static bool adds_up(ColdDevice& device) {
    const extent::StoreStats stats = device.store().stats();
    return stats.used + stats.free == stats.capacity;
  }

  route::Spaces spaces;
  route::Space space;
  std::unique_ptr<HotStore> hot;
  std::unique_ptr<qos::ManagedTransfers> transfers;
  std::unique_ptr<ColdTier> cold;
  std::unique_ptr<route::RouteTable> routes;

 private:
  const std::string directory_;
  const std::uint64_t epoch_;
  const ColdBedOptions options_;
};

}  // namespace larder::tier
