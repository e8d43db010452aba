// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/device_registry.h"

#include <algorithm>
#include <utility>

namespace larder::tier {
namespace {

// A conflict means that another change succeeded. So many in a row are no contention but a loop.
constexpr int kAttemptsMax = 32;

std::string device(std::string_view id) {
  return "device " + std::string(id.substr(0, meta::kNameBytesMax));
}

tl::unexpected<Error> contended(std::string_view id) {
  return fail(Code::kConflict, device(id) + " was changed " + std::to_string(kAttemptsMax) +
                                   " times meanwhile; try again");
}

bool is_lost_race(const Error& error) {
  return error.code() == Code::kConflict;
}

}  // namespace

DeviceRegistry::DeviceRegistry(std::shared_ptr<meta::MetadataBackend> backend,
                               const env::Clock& clock)
    : backend_(std::move(backend)), clock_(clock) {}

meta::Micros DeviceRegistry::now() const {
  return clock_.wall() / env::kMicro;
}

// Grows even where the clocks of two owners disagree.
meta::Micros DeviceRegistry::next_time(meta::Micros last) const {
  return std::clamp(now(), std::min(last + 1, meta::kTimeMax), meta::kTimeMax);
}

// ---- registration ----

// Without a lease of its own, a registrant could be an incarnation that was replaced long ago, and
// two nodes could take the same device from each other for ever.
Result<void> DeviceRegistry::check_registrant(const DeviceOwner& owner) {
  const auto newest = backend_->get_newest_lease(owner.stable_id, now());
  if (!newest && newest.error().code() != Code::kNotFound) return fail(newest.error());
  if (newest && newest->epoch == owner.epoch && newest->state != meta::NodeState::kOffline) {
    return {};
  }
  return fail(Code::kConflict,
              "node " + owner.to_string() +
                  (newest ? " is not the newest: " + std::to_string(newest->epoch) + " is live"
                          : " has no live lease") +
                  ", so it cannot register a device");
}

Result<void> DeviceRegistry::check_takeable(const DeviceRecord& held, const DeviceOwner& by) {
  if (held.owner.stable_id == by.stable_id) {
    if (held.owner.epoch <= by.epoch) return {};
    return fail(Code::kConflict, device(held.id) + " is owned by " + held.owner.to_string() +
                                     ", a later incarnation than " + by.to_string());
  }
  const auto live = backend_->get_newest_lease(held.owner.stable_id, now());
  if (!live && live.error().code() == Code::kNotFound) return {};
  LARDER_TRY(live);
  return fail(Code::kConflict, device(held.id) + " is owned by node " + held.owner.to_string() +
                                   " at " + held.path + ", which is live; stop that node, or " +
                                   "remove the device there");
}

Result<DeviceRecord> DeviceRegistry::enlist(const DeviceRecord& wanted) {
  LARDER_TRY(validate_device(wanted));
  LARDER_TRY(check_registrant(wanted.owner));
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    DeviceRecord fresh = wanted;
    fresh.updated_at = next_time(0);
    LARDER_ASSIGN(const std::string text, encode_device(fresh));
    const auto put = backend_->put_device_if_absent(fresh.id, text);
    if (put) return fresh;
    if (put.error().code() != Code::kAlreadyExists) return fail(put.error());
    const auto stored = read(wanted.id);
    if (!stored && stored.error().code() == Code::kNotFound) continue;  // removed meanwhile
    LARDER_TRY(stored);
    LARDER_TRY(check_takeable(stored->record, wanted.owner));
    const DeviceRecord taken = taken_over(wanted, stored->record);
    LARDER_ASSIGN(const std::string over, encode_device(taken));
    const auto done = backend_->update_device(taken.id, over, stored->revision);
    if (done) return taken;
    if (!is_lost_race(done.error()) && done.error().code() != Code::kNotFound) {
      return fail(done.error());
    }
  }
  return contended(wanted.id);
}

DeviceRecord DeviceRegistry::taken_over(const DeviceRecord& wanted,
                                        const DeviceRecord& held) const {
  DeviceRecord record = wanted;
  if (held.state == DeviceState::kDraining || held.state == DeviceState::kDisabledByAdmin) {
    record.state = held.state;
  }
  record.failures = held.failures;
  record.last_error = held.last_error;
  record.updated_at = next_time(held.updated_at);
  return record;
}

Result<void> DeviceRegistry::unregister(std::string_view id, const DeviceOwner& owner) {
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    LARDER_ASSIGN(const Stored stored, read(id));
    const DeviceRecord& record = stored.record;
    if (record.owner != owner) {
      return fail(Code::kConflict, device(id) + " is owned by " + record.owner.to_string() +
                                       ", not by " + owner.to_string());
    }
    const bool serves = record.state == DeviceState::kHealthy || record.state == DeviceState::kFull;
    if (serves && record.used + record.reserved > 0) {
      return fail(Code::kConflict, device(id) + " is in use: drain or disable it first");
    }
    auto gone = backend_->delete_device(id, stored.revision);
    if (gone || !is_lost_race(gone.error())) return gone;
  }
  return contended(id);
}

