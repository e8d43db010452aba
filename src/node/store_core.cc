// SPDX-License-Identifier: Apache-2.0
#include "node/store_core.h"

#include <algorithm>

namespace larder::node {

Result<StoreMetrics> register_store_metrics(obs::Registry& registry) {
  StoreMetrics metrics;
  for (std::uint16_t i = 0; i <= wire::kOpMax; ++i) {
    const std::string name(wire::op_name(static_cast<wire::Op>(i)));
    OpMetrics& op = metrics.ops[i];
    LARDER_ASSIGN(op.requests,
                  registry.counter("larder_requests_total", "calls by operation", {{"op", name}}));
    LARDER_ASSIGN(op.errors, registry.counter("larder_request_errors_total",
                                              "calls refused as a whole", {{"op", name}}));
    LARDER_ASSIGN(op.latency, registry.histogram("larder_request_seconds", "time inside the node",
                                                 {{"op", name}}));
  }
  const auto counter = [&registry](obs::Counter*& into, const char* name, const char* help) {
    auto made = registry.counter(name, help);
    if (made) into = *made;
    return made.has_value();
  };
  const bool all =
      counter(metrics.hits, "larder_get_hits_total", "keys found by get") &&
      counter(metrics.misses, "larder_get_misses_total", "keys not found by get") &&
      counter(metrics.puts, "larder_puts_total", "values stored") &&
      counter(metrics.puts_present, "larder_puts_present_total", "puts of bytes already stored") &&
      counter(metrics.bytes_put, "larder_put_bytes_total", "bytes of values stored") &&
      counter(metrics.bytes_got, "larder_get_bytes_total", "bytes of values sent") &&
      counter(metrics.damaged, "larder_put_damaged_total", "values damaged on the way here") &&
      counter(metrics.lease_expiries, "larder_pin_lease_expiries_total",
              "pins ended by their lease");
  if (!all) return fail(Code::kInternal, "the store's metrics could not be registered");
  LARDER_ASSIGN(metrics.cold_latency,
                registry.histogram("larder_cold_get_seconds", "gets that waited for a disk"));
  return metrics;
}

std::shared_ptr<PinTable> StoreCore::add_pin_table() {
  auto table = std::make_shared<PinTable>();
  const std::lock_guard lock(pins_mutex);
  std::erase_if(pin_tables, [](const auto& weak) { return weak.expired(); });
  pin_tables.push_back(table);
  return table;
}

void StoreCore::touch(const route::Entry& entry) noexcept {
  if (entry.has_hot()) {
    hot->touch(entry.hot().slot);
  } else if (cold) {
    cold->touch(entry.cold());
  }
}

std::size_t StoreCore::pins_total() {
  const std::lock_guard lock(pins_mutex);
  std::size_t total = 0;
  for (const auto& weak : pin_tables) {
    if (const auto table = weak.lock()) total += table->size();
  }
  return total;
}

void StoreCore::expire_pins(env::Nanos now) {
  const std::lock_guard lock(pins_mutex);
  for (const auto& weak : pin_tables) {
    if (const auto table = weak.lock()) metrics.lease_expiries->add(table->expire(now));
  }
}

}  // namespace larder::node
