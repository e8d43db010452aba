// SPDX-License-Identifier: Apache-2.0
// The node's disks: opened at the start, added and taken out by an operator, known to the metadata
// service, shown in the metrics.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "env/thread.h"
#include "larder/status.h"
#include "node/store_core.h"
#include "tier/cold/cold_tier.h"
#include "tier/cold/device_registry.h"

namespace larder::node {

struct ColdServiceOptions {
  tier::ColdOptions tier;
  std::vector<tier::DiskSpec> disks;
};

// Any thread.
class ColdService {
 public:
  // The highest epoch that any of the disks knows; 0: they are all new.
  static Result<std::uint64_t> last_epoch(const std::vector<tier::DiskSpec>& disks);
  // Makes core.cold. Before the first request; `core` outlives it.
  static Result<std::unique_ptr<ColdService>> create(const ColdServiceOptions& options,
                                                     StoreCore& core, obs::Registry& metrics);
  ~ColdService();

  // Takes the configured disks into service; `owner` holds a live lease in `backend`.
  Result<void> start(std::shared_ptr<meta::MetadataBackend> backend, tier::DeviceOwner owner);
  // Writes what is owed until `deadline`; idempotent.
  void stop(env::Nanos deadline);
  void tick(env::Nanos now);

  // As an operator asks. `id`: of a device, or the beginning of exactly one.
  Result<void> add(const tier::DiskSpec& disk);
  Result<void> drain(const std::string& id);
  Result<void> disable(const std::string& id);
  Result<void> enable(const std::string& id);
  // kConflict while values are on it that are nowhere else, unless it was drained or disabled.
  Result<void> remove(const std::string& id);

 private:
  ColdService(const ColdServiceOptions& options, StoreCore& core, obs::Registry& metrics)
      : options_(options), core_(core), metrics_(metrics) {}
  Result<std::shared_ptr<tier::ColdDevice>> find(const std::string& id) const;
  Result<void> open(const tier::DiskSpec& disk);
  Result<void> enlist(tier::ColdDevice& device);
  Result<void> add_tier_metrics();
  Result<void> add_device_metrics(const std::shared_ptr<tier::ColdDevice>& device);
  void report(env::Nanos now);

  const ColdServiceOptions options_;
  StoreCore& core_;
  obs::Registry& metrics_;
  std::unique_ptr<tier::DeviceRegistry> registry_;
  tier::DeviceOwner owner_;
  std::mutex mutex_;  // of changes to the set of disks
  std::vector<obs::CallbackHandle> series_;
  std::unordered_map<std::string, std::vector<obs::CallbackHandle>> device_series_;  // by id
  env::Nanos report_due_ = 0;
  std::unique_ptr<env::Executor> executor_;  // last: its steps use all of the above
};

}  // namespace larder::node
