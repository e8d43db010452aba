// SPDX-License-Identifier: Apache-2.0
#include "node/away_disks.h"

#include <algorithm>

#include "obs/log.h"

namespace larder::node {

void AwayDisks::add(const std::string& disk, const Error& why, env::Nanos now) {
  const std::lock_guard lock(mutex_);
  const bool known =
      std::any_of(away_.begin(), away_.end(), [&](const Away& one) { return one.disk == disk; });
  if (known) return;
  away_.push_back({disk, now + kDelayMin, kDelayMin});
  if (const auto admitted = admit_(); !admitted) {
    const std::string both = admitted.error().to_string() + "; it failed with " + why.to_string();
    return leave_out(away_.back(), both);
  }
  obs::log(obs::Level::kWarn, "disk_away",
           {{"disk", disk},
            {"error", why.to_string()},
            {"action", "it is tried again until it is back"}});
}

std::vector<std::string> AwayDisks::due(env::Nanos now) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  for (const Away& one : away_) {
    if (one.due <= now && !one.left_out) all.push_back(one.disk);
  }
  return all;
}

void AwayDisks::note(const std::string& disk, const Result<void>& opened, env::Nanos now) {
  const std::lock_guard lock(mutex_);
  const auto one =
      std::find_if(away_.begin(), away_.end(), [&](const Away& a) { return a.disk == disk; });
  if (one == away_.end()) return;
  // An operator may have been quicker.
  if (opened || opened.error().code() == Code::kAlreadyExists) {
    obs::log(obs::Level::kInfo, "disk_back", {{"disk", disk}});
    away_.erase(one);
    return;
  }
  one->delay = std::min(2 * one->delay, kDelayMax);
  one->due = now + one->delay;
  obs::log(obs::Level::kWarn, "disk_still_away",
           {{"disk", disk}, {"error", opened.error().to_string()}});
}

void AwayDisks::leave_out(Away& one, const std::string& why) {
  one.left_out = true;
  obs::log(obs::Level::kError, "disk_left_out",
           {{"disk", one.disk},
            {"error", why},
            {"action", "it stays away until the node is started anew"}});
}

void AwayDisks::leave_all_out(const Error& why) {
  const std::lock_guard lock(mutex_);
  for (Away& one : away_) {
    if (!one.left_out) leave_out(one, why.to_string());
  }
}

void AwayDisks::step(env::Nanos now) {
  for (const std::string& disk : due(now)) {
    // Each that came back may have been the last.
    if (const auto admitted = admit_(); !admitted) return leave_all_out(admitted.error());
    note(disk, open_(disk), now);
  }
}

std::vector<std::string> AwayDisks::names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  for (const Away& one : away_) all.push_back(one.disk);
  return all;
}

}  // namespace larder::node
