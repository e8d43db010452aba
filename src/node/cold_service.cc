// SPDX-License-Identifier: Apache-2.0
#include "node/cold_service.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "env/clock.h"
#include "nvmf/host/url.h"
#include "obs/log.h"

namespace larder::node {
namespace {

constexpr env::Nanos kTickEvery = 20 * env::kMilli;
constexpr env::Nanos kReportEvery = 5 * env::kSecond;  // to the metadata service
constexpr env::Nanos kLookForLostEvery = 200 * env::kMilli;

// Its target is not there just now; nothing is wrong with what was asked for.
bool is_away(const tier::DiskSpec& disk, const Error& error) {
  return nvmf::is_nvme_url(disk.path) &&
         (error.code() == Code::kUnavailable || error.code() == Code::kDeadlineExceeded);
}

}  // namespace

Result<std::uint64_t> ColdService::last_epoch(const std::vector<tier::DiskSpec>& disks) {
  std::uint64_t highest = 0;
  for (const tier::DiskSpec& disk : disks) {
    const auto epoch = tier::ColdDevice::last_epoch(disk);
    if (!epoch && is_away(disk, epoch.error())) continue;
    if (!epoch) return fail(epoch.error());
    highest = std::max(highest, *epoch);
  }
  return highest;
}

Result<std::unique_ptr<ColdService>> ColdService::create(const ColdServiceOptions& options,
                                                         StoreCore& core, obs::Registry& metrics) {
  LARDER_ASSIGN(core.cold,
                tier::ColdTier::create(options.tier, {core.hot.get(), core.routes.get(),
                                                      &core.spaces, core.transfers.get()}));
  core.routes->set_record_owner(core.cold.get());
  std::unique_ptr<ColdService> made(new ColdService(options, core, metrics));
  core.devices = made.get();
  LARDER_TRY(made->add_tier_metrics());
  return made;
}

ColdService::~ColdService() {
  stop(0);
}

Result<void> ColdService::start(std::shared_ptr<meta::MetadataBackend> backend,
                                tier::DeviceOwner owner) {
  owner_ = std::move(owner);
  registry_ = std::make_unique<tier::DeviceRegistry>(std::move(backend), env::system_clock());
  for (const tier::DiskSpec& disk : options_.disks) {
    const auto opened = open(disk);
    if (opened) continue;
    if (!is_away(disk, opened.error())) return fail(opened.error());
    away_.add(disk.path, opened.error(), env::monotonic_now());
  }
  // A thread of its own: the scrubber waits for disks, and nothing else may wait for it.
  executor_ = env::make_thread_executor(env::system_clock());
  executor_->add("cold", [this](env::Nanos now) {
    tick(now);
    return now + kTickEvery;
  });
  connector_ = env::make_thread_executor(env::system_clock());
  connector_->add("remote", [this](env::Nanos now) {
    look_for_lost_disks(now);
    away_.step(now);
    return now + kLookForLostEvery;
  });
  return {};
}

void ColdService::stop(env::Nanos deadline) {
  if (connector_) connector_->stop();
  connector_.reset();
  if (executor_) executor_->stop();
  executor_.reset();
  const std::lock_guard lock(mutex_);
  series_.clear();
  device_series_.clear();
  core_.devices = nullptr;
  core_.cold->stop(deadline);
}

void ColdService::tick(env::Nanos now) {
  core_.cold->tick(now);
  if (now < report_due_) return;
  report_due_ = now + kReportEvery;
  report();
}

// What the metadata service knows is for people and for peers that look for room: late is no harm.
void ColdService::report() {
  if (!registry_) return;
  for (const auto& device : core_.cold->devices()) {
    const extent::StoreStats stats = device->store().stats();
    static_cast<void>(registry_->report_usage(device->id(), owner_,
                                              {stats.used - stats.reserved, stats.reserved}));
    const tier::DeviceState state = device->state();
    const auto known = registry_->get(device->id());
    if (!known || known->state == state) continue;
    static_cast<void>(registry_->set_state(device->id(), owner_, state, device->last_error()));
  }
}

// A remote disk that failed is taken out, with its routes, and opened anew when its target is back:
// what is on it is then found by a scan, as at a start (seed 000, "Heartbeat health").
void ColdService::look_for_lost_disks(env::Nanos now) {
  for (const auto& device : core_.cold->devices()) {
    if (!device->is_remote() || !device->is_broken()) continue;
    const Error why(Code::kUnavailable, device->last_error());
    let_go(device);
    away_.add(device->path(), why, now);
  }
}

void ColdService::let_go(const std::shared_ptr<tier::ColdDevice>& device) {
  const std::lock_guard lock(mutex_);
  const std::string& id = device->id();
  // What the metadata service says of it is late at most; it is told again when the disk is back.
  static_cast<void>(
      registry_->set_state(id, owner_, tier::DeviceState::kFailed, device->last_error()));
  static_cast<void>(registry_->unregister(id, owner_));
  device_series_.erase(id);
  static_cast<void>(core_.cold->take_out(device));  // it cannot be closed in order
}

// ---- the set of disks ----

Result<std::shared_ptr<tier::ColdDevice>> ColdService::open(const tier::DiskSpec& disk) {
  LARDER_TRY(core_.cold->can_add());
  const std::string who = owner_.to_string() + " (process " + std::to_string(::getpid()) + ")";
  LARDER_ASSIGN(auto device,
                tier::ColdDevice::open(disk, options_.tier, who, core_.fence->epoch()));
  LARDER_TRY(enlist(*device));
  LARDER_TRY(core_.cold->add(device));
  LARDER_TRY(add_device_metrics(device));
  return device;
}

Result<void> ColdService::enlist(tier::ColdDevice& device) {
  const extent::StoreStats stats = device.store().stats();
  tier::DeviceRecord record;
  record.id = device.id();
  record.kind = device.is_remote()                          ? tier::DeviceKind::kRemote
                : device.device().identity().kind == "disk" ? tier::DeviceKind::kRaw
                                                            : tier::DeviceKind::kFile;
  record.path = device.path();
  record.owner = owner_;
  record.capacity = stats.capacity;
  LARDER_ASSIGN(const tier::DeviceRecord stored, registry_->enlist(record));
  device.set_state(stored.state);  // an operator's word outlives the node
  return {};
}

Result<std::shared_ptr<tier::ColdDevice>> ColdService::find(const std::string& id) const {
  for (const auto& device : core_.cold->devices()) {
    if (device->id() == id) return device;
  }
  return fail(Code::kNotFound, "this node has no disk " + id + "; larder device ls shows them");
}

DeviceStatus ColdService::status_of(tier::ColdDevice& device) {
  const extent::StoreStats stats = device.store().stats();
  const tier::ColdCounters& counters = device.counters();
  DeviceStatus status;
  status.id = device.id();
  status.path = device.path();
  status.state = device.state();
  status.capacity = stats.capacity;
  status.used = stats.used;
  status.records = stats.records;
  status.errors = counters.read_errors + counters.write_errors + counters.corrupt;
  status.last_error = tier::device_error_text(device.last_error());
  return status;
}

Result<std::vector<DeviceStatus>> ColdService::list() {
  std::vector<DeviceStatus> all;
  for (const auto& device : core_.cold->devices()) all.push_back(status_of(*device));
  return all;
}

Result<DeviceStatus> ColdService::add(const std::string& path, std::uint64_t size) {
  // As in cold.disks, the size may be part of it.
  LARDER_ASSIGN(tier::DiskSpec disk, tier::parse_disk(path));
  if (size != 0) disk.bytes = size;
  const std::lock_guard lock(mutex_);
  for (const auto& device : core_.cold->devices()) {
    if (device->path() == disk.path) {
      return fail(Code::kAlreadyExists, "disk " + disk.path + " is in service already");
    }
  }
  LARDER_TRY(core_.cold->can_add());
  LARDER_ASSIGN(const std::uint64_t epoch, tier::ColdDevice::last_epoch(disk));
  if (epoch > core_.fence->epoch()) {
    return fail(Code::kConflict,
                "disk " + disk.path + " was used by a later incarnation of a node (" +
                    std::to_string(epoch) + "); name it in cold.disks and start this node again");
  }
  LARDER_ASSIGN(const auto device, open(disk));
  return status_of(*device);
}

// The metadata service has agreed to the change; now it happens.
Result<DeviceStatus> ColdService::changed(const std::shared_ptr<tier::ColdDevice>& device,
                                          const Result<tier::DeviceRecord>& record) {
  if (!record) return fail(record.error());
  core_.cold->set_state(*device, record->state);
  return status_of(*device);
}

Result<DeviceStatus> ColdService::drain(const std::string& id) {
  const std::lock_guard lock(mutex_);
  LARDER_ASSIGN(const auto device, find(id));
  return changed(device, registry_->drain(id, owner_));
}

Result<DeviceStatus> ColdService::disable(const std::string& id) {
  const std::lock_guard lock(mutex_);
  LARDER_ASSIGN(const auto device, find(id));
  return changed(device, registry_->disable(id, owner_));
}

Result<DeviceStatus> ColdService::enable(const std::string& id) {
  const std::lock_guard lock(mutex_);
  LARDER_ASSIGN(const auto device, find(id));
  if (device->is_broken()) {
    return fail(Code::kConflict, "disk " + device->path() + " has failed (" + device->last_error() +
                                     "); take it out (larder device rm) and add it again");
  }
  return changed(device, registry_->enable(id, owner_));
}

Result<void> ColdService::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  LARDER_ASSIGN(const auto device, find(id));
  const extent::StoreStats stats = device->store().stats();
  LARDER_TRY(registry_->report_usage(id, owner_, {stats.used - stats.reserved, stats.reserved}));
  LARDER_TRY(registry_->unregister(id, owner_));
  device_series_.erase(id);
  return core_.cold->take_out(device);
}

