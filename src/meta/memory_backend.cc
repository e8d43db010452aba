// SPDX-License-Identifier: Apache-2.0
#include "meta/memory_backend.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace larder::meta {
namespace {

std::string runtime_text(std::string_view stable_id, std::uint64_t epoch) {
  return std::string(stable_id) + ":" + std::to_string(epoch);
}

// A table of records with compare-and-set; the caller holds the lock.
class RecordTable {
 public:
  RecordTable(std::string what, std::size_t records_max)
      : what_(std::move(what)), records_max_(records_max) {}

  const Record* find(std::string_view key) const {
    const auto found = records_.find(key);
    return found == records_.end() ? nullptr : &found->second;
  }

  Result<Record> create(std::string_view key, std::string_view value, std::uint64_t revision) {
    if (records_.size() >= records_max_) {
      return fail(Code::kExhausted, "no room for " + what_ + " '" + std::string(key) +
                                        "': " + std::to_string(records_max_) + " are kept at most");
    }
    Record record{std::string(key), std::string(value), revision};
    records_.emplace(record.key, record);
    return record;
  }

  // kNotFound or kConflict when `key` is not there with exactly this revision.
  Result<void> expect(std::string_view key, std::uint64_t revision) const {
    const Record* record = find(key);
    if (record == nullptr) return fail(missing(key));
    if (record->revision == revision) return {};
    return fail(Code::kConflict, what_ + " '" + record->key + "' is at revision " +
                                     std::to_string(record->revision) + ", not " +
                                     std::to_string(revision) + ": read it again");
  }

  Result<Record> update(std::string_view key, std::string_view value, std::uint64_t expected,
                        std::uint64_t revision) {
    LARDER_TRY(expect(key, expected));
    Record& record = records_.find(key)->second;
    record.value = std::string(value);
    record.revision = revision;
    return record;
  }

  Result<void> erase(std::string_view key, std::uint64_t expected) {
    LARDER_TRY(expect(key, expected));
    records_.erase(records_.find(key));
    return {};
  }

  Result<Record> get(std::string_view key) const {
    const Record* record = find(key);
    if (record == nullptr) return fail(missing(key));
    return *record;
  }

  std::vector<Record> list(std::string_view prefix) const {
    std::vector<Record> records;
    for (auto at = records_.lower_bound(prefix);
         at != records_.end() && at->first.starts_with(prefix); ++at) {
      records.push_back(at->second);
    }
    return records;
  }

 private:
  Error missing(std::string_view key) const {
    return {Code::kNotFound, "no " + what_ + " '" + std::string(key) + "'"};
  }

  std::string what_;
  std::size_t records_max_;
  std::map<std::string, Record, std::less<>> records_;
};

class MemoryBackend final : public MetadataBackend {
 public:
  explicit MemoryBackend(const MemoryBackendLimits& limits)
      : limits_(limits), devices_("device", limits.devices), policies_("policy", limits.policies) {}

  Result<Lease> allocate_lease(const Lease& wanted, Micros now, Micros ttl) override {
    LARDER_TRY(validate_lease(wanted));
    LARDER_TRY(validate_times(now, ttl));
    const std::lock_guard lock(mutex_);
    LARDER_ASSIGN(Node * node, node_for(wanted.stable_id, now));
    if (node->mark >= kEpochMax) return fail(Code::kExhausted, "no epoch is left");
    LARDER_TRY(make_room(wanted.stable_id, now));
    Lease lease = wanted;
    lease.epoch = node->mark + 1;  // the mark is never below a live epoch
    return store(*node, std::move(lease), now, ttl);
  }

  Result<Lease> upsert_lease(const Lease& lease, Micros now, Micros ttl) override {
    LARDER_TRY(validate_lease(lease));
    LARDER_TRY(validate_times(now, ttl));
    if (lease.epoch == 0) return fail(Code::kInvalidArgument, "a lease's epoch starts at 1");
    const std::lock_guard lock(mutex_);
    LARDER_ASSIGN(Node * node, node_for(lease.stable_id, now));
    const auto found = node->leases.find(lease.epoch);
    if (found != node->leases.end()) {
      LARDER_TRY(refuse_offline(found->second));
      return store(*node, lease, now, ttl);
    }
    // No higher epoch is live when this one equals the mark: every stored epoch is at most that.
    if (lease.epoch < node->mark || lease.epoch == node->offline) {
      return fail(Code::kConflict, "stale epoch: " + runtime_text(lease.stable_id, lease.epoch) +
                                       " is over, the newest seen is " +
                                       std::to_string(node->mark));
    }
    LARDER_TRY(make_room(lease.stable_id, now));
    return store(*node, lease, now, ttl);
  }