// ---- changes ----

Result<DeviceRecord> DeviceRegistry::disable(std::string_view id, const DeviceOwner& owner) {
  return move_to(id, owner, DeviceState::kDisabledByAdmin, DeviceActor::kAdmin, {});
}

Result<DeviceRecord> DeviceRegistry::enable(std::string_view id, const DeviceOwner& owner) {
  return change(id, owner, [](DeviceRecord& record) -> Result<bool> {
    // A full device is enabled already.
    if (record.state == DeviceState::kHealthy || record.state == DeviceState::kFull) return false;
    record.state = DeviceState::kHealthy;
    return true;
  });
}

Result<DeviceRecord> DeviceRegistry::drain(std::string_view id, const DeviceOwner& owner) {
  return move_to(id, owner, DeviceState::kDraining, DeviceActor::kAdmin, {});
}

Result<DeviceRecord> DeviceRegistry::set_state(std::string_view id, const DeviceOwner& owner,
                                               DeviceState state, std::string_view why) {
  return move_to(id, owner, state, DeviceActor::kOwner, why);
}

Result<DeviceRecord> DeviceRegistry::move_to(std::string_view id, const DeviceOwner& owner,
                                             DeviceState to, DeviceActor actor,
                                             std::string_view why) {
  return change(id, owner, [to, actor, why](DeviceRecord& record) -> Result<bool> {
    if (record.state == to) return false;
    if (!may_follow(record.state, to, actor)) {
      return fail(Code::kConflict, device(record.id) + " is " +
                                       std::string(device_state_name(record.state)) +
                                       ": it cannot become " + std::string(device_state_name(to)));
    }
    record.state = to;
    if (!why.empty()) record.last_error = device_error_text(why);
    return true;
  });
}

Result<DeviceRecord> DeviceRegistry::report_usage(std::string_view id, const DeviceOwner& owner,
                                                  DeviceUsage usage) {
  return change(id, owner, [usage](DeviceRecord& record) -> Result<bool> {
    if (record.used == usage.used && record.reserved == usage.reserved) return false;
    record.used = usage.used;
    record.reserved = usage.reserved;
    return true;
  });
}

Result<DeviceRecord> DeviceRegistry::report_failures(std::string_view id, const DeviceOwner& owner,
                                                     std::uint64_t more,
                                                     std::string_view last_error) {
  return change(id, owner, [more, last_error](DeviceRecord& record) -> Result<bool> {
    if (more == 0) return false;
    record.failures += std::min(more, UINT64_MAX - record.failures);
    if (!last_error.empty()) record.last_error = device_error_text(last_error);
    return true;
  });
}

Result<DeviceRecord> DeviceRegistry::change(std::string_view id, const DeviceOwner& owner,
                                            const Edit& edit) {
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    LARDER_ASSIGN(Stored stored, read(id));
    DeviceRecord& record = stored.record;
    if (record.owner != owner) {
      return fail(Code::kConflict, device(id) + " is owned by " + record.owner.to_string() +
                                       ", not by " + owner.to_string());
    }
    LARDER_ASSIGN(const bool changed, edit(record));
    if (!changed) return record;
    record.updated_at = next_time(record.updated_at);
    LARDER_ASSIGN(const std::string text, encode_device(record));
    const auto done = backend_->update_device(id, text, stored.revision);
    if (done) return record;
    if (!is_lost_race(done.error())) return fail(done.error());
  }
  return contended(id);
}

// ---- reading ----

Result<DeviceRegistry::Stored> DeviceRegistry::read(std::string_view id) {
  LARDER_ASSIGN(const meta::Record stored, backend_->get_device(id));
  auto record = decode_device(stored.value);
  if (!record) return fail(record.error().code(), device(id) + ": " + record.error().message());
  if (record->id != id) {
    return fail(Code::kCorrupt, device(id) + ": its record is of device " + record->id);
  }
  return Stored{std::move(*record), stored.revision};
}

Result<DeviceRecord> DeviceRegistry::get(std::string_view id) {
  LARDER_ASSIGN(Stored stored, read(id));
  return std::move(stored.record);
}

Result<DeviceList> DeviceRegistry::list() {
  LARDER_ASSIGN(const std::vector<meta::Record> all, backend_->list_devices());
  DeviceList out;
  for (const meta::Record& stored : all) {
    auto record = decode_device(stored.value);
    if (record && record->id == stored.key) {
      out.records.push_back(std::move(*record));
    } else {
      out.damaged.emplace_back(
          record ? Code::kCorrupt : record.error().code(),
          device(stored.key) + ": " +
              (record ? "its record is of device " + record->id : record.error().message()));
    }
  }
  return out;
}

}  // namespace larder::tier