// ---- metrics ----

Result<void> ColdService::add_tier_metrics() {
  const tier::OffloadStats& offload = core_.cold->offloader().stats();
  const tier::RestoreStats& restore = core_.cold->restorer().stats();
  const tier::Offloader& offloader = core_.cold->offloader();
  const auto number = [](const std::atomic<std::uint64_t>& value) {
    return [&value] { return static_cast<double>(value.load(std::memory_order_relaxed)); };
  };
  struct Series {
    const char* name;
    const char* help;
    std::function<double()> read;
  };
  Series all[] = {
      {"larder_cold_owed_objects", "values in DRAM that are to be on disk and are not yet",
       number(offload.owed)},
      {"larder_cold_owed_bytes", "their bytes", number(offload.owed_bytes)},
      {"larder_cold_unwanted_total", "values not worth writing (cold.admit)",
       number(offload.unwanted)},
      {"larder_cold_given_up_total", "values that could not be written", number(offload.given_up)},
      {"larder_cold_too_late_total", "values written and gone by then", number(offload.too_late)},
      {"larder_cold_room_waits_total", "puts that waited for the disks",
       number(offload.room_waits)},
      {"larder_cold_queue_objects", "values that wait to be written",
       [&offloader] { return double(offloader.queue_counts().size); }},
      {"larder_cold_queue_delayed", "of those, after a failure",
       [&offloader] { return double(offloader.queue_counts().delayed); }},
      {"larder_cold_write_pauses_total", "disks paused after errors",
       [&offloader] { return double(offloader.admission_counts().pauses); }},
      {"larder_cold_restores_total", "reads of values begun", number(restore.flights)},
      {"larder_cold_restores_joined_total", "gets that found theirs under way",
       number(restore.joined)},
      {"larder_cold_restores_waited_total", "reads that waited for memory", number(restore.waited)},
      {"larder_cold_restores_refused_total", "gets refused: too many wait",
       number(restore.refused)},
      {"larder_cold_restores_missed_total", "values that were gone, or bad",
       number(restore.missed)},
      {"larder_cold_promoted_total", "values that got a copy in DRAM again",
       number(restore.promoted)},
      {"larder_cold_restore_bytes", "memory in use by reads", number(restore.bytes_in_flight)},
      {"larder_cold_metadata_bytes", "memory of the disk tier's books",
       [this] { return double(core_.cold->memory_bytes()); }},
      {"larder_disks_away", "remote disks whose targets are not there",
       [this] { return double(away_.names().size()); }},
      {"larder_cold_scanning", "disks being scanned",
       [this] { return core_.cold->recovering() ? 1.0 : 0.0; }},
  };
  for (Series& one : all) {
    LARDER_ASSIGN(auto handle, metrics_.callback(one.name, one.help, std::move(one.read)));
    series_.push_back(std::move(handle));
  }
  return {};
}