  Result<Lease> set_state(std::string_view stable_id, std::uint64_t epoch, NodeState state,
                          Micros now) override {
    if (state_name(state) == "unknown") {
      return fail(Code::kInvalidArgument, "unknown lease state");
    }
    const std::lock_guard lock(mutex_);
    LARDER_ASSIGN(Lease * lease, live(stable_id, epoch, now));
    LARDER_TRY(refuse_offline(*lease));
    lease->state = state;
    Node& node = nodes_.find(stable_id)->second;
    if (state == NodeState::kOffline) node.offline = std::max(node.offline, epoch);
    return *lease;
  }

  Result<void> release_lease(std::string_view stable_id, std::uint64_t epoch) override {
    LARDER_TRY(validate_name("stable id", stable_id));
    const std::lock_guard lock(mutex_);
    const auto node = nodes_.find(stable_id);
    if (node == nodes_.end() || node->second.leases.erase(epoch) == 0) {
      return fail(Code::kNotFound, "no lease " + runtime_text(stable_id, epoch));
    }
    --leases_;
    return {};
  }

  Result<Lease> get_lease(std::string_view stable_id, std::uint64_t epoch, Micros now) override {
    const std::lock_guard lock(mutex_);
    LARDER_ASSIGN(const Lease* lease, live(stable_id, epoch, now));
    return *lease;
  }

  Result<Lease> get_newest_lease(std::string_view stable_id, Micros now) override {
    LARDER_TRY(validate_name("stable id", stable_id));
    const std::lock_guard lock(mutex_);
    const auto node = nodes_.find(stable_id);
    if (node != nodes_.end()) {
      const auto& leases = node->second.leases;
      for (auto at = leases.rbegin(); at != leases.rend(); ++at) {
        if (at->second.expires_at > now) return at->second;
      }
    }
    return fail(Code::kNotFound, "no live lease of '" + std::string(stable_id) + "'");
  }

  Result<std::vector<Lease>> list_live(Micros now) override {
    const std::lock_guard lock(mutex_);
    std::vector<Lease> all;
    for (const auto& [id, node] : nodes_) {
      for (const auto& [epoch, lease] : node.leases) {
        if (lease.expires_at > now) all.push_back(lease);
      }
    }
    return all;
  }

  Result<Record> put_device_if_absent(std::string_view id, std::string_view value) override {
    LARDER_TRY(validate_record("device", id, value));
    const std::lock_guard lock(mutex_);
    if (devices_.find(id) != nullptr) {
      return fail(Code::kAlreadyExists, "device '" + std::string(id) + "' is registered already");
    }
    return devices_.create(id, value, ++revision_);
  }

  Result<Record> update_device(std::string_view id, std::string_view value,
                               std::uint64_t expected_revision) override {
    LARDER_TRY(validate_record("device", id, value));
    const std::lock_guard lock(mutex_);
    return devices_.update(id, value, expected_revision, ++revision_);
  }

  Result<void> delete_device(std::string_view id, std::uint64_t expected_revision) override {
    LARDER_TRY(validate_name("device key", id));
    const std::lock_guard lock(mutex_);
    return devices_.erase(id, expected_revision);
  }

  Result<Record> get_device(std::string_view id) override {
    LARDER_TRY(validate_name("device key", id));
    const std::lock_guard lock(mutex_);
    return devices_.get(id);
  }

  Result<std::vector<Record>> list_devices() override {
    const std::lock_guard lock(mutex_);
    return devices_.list({});
  }

  Result<Record> put_policy(std::string_view key, std::string_view value,
                            std::uint64_t expected_revision) override {
    LARDER_TRY(validate_record("policy", key, value));
    const std::lock_guard lock(mutex_);
    if (policies_.find(key) == nullptr && expected_revision == 0) {
      return policies_.create(key, value, ++revision_);
    }
    LARDER_TRY(expect_policy(key, expected_revision));
    return policies_.update(key, value, expected_revision, ++revision_);
  }

