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

struct CasResult {
  bool applied = false;
  EntryRef current;  // when not applied: what is there, empty for nothing
};

// What a route said at one moment, without a reference: the bytes may be gone when it is read.
struct RouteView {
  std::uint64_t version = 0;  // 0: no Active route
  std::uint64_t length = 0;
  HotReplica hot;
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
  // Active -> Deleting -> gone, with `between` called in Deleting (the tiers' deletes; none yet).
  // When `between` fails the route stays Deleting, as the identity under which the remove is
  // retried. kNotFound when there is no such route.
  virtual Result<void> remove(const KeyRef& key,
                              const std::function<Result<void>(const Entry&)>& between) = 0;
  // Forgets `entry` if it is still the route and nobody but the table and the caller holds it.
  virtual bool evict(const EntryRef& entry) = 0;
  // A fresh version, greater than every one before it, in this and earlier incarnations.
  virtual std::uint64_t next_version() noexcept = 0;
};

}  // namespace larder::route
