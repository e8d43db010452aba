// SPDX-License-Identifier: Apache-2.0
// The device records of the metadata service, as their owner changes them: every change is a
// compare-and-set against the record that was read, and is fenced by the owner's epoch.
//
// Threads: any. Calls may block on the metadata service; none belongs on the path of a get or put.
// An error of the service itself (kUnavailable, kExhausted) is passed on: nothing has changed, or
// it is not known whether it has, and the call may be repeated.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "env/clock.h"
#include "larder/status.h"
#include "meta/backend.h"
#include "tier/cold/device_record.h"

namespace larder::tier {

struct DeviceUsage {
  std::uint64_t used = 0;
  std::uint64_t reserved = 0;
};

struct DeviceList {
  std::vector<DeviceRecord> records;  // by id
  std::vector<Error> damaged;         // of records that could not be read, each with its id
};

class DeviceRegistry {
 public:
  // `clock` outlives the registry; its wall time is compared with that of other nodes' leases.
  DeviceRegistry(std::shared_ptr<meta::MetadataBackend> backend, const env::Clock& clock);

  // Makes `wanted.owner` the device's owner. It must hold a live lease of its own and be the newest
  // incarnation of its node. A new record is stored as wanted, without `updated_at`. Of one that is
  // there, kind, path, capacity and usage are replaced; failures, the last error and an operator's
  // states (draining, disabled) stay; full and failed end: whoever registers has just opened the
  // device. It may belong to the same incarnation, an earlier one of the same node, or a node that
  // has no live lease; kConflict, naming the owner, in all other cases.
  Result<DeviceRecord> enlist(const DeviceRecord& wanted);
  // Deletes the record. kConflict while the device is in use: healthy or full with anything on it.
  Result<void> unregister(std::string_view id, const DeviceOwner& owner);

  // Changes of state. The same state again is success and no change. kConflict when the table says
  // that it may not follow, or `owner` is not the record's owner; kNotFound without a record.
  Result<DeviceRecord> disable(std::string_view id, const DeviceOwner& owner);
  Result<DeviceRecord> enable(std::string_view id, const DeviceOwner& owner);
  Result<DeviceRecord> drain(std::string_view id, const DeviceOwner& owner);
  // By the owner: kHealthy, kFull or kFailed; `why` becomes the last error unless it is empty.
  Result<DeviceRecord> set_state(std::string_view id, const DeviceOwner& owner, DeviceState state,
                                 std::string_view why = {});

  // What the owner counted: it alone knows, so these are totals, and reporting twice does no harm.
  Result<DeviceRecord> report_usage(std::string_view id, const DeviceOwner& owner,
                                    DeviceUsage usage);
  // Adds to the failures; the state is another matter.
  Result<DeviceRecord> report_failures(std::string_view id, const DeviceOwner& owner,
                                       std::uint64_t more, std::string_view last_error);

  Result<DeviceRecord> get(std::string_view id);  // kCorrupt, kVersionMismatch: unreadable
  Result<DeviceList> list();

 private:
  struct Stored {
    DeviceRecord record;
    std::uint64_t revision = 0;
  };
  // Changes the record in place. False: nothing to change.
  using Edit = std::function<Result<bool>(DeviceRecord&)>;

  Result<Stored> read(std::string_view id);
  Result<DeviceRecord> change(std::string_view id, const DeviceOwner& owner, const Edit& edit);
  Result<DeviceRecord> move_to(std::string_view id, const DeviceOwner& owner, DeviceState to,
                               DeviceActor actor, std::string_view why);
  DeviceRecord taken_over(const DeviceRecord& wanted, const DeviceRecord& held) const;
  Result<void> check_registrant(const DeviceOwner& owner);
  Result<void> check_takeable(const DeviceRecord& held, const DeviceOwner& by);
  meta::Micros now() const;
  meta::Micros next_time(meta::Micros last) const;

  std::shared_ptr<meta::MetadataBackend> backend_;
  const env::Clock& clock_;
};

}  // namespace larder::tier
