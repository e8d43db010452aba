// SPDX-License-Identifier: Apache-2.0
// Who serializes the changes of a key's route. Here one authority owns every key; with more nodes
// the same calls go to the authority that the membership view names (DESIGN 3.1).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "larder/status.h"
#include "route/entry.h"

namespace larder::route {

// A version is the epoch of the node that gave it, in the upper bits, and a count.
inline constexpr unsigned kVersionBits = 40;
inline constexpr std::uint64_t kEpochMax = (1ULL << (64 - kVersionBits)) - 1;

struct CasResult {
  bool applied = false;
  EntryRef current;  // when not applied: what is there, empty for nothing
  // Applied, in place of another version: that one, and its record, which is nobody's now.
  std::uint64_t replaced = 0;
  std::uint64_t forgotten = 0;
};

// What a route said at one moment, without a reference: the bytes may be gone when it is read.
struct RouteView {
  std::uint64_t version = 0;  // 0: no Active route
  std::uint64_t length = 0;
  HotReplica hot;
  bool cold = false;  // there is a record on a device
};

// Any thread. No call blocks for longer than a lock is held: a few dozen instructions, or a group
// of look-ups.
class RouteAuthority {
 public:
  virtual ~RouteAuthority() = default;
  // The Active route, referenced; empty when there is none.
  virtual EntryRef find(const KeyRef& key) = 0;
  // The same for many keys, `into` of the same length. Keys are looked up in groups whose memory
  // loads overlap; nothing is referenced, so this is for questions and hints only.
  virtual void look_up(std::span<const KeyRef> keys, std::span<RouteView> into) noexcept = 0;
  // A hint that `find` follows soon: starts the memory loads.
  virtual void prefetch(std::uint64_t hash) noexcept = 0;
  // Makes `next` the route if the present version is `expected` (0: no route). A route that is
  // being deleted is never replaced.
  virtual CasResult publish(std::uint64_t expected, EntryRef next) = 0;
  // Active -> Deleting -> gone. From the first step on nobody finds the route, and nothing replaces
  // it; between the two the tiers delete. Without the second it stays Deleting, as the identity
  // under which the remove is tried again: a begin_remove() of a route that is Deleting gives it,
  // too. Empty: there is no such route.
  virtual EntryRef begin_remove(const KeyRef& key) = 0;
  virtual void end_remove(const EntryRef& entry) = 0;
  // Both, with `between`, which may be empty. kNotFound: there is no such route.
  Result<void> remove(const KeyRef& key, const std::function<Result<void>(const Entry&)>& between) {
    const EntryRef entry = begin_remove(key);
    if (!entry) return fail(Code::kNotFound, "no such object");
    if (between) LARDER_TRY(between(*entry));
    end_remove(entry);
    return {};
  }
  // Gives up the hot copy of `entry` if it is still the route and nobody but the table and the
  // caller holds it. With a record on a device the route stays, else it goes.
  virtual bool evict(const EntryRef& entry) = 0;

  // The record at `place` holds the bytes of `entry`. False: it is the route no longer (or has a
  // record already), and the record is the caller's still.
  virtual bool add_record(const EntryRef& entry, std::uint64_t place) = 0;
  // The route no longer leads to that record; without a hot copy it goes. RecordOwner hears of it.
  // False: it did not lead there, or is being deleted.
  virtual bool drop_record(const EntryRef& entry, std::uint64_t place) = 0;
  // The record has been copied to `to`: the route leads there instead of to `from`, of which
  // RecordOwner hears. False: as drop_record().
  virtual bool move_record(const EntryRef& entry, std::uint64_t from, std::uint64_t to) = 0;
  // Replaces `cold`, which has no hot copy, by `hot`, the same value with one; the record goes with
  // it. Not applied: `cold` is the route no longer.
  virtual CasResult promote(const EntryRef& cold, EntryRef hot) = 0;
  // The Active route of a key with this hash that leads to the record.
  virtual EntryRef find_record(std::uint64_t hash, std::uint64_t place) = 0;
  // A fresh version, greater than every one before it, in this and earlier incarnations.
  virtual std::uint64_t next_version() noexcept = 0;
  // A version that is stored: those to come are greater.
  virtual void see_version(std::uint64_t version) noexcept = 0;
};

}  // namespace larder::route