  Result<void> delete_policy(std::string_view key, std::uint64_t expected_revision) override {
    LARDER_TRY(validate_name("policy key", key));
    const std::lock_guard lock(mutex_);
    LARDER_TRY(expect_policy(key, expected_revision));
    return policies_.erase(key, expected_revision);
  }

  Result<Record> get_policy(std::string_view key) override {
    LARDER_TRY(validate_name("policy key", key));
    const std::lock_guard lock(mutex_);
    return policies_.get(key);
  }

  Result<std::vector<Record>> list_policies(std::string_view prefix) override {
    if (!prefix.empty()) LARDER_TRY(validate_name("policy prefix", prefix));
    const std::lock_guard lock(mutex_);
    return policies_.list(prefix);
  }

 private:
  struct Node {
    std::uint64_t mark = 0;     // the highest epoch ever seen
    std::uint64_t offline = 0;  // the highest epoch that was declared offline: no reclaim
    std::map<std::uint64_t, Lease> leases;
  };

  // The node's entry, made when new, without its expired leases.
  Result<Node*> node_for(const std::string& stable_id, Micros now) {
    const auto found = nodes_.find(stable_id);
    if (found == nodes_.end()) {
      if (nodes_.size() >= limits_.stable_ids) {
        return fail(Code::kExhausted, "no room for node '" + stable_id +
                                          "': " + std::to_string(limits_.stable_ids) +
                                          " stable ids are kept at most");
      }
      return &nodes_[stable_id];
    }
    drop_expired(found->second, now);
    return &found->second;
  }

  void drop_expired(Node& node, Micros now) {
    leases_ -= std::erase_if(node.leases,
                             [now](const auto& entry) { return entry.second.expires_at <= now; });
  }

  // For one more lease of `stable_id`. On failure no trace of a node that never had one stays.
  Result<void> make_room(const std::string& stable_id, Micros now) {
    if (leases_ < limits_.leases) return {};
    for (auto& [id, node] : nodes_) drop_expired(node, now);
    if (leases_ < limits_.leases) return {};
    const auto found = nodes_.find(stable_id);
    if (found != nodes_.end() && found->second.mark == 0) nodes_.erase(found);
    return fail(Code::kExhausted,
                std::to_string(limits_.leases) + " leases are live, which is the most kept");
  }

  Lease store(Node& node, Lease lease, Micros now, Micros ttl) {
    lease.expires_at = now + ttl;
    node.mark = std::max(node.mark, lease.epoch);
    if (lease.state == NodeState::kOffline) node.offline = std::max(node.offline, lease.epoch);
    const auto [at, added] = node.leases.insert_or_assign(lease.epoch, std::move(lease));
    leases_ += added ? 1 : 0;
    return at->second;
  }

  Result<Lease*> live(std::string_view stable_id, std::uint64_t epoch, Micros now) {
    LARDER_TRY(validate_name("stable id", stable_id));
    const auto node = nodes_.find(stable_id);
    if (node != nodes_.end()) {
      const auto found = node->second.leases.find(epoch);
      if (found != node->second.leases.end() && found->second.expires_at > now) {
        return &found->second;
      }
    }
    return fail(Code::kNotFound, "no live lease " + runtime_text(stable_id, epoch));
  }

  static Result<void> refuse_offline(const Lease& lease) {
    if (lease.state != NodeState::kOffline) return {};
    return fail(Code::kConflict,
                runtime_text(lease.stable_id, lease.epoch) + " is offline: allocate a new epoch");
  }

  // Unlike a device, a policy that is not there is a conflict: the caller expected a revision.
  Result<void> expect_policy(std::string_view key, std::uint64_t expected) const {
    auto expectation = policies_.expect(key, expected);
    if (expectation || expectation.error().code() == Code::kConflict) return expectation;
    return fail(Code::kConflict, "policy '" + std::string(key) + "' does not exist, revision " +
                                     std::to_string(expected) + " was expected");
  }

  const MemoryBackendLimits limits_;
  std::mutex mutex_;
  std::map<std::string, Node, std::less<>> nodes_;
  std::size_t leases_ = 0;
  std::uint64_t revision_ = 0;
  RecordTable devices_;
  RecordTable policies_;
};

}  // namespace

std::shared_ptr<MetadataBackend> make_memory_backend(const MemoryBackendLimits& limits) {
  return std::make_shared<MemoryBackend>(limits);
}

}  // namespace larder::meta
