// SPDX-License-Identifier: Apache-2.0
// The store's side of a case, and the limits that go with it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "apps/bench/case_name.h"
#include "apps/bench/dataset.h"
#include "apps/bench/limits.h"
#include "apps/bench/memory.h"
#include "apps/bench/node_session.h"
#include "apps/bench/options.h"
#include "apps/bench/probe.h"

namespace larder::apps {

// What the cases of one run share. Outlives every probe made with it.
struct StoreContext {
  const BenchOptions& options;
  const NodeSession& session;
  const RawPeer& peer;
  std::span<std::byte> local;   // private buffers that both sides of a comparison use
  std::span<std::byte> shared;  // node-like memory for the limits
  const Dataset* data = nullptr;
};

// A case's own probe: connects its clients, warms what the case says is warm.
Result<ProbePtr> make_get_probe(const CaseName& name, const StoreContext& context);
Result<ProbePtr> make_put_probe(const CaseName& name, const StoreContext& context);
Result<ProbePtr> make_lookup_probe(const CaseName& name, const StoreContext& context);
Result<ProbePtr> make_store_probe(const CaseName& name, const StoreContext& context);

// One or more probes (ways to wait) of the limit that plan_limit() names.
Result<std::vector<ProbePtr>> make_case_limits(const CaseName& name, const StoreContext& context);

// What one exists or match_prefix call must carry at the least: two bytes of length before each
// key, and a bit for each in the answer.
std::uint64_t lookup_request_bytes(std::span<const std::string_view> keys) noexcept;
std::uint64_t lookup_reply_bytes(std::size_t keys) noexcept;

}  // namespace larder::apps