Result<void> ColdService::add_device_metrics(const std::shared_ptr<tier::ColdDevice>& device) {
  struct Series {
    const char* name;
    const char* help;
    double (*read)(tier::ColdDevice&);
  };
  using Device = tier::ColdDevice;
  const Series all[] = {
      {"larder_disk_capacity_bytes", "for values",
       [](Device& d) { return double(d.store().stats().capacity); }},
      {"larder_disk_used_bytes", "whole blocks",
       [](Device& d) { return double(d.store().stats().used); }},
      {"larder_disk_payload_bytes", "bytes of values",
       [](Device& d) { return double(d.store().stats().payload_bytes); }},
      {"larder_disk_releasing_bytes", "given up, not durably so yet",
       [](Device& d) { return double(d.store().stats().releasing); }},
      {"larder_disk_records", "values",
       [](Device& d) { return double(d.store().stats().records); }},
      {"larder_disk_state", "0 healthy, 1 full, 2 draining, 3 failed, 4 disabled",
       [](Device& d) { return double(static_cast<unsigned>(d.state())); }},
      {"larder_disk_offloaded_total", "values written",
       [](Device& d) { return double(d.counters().offloaded.load()); }},
      {"larder_disk_offloaded_bytes_total", "their bytes",
       [](Device& d) { return double(d.counters().offloaded_bytes.load()); }},
      {"larder_disk_written_bytes_total", "all that was written: wear",
       [](Device& d) {
         return double(d.device().stats().kinds[std::size_t(block::OpKind::kWrite)].bytes);
       }},
      {"larder_disk_flushes_total", "flushes",
       [](Device& d) {
         return double(d.device().stats().kinds[std::size_t(block::OpKind::kFlush)].ops);
       }},
      {"larder_disk_restored_total", "values read",
       [](Device& d) { return double(d.counters().restored.load()); }},
      {"larder_disk_restored_bytes_total", "their bytes",
       [](Device& d) { return double(d.counters().restored_bytes.load()); }},
      {"larder_disk_direct_total", "values that clients were told to read themselves",
       [](Device& d) { return double(d.counters().direct.load()); }},
      {"larder_disk_direct_bytes_total", "their bytes",
       [](Device& d) { return double(d.counters().direct_bytes.load()); }},
      {"larder_disk_read_errors_total", "values that could not be read",
       [](Device& d) { return double(d.counters().read_errors.load()); }},
      {"larder_disk_write_errors_total", "values that could not be written",
       [](Device& d) { return double(d.counters().write_errors.load()); }},
      {"larder_disk_corrupt_total", "values that were not what was written",
       [](Device& d) { return double(d.counters().corrupt.load()); }},
      {"larder_disk_evicted_total", "values dropped to make room",
       [](Device& d) { return double(d.counters().evicted.load()); }},
      {"larder_disk_recovered_total", "values found at the start",
       [](Device& d) { return double(d.counters().recovered.load()); }},
      {"larder_disk_orphans_total", "found and wanted by nobody",
       [](Device& d) { return double(d.counters().orphans.load()); }},
      {"larder_disk_damaged_headers_total", "found by the scan",
       [](Device& d) { return double(d.store().stats().damaged_headers); }},
      {"larder_disk_read_queue", "reads that wait or are under way",
       [](Device& d) { return double(d.reads().outstanding()); }},
      {"larder_disk_writes_under_way", "values",
       [](Device& d) { return double(d.writes().under_way()); }},
  };
  std::vector<obs::CallbackHandle>& handles = device_series_[device->id()];
  for (const Series& one : all) {
    LARDER_ASSIGN(
        auto handle,
        metrics_.callback(one.name, one.help, [device, read = one.read] { return read(*device); },
                          {{"disk", device->path()}}));
    handles.push_back(std::move(handle));
  }
  return {};
}

}  // namespace larder::node
