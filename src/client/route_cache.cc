// SPDX-License-Identifier: Apache-2.0
#include "client/route_cache.h"

#include <bit>
#include <mutex>

namespace larder::client {

RouteCache::RouteCache(std::size_t entries)
    : sets_(entries == 0 ? 0 : std::bit_ceil((entries + kWays - 1) / kWays)) {}

RouteCache::Set& RouteCache::set_of(std::uint64_t hash) const noexcept {
  return sets_[hash & (sets_.size() - 1)];
}

bool RouteCache::find(std::string_view key, std::uint64_t hash, Route& into) const {
  if (sets_.empty()) return false;
  const Set& set = set_of(hash);
  const std::lock_guard lock(set.lock);
  for (const Entry& entry : set.ways) {
    if (entry.hash != hash || entry.key != key) continue;
    into = entry.route;
    return into.version != 0;
  }
  return false;
}

void RouteCache::insert(std::string_view key, std::uint64_t hash, const Route& route) {
  if (sets_.empty()) return;
  Set& set = set_of(hash);
  const std::lock_guard lock(set.lock);
  for (Entry& entry : set.ways) {
    if (entry.hash != hash || entry.key != key) continue;
    entry.route = route;
    return;
  }
  Entry& entry = set.ways[set.next++ % kWays];
  entry.hash = hash;
  entry.key.assign(key);
  entry.route = route;
}

void RouteCache::clear() {
  for (Set& set : sets_) {
    const std::lock_guard lock(set.lock);
    for (Entry& entry : set.ways) entry.route = {};
  }
}

}  // namespace larder::client
