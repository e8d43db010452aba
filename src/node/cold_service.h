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
#include "node/away_disks.h"
#include "node/device_control.h"
#include "node/store_core.h"
#include "tier/cold/cold_tier.h"
#include "tier/cold/device_registry.h"

namespace larder::node {

struct ColdServiceOptions {
  tier::ColdOptions tier;
  std::vector<tier::DiskSpec> disks;
};

// Any thread.
class ColdService final : public DeviceControl {
 public:
  // The highest epoch that any of the disks knows; 0: they are all new. Remote ones that cannot be
  // reached are left out.
  static Result<std::uint64_t> last_epoch(const std::vector<tier::DiskSpec>& disks);
  // Makes core.cold. Before the first request; `core` outlives it.
  static Result<std::unique_ptr<ColdService>> create(const ColdServiceOptions& options,
                                                     StoreCore& core, obs::Registry& metrics);
  ~ColdService() override;

  // Takes the configured disks into service; `owner` holds a live lease in `backend`. Remote ones
  // that cannot be reached are tried again later.
  Result<void> start(std::shared_ptr<meta::MetadataBackend> backend, tier::DeviceOwner owner);
  // Writes what is owed until `deadline`; idempotent.
  void stop(env::Nanos deadline);
  void tick(env::Nanos now);

  // DeviceControl
  Result<std::vector<DeviceStatus>> list() override;
  Result<DeviceStatus> add(const std::string& path, std::uint64_t size) override;
  Result<DeviceStatus> drain(const std::string& id) override;
  Result<DeviceStatus> disable(const std::string& id) override;
  Result<DeviceStatus> enable(const std::string& id) override;
  // kConflict while it is healthy or full and has values: drain or disable it first.
  Result<void> remove(const std::string& id) override;

 private:
  ColdService(const ColdServiceOptions& options, StoreCore& core, obs::Registry& metrics)
      : options_(options),
        core_(core),
        metrics_(metrics),
        away_(
            [this](const std::string& disk) -> Result<void> {
              LARDER_TRY(add(disk, 0));
              return {};
            },
            [this] { return core_.cold->can_add(); }) {}
  Result<std::shared_ptr<tier::ColdDevice>> find(const std::string& id) const;
  Result<std::shared_ptr<tier::ColdDevice>> open(const tier::DiskSpec& disk);
  static DeviceStatus status_of(tier::ColdDevice& device);
  Result<DeviceStatus> changed(const std::shared_ptr<tier::ColdDevice>& device,
                               const Result<tier::DeviceRecord>& record);
  Result<void> enlist(tier::ColdDevice& device);
  Result<void> add_tier_metrics();
  Result<void> add_device_metrics(const std::shared_ptr<tier::ColdDevice>& device);
  void report();
  void look_for_lost_disks(env::Nanos now);
  void let_go(const std::shared_ptr<tier::ColdDevice>& device);

  const ColdServiceOptions options_;
  StoreCore& core_;
  obs::Registry& metrics_;
  std::unique_ptr<tier::DeviceRegistry> registry_;
  tier::DeviceOwner owner_;
  std::mutex mutex_;  // of changes to the set of disks
  std::vector<obs::CallbackHandle> series_;
  std::unordered_map<std::string, std::vector<obs::CallbackHandle>> device_series_;  // by id
  env::Nanos report_due_ = 0;
  AwayDisks away_;
  std::unique_ptr<env::Executor> executor_;   // last: its steps use all of the above
  std::unique_ptr<env::Executor> connector_;  // waits for targets, which the other must not
};

}  // namespace larder::node
