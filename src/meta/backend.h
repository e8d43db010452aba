// SPDX-License-Identifier: Apache-2.0
// The small service by which peers find each other. Never on the path of a get or put.
//
// Threads: every method from any thread; each call is atomic. A call may block on the network, with
// a bound. Times are passed in: a backend reads no clock. Every argument is validated
// (kInvalidArgument, kTooLarge); a full backend answers kExhausted, one out of reach kUnavailable.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "larder/status.h"
#include "meta/records.h"

namespace larder::meta {

class MetadataBackend {
 public:
  virtual ~MetadataBackend() = default;

  // Leases. A high-water mark per stable id remembers the highest epoch ever seen; it outlives the
  // leases.
  //
  // A new incarnation: epoch = max(live epochs, mark) + 1; the one in `wanted` is ignored. Returns
  // the lease as stored.
  virtual Result<Lease> allocate_lease(const Lease& wanted, Micros now, Micros ttl) = 0;
  // Refreshes exactly this lease and replaces its contents. Where it is not there (any more), its
  // epoch must exceed every epoch seen, or equal the mark with no higher epoch live (a node whose
  // heartbeat had a gap). Else kConflict "stale epoch": a newer incarnation exists, stop. A lease
  // that is offline stays so: kConflict.
  virtual Result<Lease> upsert_lease(const Lease& lease, Micros now, Micros ttl) = 0;
  // Changes the state of a live lease, not its expiry. kNotFound when it is not live, kConflict
  // when it is offline already.
  virtual Result<Lease> set_state(std::string_view stable_id, std::uint64_t epoch, NodeState state,
                                  Micros now) = 0;
  // Ends a lease at once; the mark stays. kNotFound when it is not there.
  virtual Result<void> release_lease(std::string_view stable_id, std::uint64_t epoch) = 0;
  // kNotFound when it is not live.
  virtual Result<Lease> get_lease(std::string_view stable_id, std::uint64_t epoch, Micros now) = 0;
  // The live lease with the highest epoch; kNotFound when there is none.
  virtual Result<Lease> get_newest_lease(std::string_view stable_id, Micros now) = 0;
  // All live leases (whatever their state), by stable id, then epoch.
  virtual Result<std::vector<Lease>> list_live(Micros now) = 0;

  // Device records. Ownership of shared storage rests on the compare-and-set: of several writers
  // that read the same revision exactly one succeeds.
  //
  // kAlreadyExists when there is one.
  virtual Result<Record> put_device_if_absent(std::string_view id, std::string_view value) = 0;
  // kNotFound, or kConflict when the revision is another; the message names the current one.
  virtual Result<Record> update_device(std::string_view id, std::string_view value,
                                       std::uint64_t expected_revision) = 0;
  virtual Result<void> delete_device(std::string_view id, std::uint64_t expected_revision) = 0;
  virtual Result<Record> get_device(std::string_view id) = 0;
  virtual Result<std::vector<Record>> list_devices() = 0;  // by id

  // Policies: small values under keys. Expected revision 0 means "must not exist yet". kConflict
  // when what is there differs from what was expected.
  virtual Result<Record> put_policy(std::string_view key, std::string_view value,
                                    std::uint64_t expected_revision) = 0;
  virtual Result<void> delete_policy(std::string_view key, std::uint64_t expected_revision) = 0;
  virtual Result<Record> get_policy(std::string_view key) = 0;
  // Those whose keys begin with `prefix` (may be empty), by key.
  virtual Result<std::vector<Record>> list_policies(std::string_view prefix) = 0;
};

// "memory://NAME": kept in this process, shared by everybody who opens the same name, forgotten
// when the last of them lets go. NAME: 1 to 64 of A-Z a-z 0-9 . _ -. "memory://" alone is private.
// Errors: kInvalidArgument (not such a URL), kUnsupported (redis://, etcd://: not in this build).
Result<std::shared_ptr<MetadataBackend>> open_backend(std::string_view url);

}  // namespace larder::meta
