// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/device_registry.h"

#include <gtest/gtest.h>

#include <string>

#include "tier/cold/device_testing.h"

namespace larder::tier {
namespace {

constexpr env::Nanos kLease = 10 * env::kSecond;

class DeviceRegistryTest : public testing::Test {
 protected:
  DeviceRecord wanted(const DeviceOwner& owner) const {
    DeviceRecord record = sample_device();
    record.owner = owner;
    record.failures = 0;
    record.last_error.clear();
    record.updated_at = 0;
    return record;
  }
  DeviceOwner start(const std::string& stable_id) {
    return start_node(*backend_, clock_, stable_id, kLease / env::kMicro);
  }
  template <class T>
  static void expect_conflict(const Result<T>& result, std::string_view words) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Code::kConflict);
    EXPECT_NE(result.error().message().find(words), std::string::npos) << result.error().message();
  }

  env::ManualClock clock_;
  std::shared_ptr<meta::MetadataBackend> backend_ = meta::make_memory_backend();
  DeviceRegistry registry_{backend_, clock_};
  const std::string id_ = sample_device().id;
};

TEST_F(DeviceRegistryTest, EnlistedDevicesAreListed) {
  const DeviceOwner a = start("node-a");
  const DeviceRecord stored = registry_.enlist(wanted(a)).value();
  EXPECT_EQ(stored.updated_at, clock_.wall() / env::kMicro);
  EXPECT_EQ(registry_.get(id_).value(), stored);
  const DeviceList list = registry_.list().value();
  ASSERT_EQ(list.records.size(), 1U);
  EXPECT_EQ(list.records[0], stored);
  EXPECT_TRUE(list.damaged.empty());
  EXPECT_EQ(registry_.enlist(wanted(a))->owner, a);  // again
  EXPECT_EQ(registry_.get("0000abcd-4567-89ef-0123-456789abcdef").error().code(), Code::kNotFound);
}

