// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "apps/bench/store_probe.h"

namespace larder::apps {
namespace {

ExchangeShape shape_of(const CaseName& name, Wait wait) {
  ExchangeShape shape;
  shape.path = name.path;
  shape.wait = wait;
  shape.connections = name.clients;
  shape.items = name.batch;
  shape.value_bytes = name.batch * name.value_bytes;
  if (is_put(name.op)) {
    shape.up_bytes = shape.value_bytes;
  } else {
    shape.up_bytes = (name.batch - 1) * kRawHeaderBytes;  // the first is the request itself
    shape.down_bytes = shape.value_bytes;
  }
  return shape;
}

Result<ProbePtr> round_trip_lookups(const CaseName& name, const StoreContext& context, Wait wait) {
  const auto keys = context.data->keys();
  ExchangeShape shape;
  shape.path = name.path;
  shape.wait = wait;
  shape.connections = name.clients;
  shape.items = name.batch;
  shape.up_bytes = lookup_request_bytes(keys.first(std::min(name.batch, keys.size())));
  shape.down_bytes = lookup_reply_bytes(name.batch);
  shape.value_bytes = shape.up_bytes;
  return make_round_trip_lookup_limit(context.peer, shape, context.local, keys, name.batch);
}

Result<ProbePtr> socket_limit(const CaseName& name, const StoreContext& context, LimitKind kind,
                              Wait wait) {
  if (kind == LimitKind::kRoundTripLookups) return round_trip_lookups(name, context, wait);
  if (kind == LimitKind::kRequestReply) {
    return make_exchange_limit(context.peer, shape_of(name, wait), context.local);
  }
  const Direction direction = is_put(name.op) ? Direction::kUp : Direction::kDown;
  return make_stream_limit(context.peer, name.path, wait, direction, name.clients, name.value_bytes,
                           context.local);
}

Result<ProbePtr> memory_limit(const CaseName& name, const StoreContext& context, LimitKind kind) {
  if (kind == LimitKind::kLookupMemcpy) {
    return make_lookup_copy_limit(context.data->keys(), name.value_bytes, name.clients,
                                  context.shared, context.local);
  }
  if (kind == LimitKind::kCopyChecksum) {
    return make_copy_limit(CopyKind::kInChecksum, name.value_bytes, name.clients, context.local,
                           context.shared);
  }
  // The same bytes in all as the case reads.
  const auto set = context.shared.first(
      std::min<std::size_t>(context.shared.size(), context.data->keys().size() * name.value_bytes));
  return make_copy_limit(CopyKind::kOut, name.value_bytes, name.clients, set, context.local);
}

}  // namespace

Result<std::vector<ProbePtr>> make_case_limits(const CaseName& name, const StoreContext& context) {
  const LimitPlan plan = plan_limit(name);
  std::vector<ProbePtr> limits;
  const bool memory = plan.kind == LimitKind::kMemcpy || plan.kind == LimitKind::kLookupMemcpy ||
                      plan.kind == LimitKind::kCopyChecksum;
  if (memory) {
    LARDER_ASSIGN(ProbePtr limit, memory_limit(name, context, plan.kind));
    limits.push_back(std::move(limit));
    return limits;
  }
  for (const Wait wait : waits_for(plan.measure, context.options.wait)) {
    LARDER_ASSIGN(ProbePtr limit, socket_limit(name, context, plan.kind, wait));
    limits.push_back(std::move(limit));
  }
  return limits;
}

}  // namespace larder::apps
