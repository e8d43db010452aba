// SPDX-License-Identifier: Apache-2.0
// What a disk holds when it is taken into service: routes from the manifests of its records.
#include "env/thread.h"
#include "obs/log.h"
#include "tier/cold/cold_tier.h"
#include "tier/cold/place.h"

namespace larder::tier {

void ColdTier::recover(Seat& seat, const std::shared_ptr<ColdDevice>& device) {
  extent::RecoverOptions options;
  options.stop = &seat.stop;
  const auto report = device->store().recover(
      options, [&](const extent::RecordStore::Found& found) { return on_found(*device, found); });
  if (report) {
    obs::log(obs::Level::kInfo, "disk_scanned",
             {{"disk", device->path()},
              {"records", report->records},
              {"bytes", report->payload_bytes},
              {"orphans", report->dropped},
              {"damaged", report->damaged},
              {"read_bytes", report->bytes_read},
              {"ms", static_cast<std::uint64_t>(report->scan_nanos + report->build_nanos) /
                         static_cast<std::uint64_t>(env::kMilli)}});
  } else if (report.error().code() != Code::kCancelled) {
    device->set_last_error(report.error().to_string());
    obs::log(obs::Level::kError, "disk_scan_failed",
             {{"disk", device->path()}, {"error", report.error().to_string()}});
    device->set_broken();
    set_state(*device, DeviceState::kFailed);
  }
  {
    const std::lock_guard lock(removed_mutex_);
    if (recovering_.fetch_sub(1, std::memory_order_acq_rel) == 1) removed_.clear();
    recovered_.notify_all();
  }
  update_accepting();
  wake_lanes();
}

extent::RecordStore::Verdict ColdTier::on_found(ColdDevice& device,
                                                const extent::RecordStore::Found& found) {
  using Verdict = extent::RecordStore::Verdict;
  if (publish_found(device, found)) {
    device.counters().recovered.fetch_add(1, std::memory_order_relaxed);
    return Verdict::kKeep;
  }
  device.counters().orphans.fetch_add(1, std::memory_order_relaxed);
  return Verdict::kDrop;
}

// False: nobody wants the record.
bool ColdTier::publish_found(ColdDevice& device, const extent::RecordStore::Found& found) {
  const extent::Manifest& manifest = found.manifest;
  if (manifest.length == 0 || manifest.length > kLengthMax) return false;
  const auto space = links_.spaces->intern(manifest.tenant, manifest.domain, manifest.object_set);
  // No more key spaces: it stays on the disk, for a node with fewer of them.
  if (!space) return true;
  // A version that no node of this disk can have given is not to be believed, nor to be counted on
  // from.
  if (manifest.version >> route::kVersionBits > device.epoch()) return false;
  route::EntryFields fields;
  fields.key = route::key_in(*space, manifest.key);
  fields.version = manifest.version;
  fields.length = manifest.length;
  fields.checksum = manifest.checksum;
  fields.hot.segment = route::kNoSegment;
  fields.cold = Place{device.number(), found.id}.pack();
  links_.routes->see_version(manifest.version);
  device.index().insert(found.id, fields.key.hash, manifest.length);
  if (publish_newest(fields)) return true;
  device.index().erase(found.id);
  return false;
}

// What was put since the start is newer than anything on a disk. Of two records of one key, which a
// crash can leave, the newer stays.
bool ColdTier::publish_newest(const route::EntryFields& fields) {
  std::uint64_t expected = 0;
  while (true) {
    // Looked at for each try: a removal between the look and the publication wins.
    if (was_removed(fields.key.hash)) return false;
    const route::CasResult result = links_.routes->publish(expected, fields.make());
    if (result.applied) {
      if (!was_removed(fields.key.hash)) return true;
      return take_back(fields);
    }
    const route::EntryRef& present = result.current;
    if (!present) {
      expected = 0;
      continue;
    }
    if (present->has_hot() || present->cold() == 0 || present->version() >= fields.version ||
        present->state() != route::RouteState::kActive) {
      return false;
    }
    expected = present->version();
  }
}

// Removed while it was being published.
bool ColdTier::take_back(const route::EntryFields& fields) {
  if (const auto entry = links_.routes->find_record(fields.key.hash, fields.cold)) {
    if (links_.routes->drop_record(entry, fields.cold)) return true;  // on_forgotten releases it
  }
  return true;
}

bool ColdTier::note_removed(std::uint64_t hash) {
  if (!recovering()) return true;
  const std::lock_guard lock(removed_mutex_);
  if (!recovering()) return true;
  if (removed_.size() >= kRemovedMax) return false;
  removed_.insert(hash);
  return true;
}

bool ColdTier::was_removed(std::uint64_t hash) {
  const std::lock_guard lock(removed_mutex_);
  return removed_.contains(hash);
}

void ColdTier::finish_recovery() {
  std::unique_lock lock(removed_mutex_);
  recovered_.wait(lock, [this] { return !recovering(); });
}

}  // namespace larder::tier