TEST_F(DeviceRegistryTest, WrongRecordsAreNotEnlisted) {
  DeviceRecord record = wanted(start("node-a"));
  record.used = record.capacity + 1;
  EXPECT_EQ(registry_.enlist(record).error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(registry_.list()->records.empty());
}

TEST_F(DeviceRegistryTest, ALaterIncarnationTakesOver) {
  const DeviceOwner first = start("node-a");
  ASSERT_TRUE(registry_.enlist(wanted(first)));
  ASSERT_TRUE(registry_.report_failures(id_, first, 2, "EIO at 4096"));
  const DeviceOwner second = start("node-a");
  DeviceRecord moved = wanted(second);
  moved.path = "/mnt/elsewhere";
  moved.capacity = 2000;
  const DeviceRecord taken = registry_.enlist(moved).value();
  EXPECT_EQ(taken.owner, second);
  EXPECT_EQ(taken.path, "/mnt/elsewhere");
  EXPECT_EQ(taken.capacity, 2000U);
  EXPECT_EQ(taken.failures, 2U);
  EXPECT_EQ(taken.last_error, "EIO at 4096");
  // From here on the first is fenced off, whatever it tries.
  expect_conflict(registry_.enlist(wanted(first)), "not the newest");
  expect_conflict(registry_.report_usage(id_, first, {1, 1}), second.to_string());
  expect_conflict(registry_.report_failures(id_, first, 1, "x"), second.to_string());
  expect_conflict(registry_.set_state(id_, first, DeviceState::kFailed), second.to_string());
  expect_conflict(registry_.drain(id_, first), second.to_string());
  expect_conflict(registry_.disable(id_, first), second.to_string());
  expect_conflict(registry_.enable(id_, first), second.to_string());
  expect_conflict(registry_.unregister(id_, first), second.to_string());
  EXPECT_EQ(registry_.get(id_).value(), taken);
}

// Though no lease says so: the record has seen a later one than this.
TEST_F(DeviceRegistryTest, AnEarlierIncarnationDoesNotTakeOver) {
  const DeviceOwner a = start("node-a");
  const DeviceOwner later = {"node-a", a.epoch + 1};
  ASSERT_TRUE(backend_->put_device_if_absent(id_, encode_device(wanted(later)).value()));
  expect_conflict(registry_.enlist(wanted(a)), "a later incarnation");
}

TEST_F(DeviceRegistryTest, AnotherLiveNodesDeviceIsRefusedNamingIt) {
  const DeviceOwner a = start("node-a");
  ASSERT_TRUE(registry_.enlist(wanted(a)));
  const DeviceOwner b = start("node-b");
  expect_conflict(registry_.enlist(wanted(b)), a.to_string());
  EXPECT_EQ(registry_.get(id_)->owner, a);
  // Also when the record names an incarnation that is over, as long as the node is there.
  const DeviceOwner again = start("node-a");
  EXPECT_NE(again.epoch, a.epoch);
  expect_conflict(registry_.enlist(wanted(b)), a.to_string());
}

TEST_F(DeviceRegistryTest, ADeadNodesDeviceMayBeTaken) {
  const DeviceOwner a = start("node-a");
  ASSERT_TRUE(registry_.enlist(wanted(a)));
  clock_.advance(kLease);
  const DeviceOwner b = start("node-b");
  EXPECT_EQ(registry_.enlist(wanted(b))->owner, b);
  expect_conflict(registry_.report_usage(id_, a, {1, 1}), b.to_string());
}

TEST_F(DeviceRegistryTest, ARegistrantNeedsALeaseOfItsOwn) {
  expect_conflict(registry_.enlist(wanted({"node-a", 7})), "no live lease");
  const DeviceOwner a = start("node-a");
  expect_conflict(registry_.enlist(wanted({"node-a", a.epoch + 1})), "not the newest");
  ASSERT_TRUE(
      backend_->set_state("node-a", a.epoch, meta::NodeState::kOffline, clock_.wall() / 1000));
  expect_conflict(registry_.enlist(wanted(a)), "cannot register");
  EXPECT_TRUE(registry_.list()->records.empty());
}

// An operator's word outlasts a restart; what the device itself did does not.
TEST_F(DeviceRegistryTest, StatesAcrossARestart) {
  using enum DeviceState;
  DeviceOwner owner = start("node-a");
  ASSERT_TRUE(registry_.enlist(wanted(owner)));
  const auto restart = [&] {
    owner = start("node-a");
    return registry_.enlist(wanted(owner))->state;
  };
  ASSERT_TRUE(registry_.set_state(id_, owner, kFull));
  EXPECT_EQ(restart(), kHealthy);
  ASSERT_TRUE(registry_.set_state(id_, owner, kFailed, "gone"));
  EXPECT_EQ(restart(), kHealthy);
  EXPECT_EQ(registry_.get(id_)->last_error, "gone");
  ASSERT_TRUE(registry_.drain(id_, owner));
  EXPECT_EQ(restart(), kDraining);
  ASSERT_TRUE(registry_.disable(id_, owner));
  EXPECT_EQ(restart(), kDisabledByAdmin);
  ASSERT_TRUE(registry_.enable(id_, owner));
  EXPECT_EQ(restart(), kHealthy);
}

TEST_F(DeviceRegistryTest, StatesFollowTheTable) {
  using enum DeviceState;
  const DeviceOwner a = start("node-a");
  ASSERT_TRUE(registry_.enlist(wanted(a)));
  EXPECT_EQ(registry_.set_state(id_, a, kFull)->state, kFull);
  EXPECT_EQ(registry_.enable(id_, a)->state, kFull);  // it is enabled
  EXPECT_EQ(registry_.set_state(id_, a, kHealthy)->state, kHealthy);
  expect_conflict(registry_.set_state(id_, a, kDraining), "cannot become draining");
  EXPECT_EQ(registry_.drain(id_, a)->state, kDraining);
  expect_conflict(registry_.set_state(id_, a, kFull), "draining");
  const DeviceRecord failed = registry_.set_state(id_, a, kFailed, "EIO\n").value();
  EXPECT_EQ(failed.state, kFailed);
  EXPECT_EQ(failed.last_error, "EIO?");
  expect_conflict(registry_.set_state(id_, a, kHealthy), "failed");
  EXPECT_EQ(registry_.enable(id_, a)->state, kHealthy);
  EXPECT_EQ(registry_.disable(id_, a)->state, kDisabledByAdmin);
  expect_conflict(registry_.set_state(id_, a, kFailed), "disabled_by_admin");
}

TEST_F(DeviceRegistryTest, WhatChangesNothingIsNotStored) {
  const DeviceOwner a = start("node-a");
  ASSERT_TRUE(registry_.enlist(wanted(a)));
  const std::uint64_t revision = backend_->get_device(id_)->revision;
  EXPECT_TRUE(registry_.enable(id_, a));
  EXPECT_TRUE(registry_.set_state(id_, a, DeviceState::kHealthy, "why"));
  EXPECT_TRUE(registry_.report_usage(id_, a, {10, 20}));
  EXPECT_TRUE(registry_.report_failures(id_, a, 0, "none"));
  EXPECT_EQ(backend_->get_device(id_)->revision, revision);
}

TEST_F(DeviceRegistryTest, UsageAndFailures) {
  const DeviceOwner a = start("node-a");
  ASSERT_TRUE(registry_.enlist(wanted(a)));
  const DeviceRecord used = registry_.report_usage(id_, a, {900, 100}).value();
  EXPECT_EQ(used.used, 900U);
  EXPECT_EQ(used.reserved, 100U);
  EXPECT_EQ(registry_.report_usage(id_, a, {900, 101}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(registry_.get(id_)->reserved, 100U);
  EXPECT_EQ(registry_.report_failures(id_, a, 5, "read failed")->failures, 5U);
  const DeviceRecord most = registry_.report_failures(id_, a, UINT64_MAX, "").value();
  EXPECT_EQ(most.failures, UINT64_MAX);
  EXPECT_EQ(most.last_error, "read failed");
}

TEST_F(DeviceRegistryTest, TimesGrowThoughClocksDisagree) {
  const DeviceOwner a = start("node-a");
  const meta::Micros first = registry_.enlist(wanted(a))->updated_at;
  EXPECT_EQ(registry_.report_usage(id_, a, {1, 1})->updated_at, first + 1);
  clock_.advance(env::kSecond);
  EXPECT_EQ(registry_.report_usage(id_, a, {2, 1})->updated_at, first + 1'000'000);
}

TEST_F(DeviceRegistryTest, WhatIsInUseIsNotUnregistered) {
  const DeviceOwner a = start("node-a");
  ASSERT_TRUE(registry_.enlist(wanted(a)));
  expect_conflict(registry_.unregister(id_, a), "drain or disable it first");
  ASSERT_TRUE(registry_.disable(id_, a));
  EXPECT_TRUE(registry_.unregister(id_, a));
  EXPECT_EQ(registry_.unregister(id_, a).error().code(), Code::kNotFound);
  EXPECT_EQ(registry_.drain(id_, a).error().code(), Code::kNotFound);
  DeviceRecord empty = wanted(a);
  empty.used = 0;
  empty.reserved = 0;
  ASSERT_TRUE(registry_.enlist(empty));
  EXPECT_TRUE(registry_.unregister(id_, a));
}

TEST_F(DeviceRegistryTest, DamagedRecordsAreSetApart) {
  const DeviceOwner a = start("node-a");
  ASSERT_TRUE(registry_.enlist(wanted(a)));
  const std::string other = "1123abcd-4567-89ef-0123-456789abcdef";
  const std::string third = "2123abcd-4567-89ef-0123-456789abcdef";
  ASSERT_TRUE(backend_->put_device_if_absent(other, "{nonsense"));
  ASSERT_TRUE(backend_->put_device_if_absent(third, backend_->get_device(id_)->value));
  const DeviceList list = registry_.list().value();
  EXPECT_EQ(list.records.size(), 1U);
  ASSERT_EQ(list.damaged.size(), 2U);
  EXPECT_NE(list.damaged[0].message().find(other), std::string::npos);
  EXPECT_NE(list.damaged[1].message().find("is of device " + id_), std::string::npos);
  EXPECT_EQ(registry_.get(other).error().code(), Code::kCorrupt);
  EXPECT_EQ(registry_.get(third).error().code(), Code::kCorrupt);
  EXPECT_EQ(registry_.drain(other, a).error().code(), Code::kCorrupt);
  DeviceRecord over = wanted(a);
  over.id = other;
  EXPECT_EQ(registry_.enlist(over).error().code(), Code::kCorrupt);  // nothing is overwritten
  EXPECT_EQ(backend_->get_device(other)->value, "{nonsense");
}

}  // namespace
}  // namespace larder::tier
